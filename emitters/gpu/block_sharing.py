"""A schedule's BLOCK, THREAD, WARP and LANE loops, its barriers and tiles, for one thread of one block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from xjit.affine import dim
from xjit.emitters.access.guards import Guard
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.fused import Element, FusedIrEmitter
from xjit.emitters.gpu.block_lanes import emit_barrier, emit_warp_barrier
from xjit.emitters.gpu.operand_tiles import OperandTiles
from xjit.emitters.gpu.shared_memory import SharedArray, SharedMemory
from xjit.emitters.gpu.shuffles import combine_across
from xjit.emitters.gpu.threads import Threads, special_register
from xjit.emitters.loops.loop_levels import VectorVariable
from xjit.emitters.loops.loop_nest import LoopBody
from xjit.emitters.reductions.lane_combining import CombinePair, Values
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.emitters.schedule.statements import (
    Barrier,
    Bind,
    Contract,
    Index,
    Loop,
    Memory,
    OperandTile,
    Reduce,
    Role,
    StageOperand,
    StageSum,
    Statement,
    Tile,
    reductions_of,
    statements_of,
)
from xjit.emitters.work_sharing import Units
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int, constant

_THREAD_ROLES = frozenset([Role.THREAD, Role.WARP, Role.LANE])


class BlockSharing:
    """`WorkSharing` of a GPU: each block does the unit of its number."""

    def __init__(self, fused: FusedIrEmitter, threads: Threads, shared: SharedMemory, in_place: bool) -> None:
        """`in_place`: some result is, or may be, the buffer of an operand."""
        self._in_place = in_place
        self._fused = fused
        self._nest = fused.nest
        self._threads = threads
        self._shared = shared
        self._roles: tuple[Role, ...] = ()  # of the open loops
        self._conditions: list[Value] = []  # who has a step of its own
        self._operands = OperandTiles(fused, threads, shared)
        self._written: list[tuple[HloInstruction, Index, _SharedTile]] = []  # since the last barrier
        self._block = special_register(self._nest, "ctaid.x")

    @property
    def units(self) -> Units:
        """See WorkSharing."""
        return self._block, self._nest.builder.add(self._block, const_int(I64, 1), nsw=True)

    def loop(self, loop: Loop, units: Units, body: LoopBody) -> None:
        """See WorkSharing. A loop with a barrier inside is done by all threads, whether they have a step or not."""
        nest, role = self._nest, loop.role
        if role is Role.BLOCK:
            first = units[0]
            lower = nest.intervals[loop.variable].lower
            first = nest.builder.add(first, const_int(I64, lower), nsw=True) if lower else first
            nest.once(loop.variable, first, body, (), None)
            return
        if role not in _THREAD_ROLES:
            raise Unsupported(f"a {role.value} loop: GPUs have none")
        if not _meets(loop.body):
            with self._within(role):
                self._threads.loop(role, loop.variable, loop.lanes, body)
            return
        with self._within(role):
            self._threads.clamped(role, loop.variable, loop.lanes, self._guarded(loop, body))

    def _guarded(self, loop: Loop, body: LoopBody) -> LoopBody:
        """The body of a clamped loop: what it stores is stored by those that have a step of their own."""
        nest = self._nest
        number, count = self._threads.who(loop.role)
        steps = nest.table.size(loop.variable) // (loop.lanes or 1)

        def guarded(values: Sequence[Value]) -> Sequence[Value]:
            if steps == count:
                return body(values)
            self._conditions.append(nest.builder.icmp_signed("<", number, const_int(I64, steps)))
            result = body(values)
            self._conditions.pop()
            return result

        return guarded

    @contextmanager
    def _within(self, role: Role) -> Generator[None]:
        before, self._roles = self._roles, (*self._roles, role)
        yield
        self._roles = before

    def store_guard(self) -> Guard:
        """See WorkSharing: the first of the threads that have the same value, if they have a step of their own.

        Where that may overwrite what the others have read for it, they must have done so.
        """
        nest = self._nest
        roles = frozenset(self._roles)
        first = self._threads.is_first(roles)
        if first is not None and self._in_place:
            emit_warp_barrier(nest.builder) if Role.WARP in roles else emit_barrier(nest.builder)
        wanted = self._all_conditions(*([] if first is None else [first]))
        return Guard() if wanted is None else Guard(wanted, None, nest.level.depth)

    def _all_conditions(self, *others: Value) -> Value | None:
        """Whether this thread has a step of its own, and `others` hold; None: always."""
        conditions = [*self._conditions, *others]
        if not conditions:
            return None
        wanted = conditions[0]
        for condition in conditions[1:]:
            wanted = self._nest.builder.and_(wanted, condition)
        return wanted

    def stage(self, tile: Tile, instruction: HloInstruction, index: Index) -> None:
        """See WorkSharing. The element is read from the tile after the next barrier."""
        if tile.memory is not Memory.SHARED or tile.place is None:
            raise Unsupported(f"a tile in {tile.memory.value} memory: GPUs stage in shared memory, at given places")
        nest = self._nest
        value, _ = self._fused.element(instruction, index)
        size = nest.interval(tile.place).upper + 1
        arrays = tuple(self._shared.allocate(part.type.elem, size) for part in flatten([value]))
        place = nest.index_value(tile.place)
        for array, part in zip(arrays, flatten([value]), strict=True):
            assert not part.type.is_vector, "threads stage one element at a time"
            array.store(nest.builder, place, part)
        self._written.append((instruction, index, _SharedTile(self._fused, tile, arrays, value)))

    def barrier(self) -> None:
        """See WorkSharing."""
        self._operands.before_barrier()
        emit_barrier(self._nest.builder)
        self._operands.barrier()
        for instruction, index, tile in self._written:
            self._fused.staged[instruction, index] = tile
        self._written.clear()

    def bind(self, bind: Bind, body: Callable[[], None]) -> None:
        """See WorkSharing: where the value is beyond the bounds, the thread goes along without a step of its own."""
        nest = self._nest
        value, bounds = nest.simplify(bind.value), nest.intervals[bind.variable]
        reach, last = nest.interval(value), bounds.upper + 1 - (bind.lanes or 1)
        assert reach.lower >= bounds.lower, f"d{bind.variable} is bound to {value}, in {reach}"
        number, inside = nest.index_value(value), list[Value]()
        if reach.upper > last:
            inside = [nest.builder.icmp_signed("<=", number, const_int(I64, last))]
            number = nest.builder.select(inside[0], number, const_int(I64, last))

        def bound(_: Sequence[Value]) -> Sequence[Value]:
            before = self._conditions
            self._conditions = [*before, *inside]
            body()
            self._conditions = before
            return ()

        vector = VectorVariable(bind.variable, bind.lanes) if bind.lanes else None
        nest.once(bind.variable, number, bound, (), vector)

    def stage_operand(self, tile: OperandTile, instruction: HloInstruction, stage: StageOperand) -> None:
        """See WorkSharing. The element is read from the tile after the next barrier."""
        self._operands.stage(tile, instruction, stage, self._all_conditions())

    def contract(
        self,
        tiles: Sequence[OperandTile],
        instruction: HloInstruction,
        contract: Contract,
        sums: Sequence[RegisterValue],
    ) -> list[RegisterValue]:
        """See WorkSharing."""
        return self._operands.contract(tiles, instruction, contract, sums)

    def stage_sum(self, tile: OperandTile, stage: StageSum, value: Value) -> None:
        """See WorkSharing. The element is read from the tile after the next barrier."""
        self._operands.stage_sum(tile, stage, value)

    def where_inside(self, value: Value, outside: float) -> Value:
        """See WorkSharing."""
        inside = self._all_conditions()
        return value if inside is None else self._nest.builder.select(inside, value, constant(value.type, outside))

    def combine_lanes(self, values: Values, combine: CombinePair, lanes: int) -> list[RegisterValue]:
        """See WorkSharing."""
        return combine_across(self._nest.builder, values, combine, lanes)


class _SharedTile:
    """Elements in shared memory, read where the tile's variables are."""

    def __init__(self, fused: FusedIrEmitter, tile: Tile, arrays: Sequence[SharedArray], like: RegisterValue) -> None:
        self._fused = fused
        self._tile = tile
        self._arrays = arrays
        self._like = like

    def __call__(self, output: int = 0) -> Element:
        assert not output, "threads stage arrays"
        nest, place = self._fused.nest, self._tile.place
        assert place is not None
        depth = max(nest.depth_of(dim(v)) for v in self._tile.over)
        builder = nest.levels[depth].builder
        position = nest.index_value(place)
        return unflatten([array.load(builder, position) for array in self._arrays], [self._like])[0], depth


def _meets(body: Sequence[Statement]) -> bool:
    """Whether all threads of the block meet in a body: at a barrier, or to combine what warps have."""
    statements = list(statements_of(tuple(body)))
    if any(isinstance(s, Barrier) for s in statements):
        return True
    if not any(isinstance(s, Reduce) for s in statements):
        return False
    roles = {r.lanes.role for r in reductions_of(tuple(body)) if r.lanes is not None}
    return not roles.isdisjoint((Role.THREAD, Role.WARP))
