"""Reads what `str(schedule)` prints: `parse_schedule(str(s)) == s`."""

from __future__ import annotations

from xjit.affine import AffineExpr, Interval
from xjit.emitters.schedule.schedule import Cost, Schedule
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Clear,
    Combination,
    Combine,
    Complete,
    Contract,
    Fetch,
    Give,
    Index,
    Init,
    Lanes,
    Let,
    Loop,
    Memory,
    Normalize,
    OperandTile,
    Part,
    Reduce,
    ReduceRows,
    Reduction,
    Rescale,
    Role,
    SoftmaxStep,
    Stage,
    StageOperand,
    StageSum,
    Statement,
    Store,
    Tile,
)
from xjit.emitters.schedule.tokens import TokenStream

_ROLES = {role.value: role for role in Role}
_ELEMENTS = {"init": Init, "stage": Stage, "fetch": Fetch}


def parse_schedule(text: str) -> Schedule:
    """Returns the schedule. Errors: HloParseError with the place."""
    tokens = TokenStream(text)
    schedule = _ScheduleParser(tokens).schedule()
    if not tokens.at_end:
        raise tokens.error("expected the end of the text")
    return schedule


class _ScheduleParser:
    """Recursive descent over one text; bounds are collected where variables are bound."""

    def __init__(self, tokens: TokenStream) -> None:
        self._tokens = tokens
        self._bounds: dict[int, Interval] = {}

    def schedule(self) -> Schedule:
        """Reads one schedule."""
        self._bounds = {}
        self._tokens.expect("schedule")
        instruction = self._tokens.name()
        suffix = self._tokens.next() if self._tokens.peek().startswith(".") else ""
        kind = self._tokens.next()
        numbers: list[int] = []
        for word in ("operations", "repeated", "bytes"):
            self._tokens.expect(",")
            self._tokens.expect(word)
            self._tokens.expect("=")
            numbers.append(self._tokens.integer())
        threads = 0
        if self._tokens.accept(","):
            self._tokens.expect("threads")
            self._tokens.expect("=")
            threads = self._tokens.integer()
        self._tokens.expect("{")
        lets: list[Let] = []
        while self._tokens.accept("let"):
            lets.append(self._let())
        parts: list[Part] = []
        while self._tokens.accept("part"):
            parts.append(self._part())
        self._tokens.expect("}")
        if sorted(self._bounds) != list(range(len(self._bounds))):
            raise self._tokens.error("variables must be d0, d1, ... without a gap")
        variables = tuple(self._bounds[p] for p in range(len(self._bounds)))
        return Schedule(instruction, kind, variables, tuple(parts), tuple(lets), suffix, Cost(*numbers), threads)

    # -- parts and statements

    def _let(self) -> Let:
        variable = self._bound_variable()
        self._tokens.expect("=")
        instruction, index, _ = self._element()
        return Let(variable, instruction, index)

    def _part(self) -> Part:
        self._tokens.expect("{")
        tiles: list[Tile] = []
        while self._tokens.accept("tile"):
            name = self._tokens.name()
            over = tuple(self._tokens.list_of(self._tokens.variable)) if self._tokens.accept("over") else ()
            self._tokens.expect("in")
            memory = Memory(self._tokens.one_of([m.value for m in Memory]))
            tiles.append(Tile(name, over, memory, self._tokens.expression() if self._tokens.accept("at") else None))
        operands: list[OperandTile] = []
        while self._tokens.accept("operand"):
            operands.append(self._operand_tile())
        return Part(self._body(), tuple(tiles), tuple(operands))

    def _operand_tile(self) -> OperandTile:
        operand = self._tokens.integer()
        self._tokens.expect("of")
        name = self._tokens.name()
        self._tokens.expect("as")
        kind = self._tokens.next()
        rows = self._tokens.integer()
        self._tokens.expect("x")
        steps = self._tokens.integer()
        self._tokens.expect("at")
        return OperandTile(name, operand, kind, (rows, steps), self._tokens.expression())

    def _body(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while not self._tokens.accept("}"):
            found.append(self._statement())
        return tuple(found)

    def _statement(self) -> Statement:
        if self._tokens.peek() in _ROLES:
            return self._loop()
        word = self._tokens.next()
        if word == "let":
            return self._let()
        if word == "reduce" and self._tokens.accept("rows"):
            variable = self._bound_variable()
            self._tokens.expect("of")
            return ReduceRows(self._reduction(), variable)
        if word == "reduce":
            where_needed = self._tokens.accept("where")
            if where_needed:
                self._tokens.expect("needed")
            fetches_next = self._tokens.accept("and")
            for expected in ("fetch", "next") if fetches_next else ():
                self._tokens.expect(expected)
            return Reduce(self._reduction(), where_needed, fetches_next)
        if word == "combine":
            return Combine(self._reduction())
        if word == "stage" and self._tokens.accept("operand"):
            return self._stage_operand()
        if word in _ELEMENTS:
            instruction, index, _ = self._element()
            return _ELEMENTS[word](instruction, index)
        if word == "give":
            instruction, index, _ = self._element()
            return Give(instruction, index, self._tokens.name() if self._tokens.accept("from") else "")
        if word == "bind":
            return self._bind()
        if word == "clear":
            return Clear(self._tokens.name())
        if word == "contract":
            return self._contract()
        if word == "complete":
            return self._complete()
        if word == "softmax":
            return self._softmax_step()
        if word == "normalize":
            return self._normalize()
        if word == "barrier":
            return Barrier()
        if word == "rescale":
            instruction = self._tokens.name()
            self._tokens.expect("by")
            by = self._tokens.name()
            self._tokens.expect("with")
            return Rescale(instruction, by, self._tokens.name())
        if word.startswith("out") and word[3:].isdigit():
            place = self._index()
            self._tokens.expect("=")
            instruction, index, output = self._element()
            return Store(int(word[3:]), place, instruction, index, output)
        raise self._tokens.error(f"expected a statement, found {word!r}")

    def _bind(self) -> Bind:
        lanes = self._width() if self._tokens.accept("vector") else 0
        variable = self._bound_variable()
        self._tokens.expect("to")
        value = self._tokens.expression()
        self._tokens.expect("{")
        return Bind(variable, value, self._body(), lanes)

    def _stage_operand(self) -> StageOperand | StageSum:
        operand = self._tokens.integer()
        self._tokens.expect("of")
        instruction = self._tokens.name()
        if self._tokens.accept("from"):
            source = self._tokens.name()
            self._tokens.expect("at")
            row, step = self._symbols()
            return StageSum(instruction, operand, source, (row, step))
        index = self._index()
        self._tokens.expect("of")
        symbols = self._symbols()
        self._tokens.expect("at")
        row, step = self._symbols()
        self._tokens.expect("along")
        return StageOperand(instruction, operand, index, symbols, (row, step), self._tokens.integer())

    def _contract(self) -> Contract:
        instruction = self._tokens.name()
        self._tokens.expect("of")
        first, second = self._tokens.list_of(self._operand_row)
        self._tokens.expect("step")
        step = self._tokens.expression()
        return Contract(instruction, (first, second), step, self._tokens.next() if self._tokens.accept("by") else "")

    def _complete(self) -> Complete:
        instruction = self._tokens.name()
        self._tokens.expect("with")
        source, index, _ = self._element()
        self._tokens.expect("or")
        return Complete(instruction, source, index, self._tokens.number())

    def _softmax_step(self) -> SoftmaxStep:
        instruction = self._tokens.name()
        self._tokens.expect("at")
        row = self._tokens.expression()
        self._tokens.expect("with")
        maximum, total = self._tokens.list_of(self._tokens.name)
        self._tokens.expect("and")
        sums = self._tokens.name()
        self._tokens.expect("at")
        row_of_sum = self._tokens.expression()
        self._tokens.expect("for")
        variable = self._bound_variable()
        self._tokens.expect("by")
        lanes = self._tokens.integer()
        self._tokens.expect("lanes")
        return SoftmaxStep(instruction, maximum, total, sums, variable, (row, row_of_sum), lanes)

    def _normalize(self) -> Normalize:
        instruction = self._tokens.name()
        self._tokens.expect("by")
        total = self._tokens.name()
        self._tokens.expect("at")
        return Normalize(instruction, total, self._tokens.expression())

    def _operand_row(self) -> tuple[int, AffineExpr]:
        operand = self._tokens.integer()
        (row,) = self._index()
        return operand, row

    def _loop(self) -> Loop:
        role = Role.VECTOR if self._tokens.peek() == Role.VECTOR.value else _ROLES[self._tokens.next()]
        lanes = self._width() if self._tokens.accept("vector") else 0
        variable = self._bound_variable()
        transposes = self._tokens.variable() if self._tokens.accept("transposes") else None
        carries = tuple(self._tokens.list_of(self._tokens.name)) if self._tokens.accept("carries") else ()
        self._tokens.expect("{")
        return Loop(variable, role, self._body(), lanes, carries, transposes)

    def _reduction(self) -> Reduction:
        instruction, index, _ = self._element()
        combination = Combination(self._tokens.one_of([c.value for c in Combination]))
        loops: list[int] = []
        lanes: Lanes | None = None
        if self._tokens.accept("over"):
            for item in self._tokens.list_of(self._reduction_loop):
                if isinstance(item, Lanes):
                    lanes = item
                else:
                    loops.append(item)
        self._tokens.expect("of")
        steps = tuple(self._tokens.list_of(self._symbols))
        keeps = tuple(self._tokens.list_of(self._tokens.name)) if self._tokens.accept("keeps") else ()
        within: list[Reduction] = []
        if self._tokens.accept("{"):
            while not self._tokens.accept("}"):
                self._tokens.expect("reduce")
                within.append(self._reduction())
        return Reduction(instruction, index, tuple(loops), steps, combination, lanes, keeps, tuple(within))

    def _reduction_loop(self) -> int | Lanes:
        role = Role.VECTOR
        if self._tokens.peek() in (Role.THREAD.value, Role.WARP.value, Role.LANE.value):
            role = _ROLES[self._tokens.next()]
            self._tokens.expect("vector")
        elif not self._tokens.accept("vector"):
            return self._bound_variable()
        width = self._width()
        self._tokens.expect("x")
        chains = self._tokens.integer()
        variable = self._bound_variable()
        first = self._bound_variable() if self._tokens.accept("after") else None
        return Lanes(variable, width, chains, first, role)

    # -- smaller things

    def _width(self) -> int:
        self._tokens.expect("(")
        width = self._tokens.integer()
        self._tokens.expect(")")
        return width

    def _element(self) -> tuple[str, Index, int]:
        name = self._tokens.name()
        output = self._tokens.integer() if self._tokens.accept("#") else 0
        return name, self._index(), output

    def _index(self) -> Index:
        return self._tokens.expressions("[", "]")

    def _symbols(self) -> Index:
        return self._tokens.expressions("(", ")")

    def _bound_variable(self) -> int:
        """Reads `d0 in [0, 9]`: every place that binds a variable must give it the same bounds."""
        variable = self._tokens.variable()
        for token in ("in", "["):
            self._tokens.expect(token)
        lower = self._tokens.integer()
        self._tokens.expect(",")
        bounds = Interval(lower, self._tokens.integer())
        self._tokens.expect("]")
        if self._bounds.setdefault(variable, bounds) != bounds:
            raise self._tokens.error(f"d{variable} has had the bounds {self._bounds[variable]}")
        return variable
