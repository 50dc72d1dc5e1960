"""Numbers the variables of a schedule without gaps: planners make more than they keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.affine import AffineExpr, dim, substitute_all
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Bind,
    Combine,
    Complete,
    Contract,
    Fetch,
    Give,
    Init,
    Lanes,
    Let,
    Loop,
    Normalize,
    Part,
    Reduce,
    ReduceRows,
    Reduction,
    SoftmaxStep,
    Stage,
    StageOperand,
    StageSum,
    Statement,
    Store,
    Tile,
    statements_of,
)


def renumber(schedule: Schedule) -> Schedule:
    """Returns the schedule with variables d0, d1, ...: those of loops, then those of reductions, in their order."""
    loops = {let.variable for let in schedule.lets}
    reductions: set[int] = set()
    for part in schedule.parts:
        for statement in statements_of(part.body):
            if isinstance(statement, Loop | Let | Bind | SoftmaxStep):
                loops.add(statement.variable)
            elif isinstance(statement, Reduce | ReduceRows | Combine):
                _collect(statement.reduction, reductions)
    order = [*sorted(loops), *sorted(reductions - loops)]
    if order == list(range(len(schedule.variables))):
        return schedule
    numbers = _Numbers({old: new for new, old in enumerate(order)})
    return replace(
        schedule,
        variables=tuple(schedule.variables[p] for p in order),
        lets=tuple(numbers.let(let) for let in schedule.lets),
        parts=tuple(numbers.part(part) for part in schedule.parts),
    )


def _collect(reduction: Reduction, found: set[int]) -> None:
    found.update(reduction.loops)
    if reduction.lanes is not None:
        found.add(reduction.lanes.variable)
        if reduction.lanes.first is not None:
            found.add(reduction.lanes.first)
    for inner in reduction.within:
        _collect(inner, found)


class _Numbers:
    """The new number of each variable."""

    def __init__(self, of: dict[int, int]) -> None:
        self.of = of
        self._changes = {old: dim(new) for old, new in of.items() if old != new}

    def index(self, index: Sequence[AffineExpr]) -> tuple[AffineExpr, ...]:
        return substitute_all(index, self._changes)

    def let(self, let: Let) -> Let:
        return replace(let, variable=self.of[let.variable], index=self.index(let.index))

    def part(self, part: Part) -> Part:
        return Part(self._body(part.body), tuple(self._tile(tile) for tile in part.tiles), part.operands)

    def _tile(self, tile: Tile) -> Tile:
        place = None if tile.place is None else self.index([tile.place])[0]
        return replace(tile, over=tuple(self.of[v] for v in tile.over), place=place)

    def _body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(self._statement(s) for s in body)

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case Loop():
                across = statement.transposes
                return replace(
                    statement,
                    variable=self.of[statement.variable],
                    body=self._body(statement.body),
                    transposes=None if across is None else self.of[across],
                )
            case Let():
                return self.let(statement)
            case Reduce() | Combine():
                return replace(statement, reduction=self._reduction(statement.reduction))
            case ReduceRows(reduction, variable):
                return ReduceRows(self._reduction(reduction), self.of[variable])
            case Store():
                return replace(statement, place=self.index(statement.place), index=self.index(statement.index))
            case Fetch() | Init() | Stage() | Give() | Complete():
                return replace(statement, index=self.index(statement.index))
            case Bind():
                (value,) = self.index([statement.value])
                return replace(
                    statement, variable=self.of[statement.variable], value=value, body=self._body(statement.body)
                )
            case StageOperand(_, _, index, symbols, (row, step)):
                row, step = self.index([row, step])
                return replace(statement, index=self.index(index), symbols=self.index(symbols), at=(row, step))
            case StageSum(at=(row, step)):
                row, step = self.index([row, step])
                return replace(statement, at=(row, step))
            case SoftmaxStep(rows=(row, row_of_sum)):
                row, row_of_sum = self.index([row, row_of_sum])
                return replace(statement, variable=self.of[statement.variable], rows=(row, row_of_sum))
            case Normalize():
                return replace(statement, row=self.index([statement.row])[0])
            case Contract(_, ((first, row), (second, column)), step):
                row, column, step = self.index([row, column, step])
                return replace(statement, rows=((first, row), (second, column)), step=step)
            case _:
                return statement

    def _reduction(self, reduction: Reduction) -> Reduction:
        lanes = reduction.lanes
        return replace(
            reduction,
            index=self.index(reduction.index),
            loops=tuple(self.of[v] for v in reduction.loops),
            steps=tuple(self.index(step) for step in reduction.steps),
            lanes=None if lanes is None else self._lanes(lanes),
            within=tuple(self._reduction(r) for r in reduction.within),
        )

    def _lanes(self, lanes: Lanes) -> Lanes:
        first = None if lanes.first is None else self.of[lanes.first]
        return replace(lanes, variable=self.of[lanes.variable], first=first)
