"""What must hold for a schedule of a view: names exist, indices are inside of their arrays, tiles fit their memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from xjit.affine import AffineExpr, Interval
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Bind,
    Combine,
    Complete,
    Fetch,
    Give,
    Init,
    Let,
    Loop,
    Memory,
    OperandTile,
    Part,
    Reduce,
    ReduceRows,
    Reduction,
    Stage,
    StageOperand,
    StageSum,
    Statement,
    Store,
)
from xjit.emitters.schedule.verify import ScheduleError, verify_schedule
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape

TILE_BYTES: Mapping[Memory, int] = {
    Memory.REGISTER: 1 << 10,
    Memory.STACK: 256 << 10,
    Memory.SHARED: 48 << 10,
}
"""What all tiles of a part in that memory may take. Shared: what every GPU gives a block without being asked."""


def verify_for_view(schedule: Schedule, view: KernelView) -> None:
    """Checks a schedule against the view it is for. Errors: ScheduleError names the statement."""
    verify_schedule(schedule)
    _ViewVerifier(schedule, view).verify()


class _ViewVerifier:
    def __init__(self, schedule: Schedule, view: KernelView) -> None:
        self._schedule = schedule
        self._instructions: Mapping[str, HloInstruction] = {i.name: i for i in (*view.leaves, *view.instructions())}
        self._arrays = frozenset(view.leaves)
        self._results = view.result_shapes
        self._table = VariableTable(schedule.variables)
        self._stored: dict[int, int] = {}
        self._operand_tiles: dict[tuple[str, int], OperandTile] = {}

    def verify(self) -> None:
        for let in self._schedule.lets:
            self._inside(f"let d{let.variable}", let.index, self._shape(let.instruction))
        for part in self._schedule.parts:
            self._tiles_fit(part)
            for statement, points in _with_points(self._schedule, part.body):
                self._statement(statement, points)
        for result, count in self._stored.items():
            expected = self._results[result].num_elements
            if not self._schedule.lets and count != expected:
                raise self._error(f"out{result}", f"{count} elements are stored, it has {expected}")

    def _tiles_fit(self, part: Part) -> None:
        used: dict[Memory, int] = {}
        for tile in part.tiles:
            values = math.prod(self._schedule.size(v) for v in tile.over)
            instruction = self._instruction(tile.instruction)
            width = sum(leaf.element_type.byte_width for _, leaf in instruction.shape.leaves())
            used[tile.memory] = used.get(tile.memory, 0) + values * width
            if used[tile.memory] > TILE_BYTES.get(tile.memory, used[tile.memory]):
                where = f"tile %{tile.instruction}"
                raise self._error(where, f"{used[tile.memory]} bytes of {tile.memory.value} memory are too many")
        taken = used.get(Memory.SHARED, 0)
        for operand in part.operands:
            sizes = operand.sizes
            last = VariableTable([Interval(0, size - 1) for size in sizes]).interval(operand.place).upper
            taken += (last + 1) * PrimitiveType.from_text(operand.kind).byte_width
            if taken > TILE_BYTES[Memory.SHARED]:
                where = f"operand {operand.operand} of %{operand.instruction}"
                raise self._error(where, f"{taken} bytes of shared memory are too many")
        self._operand_tiles = {(tile.instruction, tile.operand): tile for tile in part.operands}

    def _statement(self, statement: Statement, points: int) -> None:
        match statement:
            case Reduce(reduction) | ReduceRows(reduction) | Combine(reduction):
                self._reduction(reduction)
            case Fetch(name, index):
                self._fetch(name, index)
            case StageOperand():
                self._stage_operand(statement)
            case Let(_, name, index) | Init(name, index) | Stage(name, index) | Give(name, index):
                self._inside(f"%{name}", index, self._shape(name))
            case Complete(_, source, index):
                self._inside(f"%{source}", index, self._shape(source))
            case StageSum(name, operand, _, at):
                self._in_tile(f"stage operand {operand} of %{name}", name, operand, at)
            case Store():
                self._store(statement, points)
            case _:
                pass

    def _fetch(self, name: str, index: Sequence[AffineExpr]) -> None:
        if self._instruction(name) not in self._arrays:
            raise self._error(f"fetch %{name}", "it is no array that the kernel reads")
        if len(index) != self._shape(name).rank:
            raise self._error(f"fetch %{name}", f"{len(index)} indices for {self._shape(name)}")

    def _stage_operand(self, stage: StageOperand) -> None:
        where = f"stage operand {stage.operand} of %{stage.instruction}"
        self._inside(where, stage.index, self._shape(stage.instruction))
        self._in_tile(where, stage.instruction, stage.operand, stage.at)

    def _in_tile(self, where: str, name: str, operand: int, at: Sequence[AffineExpr]) -> None:
        for expr, size in zip(at, self._operand_tiles[name, operand].sizes, strict=True):
            reach = self._table.interval(self._table.simplify(expr))
            if not 0 <= reach.lower <= reach.upper < size:
                raise self._error(where, f"{expr}, in {reach}, is outside of its tile")

    def _reduction(self, reduction: Reduction) -> None:
        self._inside(f"reduce %{reduction.instruction}", reduction.index, self._shape(reduction.instruction))
        for name in reduction.keeps:
            self._instruction(name)
        for within in reduction.within:
            self._reduction(within)

    def _store(self, store: Store, points: int) -> None:
        where = f"out{store.result}[...] = %{store.instruction}"
        if not 0 <= store.result < len(self._results):
            raise self._error(where, f"there are {len(self._results)} results")
        leaves = [leaf for _, leaf in self._instruction(store.instruction).shape.leaves()]
        if not 0 <= store.output < len(leaves):
            raise self._error(where, f"there is no value number {store.output}")
        self._inside(where, store.index, leaves[store.output])
        self._inside(where, store.place, self._results[store.result])
        self._stored[store.result] = self._stored.get(store.result, 0) + points

    def _inside(self, where: str, index: Sequence[AffineExpr], shape: Shape) -> None:
        if len(index) != shape.rank:
            raise self._error(where, f"{len(index)} indices for {shape}")
        for number, (expr, size) in enumerate(zip(index, shape.dimensions, strict=True)):
            reach = self._table.interval(self._table.simplify(expr))
            if not reach.is_empty and not 0 <= reach.lower <= reach.upper < size:
                raise self._error(where, f"index {number} is {expr}, in {reach}, outside of {shape}")

    def _shape(self, name: str) -> Shape:
        """The shape of the first value of an instruction: all results of a reduction have the same dimensions."""
        return next(leaf for _, leaf in self._instruction(name).shape.leaves())

    def _instruction(self, name: str) -> HloInstruction:
        found = self._instructions.get(name)
        if found is None:
            raise self._error(f"%{name}", "the view has no such instruction")
        return found

    def _error(self, where: str, message: str) -> ScheduleError:
        return ScheduleError(f"schedule %{self._schedule.instruction}{self._schedule.suffix}: {where}: {message}")


def _with_points(
    schedule: Schedule, body: Sequence[Statement], around: tuple[int, ...] = (), hidden: Collection[int] = ()
) -> Iterator[tuple[Statement, int]]:
    """Yields the statements of a tree with how often each is done, lanes counted one by one.

    `around` are the variables in force; a bound one stands for those in its value, `hidden`, which are to give each of
    its values once.
    """
    for statement in body:
        yield statement, math.prod(schedule.size(v) for v in around if v not in hidden)
        if isinstance(statement, Loop):
            yield from _with_points(schedule, statement.body, (*around, statement.variable), hidden)
        elif isinstance(statement, Bind):
            yield from _with_points(
                schedule, statement.body, (*around, statement.variable), {*hidden, *statement.value.dims}
            )
