"""Reads what `str(schedule)` prints: `parse_schedule(str(s)) == s`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from xjit.affine import AffineExpr, IndexingError, Interval
from xjit.affine.expr_text import AffineParser
from xjit.emitters.schedule.schedule import Cost, Schedule
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Clear,
    Combination,
    Combine,
    Complete,
    Contract,
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
from xjit.hlo.diagnostics import HloParseError, Span

_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_TOKEN = re.compile(r"%[^\s\[\]{}(),#]+|-?\d+|[A-Za-z_.][\w.\-]*|.")
_ROLES = {role.value: role for role in Role}
_T = TypeVar("_T")


def parse_schedule(text: str) -> Schedule:
    """Returns the schedule. Errors: HloParseError with the place."""
    parser = _ScheduleParser(text)
    schedule = parser.schedule()
    if not parser.at_end:
        raise parser.error("expected the end of the text")
    return schedule


class _ScheduleParser:
    """Recursive descent over one text; bounds are collected where variables are bound."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._bounds: dict[int, Interval] = {}

    @property
    def at_end(self) -> bool:
        """Whether nothing but remarks is left."""
        return not self._peek()

    def schedule(self) -> Schedule:
        """Reads one schedule."""
        self._bounds = {}
        self._expect("schedule")
        instruction = self._name()
        suffix = self._next() if self._peek().startswith(".") else ""
        kind = self._next()
        numbers: list[int] = []
        for word in ("operations", "repeated", "bytes"):
            self._expect(",")
            self._expect(word)
            self._expect("=")
            numbers.append(self._integer())
        threads = 0
        if self._accept(","):
            self._expect("threads")
            self._expect("=")
            threads = self._integer()
        self._expect("{")
        lets: list[Let] = []
        while self._accept("let"):
            lets.append(self._let())
        parts: list[Part] = []
        while self._accept("part"):
            parts.append(self._part())
        self._expect("}")
        if sorted(self._bounds) != list(range(len(self._bounds))):
            raise self.error("variables must be d0, d1, ... without a gap")
        variables = tuple(self._bounds[p] for p in range(len(self._bounds)))
        return Schedule(instruction, kind, variables, tuple(parts), tuple(lets), suffix, Cost(*numbers), threads)

    # -- parts and statements

    def _let(self) -> Let:
        variable = self._bound_variable()
        self._expect("=")
        instruction, index, _ = self._element()
        return Let(variable, instruction, index)

    def _part(self) -> Part:
        self._expect("{")
        tiles: list[Tile] = []
        while self._accept("tile"):
            name = self._name()
            over = tuple(self._list(self._variable)) if self._accept("over") else ()
            self._expect("in")
            memory = Memory(self._one_of([m.value for m in Memory]))
            tiles.append(Tile(name, over, memory, self._expression() if self._accept("at") else None))
        operands: list[OperandTile] = []
        while self._accept("operand"):
            operands.append(self._operand_tile())
        return Part(self._body(), tuple(tiles), tuple(operands))

    def _operand_tile(self) -> OperandTile:
        operand = self._integer()
        self._expect("of")
        name = self._name()
        self._expect("as")
        kind = self._next()
        rows = self._integer()
        self._expect("x")
        steps = self._integer()
        self._expect("at")
        return OperandTile(name, operand, kind, (rows, steps), self._expression())

    def _body(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while not self._accept("}"):
            found.append(self._statement())
        return tuple(found)

    def _statement(self) -> Statement:
        if self._peek() in _ROLES:
            return self._loop()
        word = self._next()
        if word == "let":
            return self._let()
        if word == "reduce":
            where_needed = self._accept("where")
            if where_needed:
                self._expect("needed")
            return Reduce(self._reduction(), where_needed)
        if word == "combine":
            return Combine(self._reduction())
        if word == "stage" and self._accept("operand"):
            return self._stage_operand()
        if word in ("init", "stage"):
            instruction, index, _ = self._element()
            return {"init": Init, "stage": Stage}[word](instruction, index)
        if word == "give":
            instruction, index, _ = self._element()
            return Give(instruction, index, self._name() if self._accept("from") else "")
        if word == "bind":
            return self._bind()
        if word == "clear":
            return Clear(self._name())
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
            instruction = self._name()
            self._expect("by")
            by = self._name()
            self._expect("with")
            return Rescale(instruction, by, self._name())
        if word.startswith("out") and word[3:].isdigit():
            place = self._index()
            self._expect("=")
            instruction, index, output = self._element()
            return Store(int(word[3:]), place, instruction, index, output)
        raise self.error(f"expected a statement, found {word!r}")

    def _bind(self) -> Bind:
        lanes = self._width() if self._accept("vector") else 0
        variable = self._bound_variable()
        self._expect("to")
        value = self._expression()
        self._expect("{")
        return Bind(variable, value, self._body(), lanes)

    def _stage_operand(self) -> StageOperand | StageSum:
        operand = self._integer()
        self._expect("of")
        instruction = self._name()
        if self._accept("from"):
            source = self._name()
            self._expect("at")
            row, step = self._symbols()
            return StageSum(instruction, operand, source, (row, step))
        index = self._index()
        self._expect("of")
        symbols = self._symbols()
        self._expect("at")
        row, step = self._symbols()
        self._expect("along")
        return StageOperand(instruction, operand, index, symbols, (row, step), self._integer())

    def _contract(self) -> Contract:
        instruction = self._name()
        self._expect("of")
        first, second = self._list(self._operand_row)
        self._expect("step")
        step = self._expression()
        return Contract(instruction, (first, second), step, self._next() if self._accept("by") else "")

    def _complete(self) -> Complete:
        instruction = self._name()
        self._expect("with")
        source, index, _ = self._element()
        self._expect("or")
        return Complete(instruction, source, index, self._number())

    def _softmax_step(self) -> SoftmaxStep:
        instruction = self._name()
        self._expect("at")
        row = self._expression()
        self._expect("with")
        maximum, total = self._list(self._name)
        self._expect("and")
        sums = self._name()
        self._expect("at")
        row_of_sum = self._expression()
        self._expect("for")
        variable = self._bound_variable()
        self._expect("by")
        lanes = self._integer()
        self._expect("lanes")
        return SoftmaxStep(instruction, maximum, total, sums, variable, (row, row_of_sum), lanes)

    def _normalize(self) -> Normalize:
        instruction = self._name()
        self._expect("by")
        total = self._name()
        self._expect("at")
        return Normalize(instruction, total, self._expression())

    def _operand_row(self) -> tuple[int, AffineExpr]:
        operand = self._integer()
        (row,) = self._index()
        return operand, row

    def _loop(self) -> Loop:
        role = Role.VECTOR if self._peek() == Role.VECTOR.value else _ROLES[self._next()]
        lanes = self._width() if self._accept("vector") else 0
        variable = self._bound_variable()
        transposes = self._variable() if self._accept("transposes") else None
        carries = tuple(self._list(self._name)) if self._accept("carries") else ()
        self._expect("{")
        return Loop(variable, role, self._body(), lanes, carries, transposes)

    def _reduction(self) -> Reduction:
        instruction, index, _ = self._element()
        combination = Combination(self._one_of([c.value for c in Combination]))
        loops: list[int] = []
        lanes: Lanes | None = None
        if self._accept("over"):
            for item in self._list(self._reduction_loop):
                if isinstance(item, Lanes):
                    lanes = item
                else:
                    loops.append(item)
        self._expect("of")
        steps = tuple(self._list(self._symbols))
        keeps = tuple(self._list(self._name)) if self._accept("keeps") else ()
        within: list[Reduction] = []
        if self._accept("{"):
            while not self._accept("}"):
                self._expect("reduce")
                within.append(self._reduction())
        return Reduction(instruction, index, tuple(loops), steps, combination, lanes, keeps, tuple(within))

    def _reduction_loop(self) -> int | Lanes:
        role = Role.VECTOR
        if self._peek() in (Role.THREAD.value, Role.WARP.value, Role.LANE.value):
            role = _ROLES[self._next()]
            self._expect("vector")
        elif not self._accept("vector"):
            return self._bound_variable()
        width = self._width()
        self._expect("x")
        chains = self._integer()
        variable = self._bound_variable()
        first = self._bound_variable() if self._accept("after") else None
        return Lanes(variable, width, chains, first, role)

    # -- smaller things

    def _width(self) -> int:
        self._expect("(")
        width = self._integer()
        self._expect(")")
        return width

    def _element(self) -> tuple[str, Index, int]:
        name = self._name()
        output = self._integer() if self._accept("#") else 0
        return name, self._index(), output

    def _index(self) -> Index:
        return self._expressions("[", "]")

    def _symbols(self) -> Index:
        return self._expressions("(", ")")

    def _expressions(self, opening: str, closing: str) -> Index:
        self._expect(opening)
        if self._accept(closing):
            return ()
        found = tuple(self._list(self._expression))
        self._expect(closing)
        return found

    def _expression(self) -> AffineExpr:
        parser = AffineParser(self._text)
        parser.pos = self._at
        try:
            found = parser.expression()
        except IndexingError as e:
            raise self.error(str(e)) from e
        self._at = parser.pos
        return found

    def _bound_variable(self) -> int:
        """Reads `d0 in [0, 9]`: every place that binds a variable must give it the same bounds."""
        variable = self._variable()
        for token in ("in", "["):
            self._expect(token)
        lower = self._integer()
        self._expect(",")
        bounds = Interval(lower, self._integer())
        self._expect("]")
        if self._bounds.setdefault(variable, bounds) != bounds:
            raise self.error(f"d{variable} has had the bounds {self._bounds[variable]}")
        return variable

    def _variable(self) -> int:
        token = self._next()
        if token[:1] != "d" or not token[1:].isdigit():
            raise self.error(f"expected a variable, found {token!r}")
        return int(token[1:])

    def _list(self, item: Callable[[], _T]) -> list[_T]:
        found = [item()]
        while self._accept(","):
            found.append(item())
        return found

    def _name(self) -> str:
        token = self._next()
        if token[:1] != "%" or len(token) == 1:
            raise self.error(f"expected a name, found {token!r}")
        return token[1:]

    def _integer(self) -> int:
        token = self._next()
        if not token.removeprefix("-").isdigit():
            raise self.error(f"expected a number, found {token!r}")
        return int(token)

    def _number(self) -> float:
        """Reads a whole number, or an infinity."""
        sign = -1.0 if self._accept("-") else 1.0
        return sign * float("inf") if self._accept("inf") else sign * self._integer()

    def _one_of(self, words: list[str]) -> str:
        token = self._next()
        if token not in words:
            raise self.error(f"expected one of {', '.join(words)}, found {token!r}")
        return token

    # -- tokens

    def _peek(self) -> str:
        space = _SPACE.match(self._text, self._at)
        assert space is not None  # it matches nothing, too
        self._at = space.end()
        match = _TOKEN.match(self._text, self._at)
        return match.group() if match else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += len(token)
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._next()
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self.error(f"expected {token!r}, found {self._peek()!r}")

    def error(self, message: str) -> HloParseError:
        """The error to raise where the parser stands."""
        start = self._text.rfind("\n", 0, self._at) + 1
        line = self._text.count("\n", 0, start) + 1
        rest = self._text[start:].split("\n", 1)[0]
        return HloParseError(f"schedule: {message}", Span(line, self._at - start + 1, 1, rest))
