"""What must hold for a schedule by itself: variables in scope, roles that may nest, tiles that exist and are filled.

`xjit.emitters.schedule.verify_view` checks a schedule against the view that it is for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from xjit.affine import AffineExpr
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.schedule.schedule import Schedule
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
    Init,
    Let,
    Loop,
    Memory,
    Normalize,
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
from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.gpu_models import WARP_SIZE

MAX_UNROLLED = 64
MAY_STAND_IN: Mapping[Role, frozenset[Role]] = {
    Role.TASK: frozenset[Role](),
    Role.BLOCK: frozenset({Role.BLOCK}),
    Role.THREAD: frozenset({Role.BLOCK, Role.SERIAL, Role.UNROLL}),
    Role.WARP: frozenset({Role.BLOCK, Role.SERIAL, Role.UNROLL, Role.LANE}),
    Role.LANE: frozenset({Role.BLOCK, Role.SERIAL, Role.UNROLL, Role.WARP}),
}
"""In which loops one that is shared out may stand; others may stand in any."""

MAY_MEET_IN = frozenset({Role.BLOCK, Role.SERIAL, Role.UNROLL})
"""In which loops a barrier may stand: all threads of the block must come to it."""


class ScheduleError(InvalidArgument):
    """A schedule that means nothing, or reaches beyond its arrays; says where."""


def verify_schedule(schedule: Schedule) -> None:
    """Checks a schedule by itself. Errors: ScheduleError names the statement."""
    _Verifier(schedule).verify()


class _Verifier:
    """Walks the statements; `loops` are those around the current one."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._scope: set[int] = set()
        self._loops: list[Loop] = []
        self._tiles: dict[str, Tile] = {}
        self._filled: set[str] = set()
        self._cleared: set[str] = set()
        self._operands: set[tuple[str, int]] = set()

    def verify(self) -> None:
        for let in self._schedule.lets:
            self._let(let)
        for part in self._schedule.parts:
            self._part(part)

    def _part(self, part: Part) -> None:
        self._tiles = {tile.instruction: tile for tile in part.tiles}
        if len(self._tiles) != len(part.tiles):
            raise self._error("part", "an instruction has two tiles")
        self._filled, self._cleared = set(), set()
        shared = [s for s in part.body if isinstance(s, Loop) and s.role is Role.TASK]
        if len(shared) > 1:
            raise self._error("part", "two task loops: which steps to do is said for one")
        self._operands = {(tile.instruction, tile.operand) for tile in part.operands}
        bound = set(_bound_in(part.body)) | self._scope
        for tile in part.tiles:
            for variable in tile.over:
                if variable not in bound:
                    raise self._error(f"tile %{tile.instruction}", f"no statement binds d{variable}")
        self._body(part.body)

    def _body(self, body: Iterable[Statement]) -> None:
        outside = set(self._scope)
        for statement in body:
            self._statement(statement)
        self._scope = outside

    def _let(self, let: Let) -> None:
        self._uses(f"let d{let.variable}", let.index)
        self._binds(f"let d{let.variable}", let.variable)
        self._scope.add(let.variable)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Loop():
                self._loop(statement)
            case Let():
                self._let(statement)
            case Reduce(reduction):
                self._reduction(reduction, self._scope)
            case ReduceRows():
                self._reduce_rows(statement)
            case Fetch(name, index):
                self._uses(f"fetch %{name}", index)
            case Init(name, index):
                self._uses(f"init %{name}", index)
                self._fills(f"init %{name}", name)
            case Stage(name, index):
                self._uses(f"stage %{name}", index)
                self._fills(f"stage %{name}", name)
            case Combine(reduction):
                self._needs(f"combine %{reduction.instruction}", reduction.instruction)
                self._reduction(reduction, self._scope)
            case Rescale():
                self._rescale(statement)
            case Barrier():
                self._barrier()
            case Store(result, place, name, index):
                self._uses(f"out{result}[...] = %{name}", (*place, *index))
            case Bind():
                self._bind(statement)
            case StageOperand(name, operand, index, symbols, at):
                where = f"stage operand {operand} of %{name}"
                self._uses(where, (*index, *symbols, *at))
                self._has_operand(where, name, operand)
            case Clear(name):
                self._fills(f"clear %{name}", name)
                self._cleared.add(name)
            case Contract(name, rows, step):
                where = f"contract %{name}"
                self._needs(where, name)
                self._uses(where, (*(row for _, row in rows), step))
                for operand, _ in rows:
                    self._has_operand(where, name, operand)
            case Give(name, index, source):
                self._needs(f"give %{name}", source or name)
                self._uses(f"give %{name}", index)
            case Complete(name, _, index):
                self._needs(f"complete %{name}", name)
                self._uses(f"complete %{name}", index)
            case StageSum(name, operand, source, at):
                where = f"stage operand {operand} of %{name}"
                self._needs(where, source)
                self._uses(where, at)
                self._has_operand(where, name, operand)
            case SoftmaxStep():
                self._softmax_step(statement)
            case Normalize(name, total, row):
                self._row_of(f"normalize %{name}", row, name, total)
            case _:
                pass

    def _barrier(self) -> None:
        for loop in self._loops:
            if loop.role not in MAY_MEET_IN and not self._is_done_by_all(loop):
                raise self._error("barrier", f"stands in the {loop.role.value} loop of d{loop.variable}")

    def _reduce_rows(self, statement: ReduceRows) -> None:
        reduction, variable = statement.reduction, statement.variable
        where = f"reduce rows of %{reduction.instruction}"
        self._fills(where, reduction.instruction)
        self._binds(where, variable)
        tile = self._tiles[reduction.instruction]
        if tile.over != (variable,) or tile.memory is not Memory.STACK:
            raise self._error(where, f"its tile is not one on the stack over d{variable}")
        width = reduction.lanes.width if reduction.lanes is not None else 0
        if reduction.combination is Combination.SERIAL or width != self._schedule.size(variable):
            raise self._error(where, f"{self._schedule.size(variable)} rows need as many lanes")
        self._reduction(reduction, self._scope | {variable})

    def _softmax_step(self, step: SoftmaxStep) -> None:
        where = f"softmax %{step.instruction}"
        self._binds(where, step.variable)
        for name, row in zip((step.instruction, step.sums), step.rows, strict=True):
            for state in (step.maximum, step.total):
                self._row_of(where, row, name, state)
        if step.lanes < 1 or WARP_SIZE % step.lanes:
            raise self._error(where, f"{step.lanes} lanes are no equal part of a warp")

    def _row_of(self, where: str, row: AffineExpr, name: str, state: str) -> None:
        """Checks that `row` says, for each accumulator of a tile, which one of another tile it goes with."""
        for needed in (name, state):
            self._needs(where, needed)
        over = self._tiles[name].over
        self._uses(where, [row], over)
        rows = math.prod(self._schedule.size(v) for v in self._tiles[state].over)
        reach = VariableTable(self._schedule.variables).interval(row)
        if not 0 <= reach.lower <= reach.upper < rows:
            raise self._error(where, f"row {row} of %{name}, in {reach}: %{state} has {rows}")

    def _is_done_by_all(self, loop: Loop) -> bool:
        """Whether every thread of the block does one step of a loop."""
        return loop.role is Role.THREAD and self._schedule.size(loop.variable) == self._schedule.threads

    def _bind(self, bind: Bind) -> None:
        where = f"bind d{bind.variable}"
        self._uses(where, [bind.value])
        self._binds(where, bind.variable)
        if bind.lanes < 0 or self._schedule.size(bind.variable) % (bind.lanes or 1):
            raise self._error(where, f"{bind.lanes} lanes of {self._schedule.size(bind.variable)} values")
        self._scope.add(bind.variable)
        self._body(bind.body)
        self._scope.remove(bind.variable)

    def _has_operand(self, where: str, name: str, operand: int) -> None:
        if (name, operand) not in self._operands:
            raise self._error(where, f"operand {operand} has no tile")

    # -- loops

    def _loop(self, loop: Loop) -> None:
        where = f"{loop.role.value} d{loop.variable}"
        self._binds(where, loop.variable)
        self._may_stand_here(where, loop.role)
        if loop.lanes < 0 or (loop.role is Role.VECTOR and not loop.lanes):
            raise self._error(where, f"{loop.lanes} lanes")
        if loop.lanes and any(outer.lanes for outer in self._loops):
            raise self._error(where, "lanes within lanes")
        if loop.role is Role.UNROLL and self._schedule.size(loop.variable) > MAX_UNROLLED:
            raise self._error(where, f"more than {MAX_UNROLLED} steps are unrolled")
        across = [outer.variable for outer in self._loops if outer.lanes]
        if loop.transposes is not None and (loop.role is not Role.UNROLL or loop.transposes not in across):
            raise self._error(where, f"transposes d{loop.transposes}, but does not unroll inside of its vector loop")
        for name in loop.carries:
            self._needs(where, name)
            single = name in self._cleared or not self._tiles[name].over
            if self._tiles[name].memory is not Memory.REGISTER or not single:
                raise self._error(where, f"carries %{name}, whose accumulators are not single registers")
        self._scope.add(loop.variable)
        self._loops.append(loop)
        self._body(loop.body)
        self._loops.pop()
        self._scope.remove(loop.variable)

    def _may_stand_here(self, where: str, role: Role) -> None:
        allowed = MAY_STAND_IN.get(role)
        for outer in self._loops:
            if allowed is not None and outer.role not in allowed:
                raise self._error(where, f"stands in the {outer.role.value} loop of d{outer.variable}")

    # -- accumulators and tiles

    def _rescale(self, statement: Rescale) -> None:
        where = f"rescale %{statement.instruction}"
        carrying = next((loop for loop in reversed(self._loops) if loop.carries), None)
        for name in (statement.instruction, statement.by):
            self._needs(where, name)
            if carrying is None or name not in carrying.carries:
                raise self._error(where, f"no loop around it carries %{name}")

    def _fills(self, where: str, name: str) -> None:
        if name not in self._tiles:
            raise self._error(where, "it has no tile")
        self._filled.add(name)

    def _needs(self, where: str, name: str) -> None:
        if name not in self._tiles:
            raise self._error(where, f"%{name} has no tile")
        if name not in self._filled:
            raise self._error(where, f"%{name} has no initial value here")

    # -- variables

    def _reduction(self, reduction: Reduction, scope: Collection[int]) -> None:
        where = f"reduce %{reduction.instruction}"
        self._uses(where, reduction.index, scope)
        lanes = reduction.lanes
        own = [*reduction.loops]
        if (reduction.combination is Combination.SERIAL) != (lanes is None):
            raise self._error(where, f"{reduction.combination.value} with{'out' if lanes is None else ''} lanes")
        if lanes is not None:
            if lanes.width < 1 or lanes.chains < 1:
                raise self._error(where, f"{lanes.chains} x {lanes.width} lanes")
            if lanes.width > 1 and any(loop.lanes for loop in self._loops):
                raise self._error(where, "lanes within lanes")
            self._may_stand_here(where, lanes.role)
            if (reduction.combination is Combination.SELECT) != (lanes.first is not None):
                raise self._error(where, "first elements are those of a select")
            own += [lanes.variable, *([] if lanes.first is None else [lanes.first])]
        for variable in own:
            self._binds(where, variable, scope)
        inner = {*scope, *own}
        for step in reduction.steps:
            self._uses(where, step, inner)
        for within in reduction.within:
            self._reduction(within, inner)

    def _binds(self, where: str, variable: int, scope: Collection[int] | None = None) -> None:
        if not 0 <= variable < len(self._schedule.variables):
            raise self._error(where, f"d{variable} has no bounds")
        if variable in (self._scope if scope is None else scope):
            raise self._error(where, f"d{variable} has a value already")

    def _uses(self, where: str, index: Iterable[AffineExpr], scope: Collection[int] | None = None) -> None:
        known = self._scope if scope is None else scope
        for variable in (v for e in index for v in e.dims):
            if variable not in known:
                raise self._error(where, f"d{variable} has no value here")

    def _error(self, where: str, message: str) -> ScheduleError:
        return ScheduleError(f"schedule %{self._schedule.instruction}{self._schedule.suffix}: {where}: {message}")


def _bound_in(body: Iterable[Statement]) -> Iterable[int]:
    for statement in body:
        match statement:
            case Let(variable):
                yield variable
            case Loop() | Bind():
                yield statement.variable
                yield from _bound_in(statement.body)
            case SoftmaxStep():
                yield statement.variable
            case Combine(reduction):
                yield from reduction.loops
                if reduction.lanes is not None:
                    yield reduction.lanes.variable
            case _:
                pass
