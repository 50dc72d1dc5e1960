"""Reductions that the threads of a block do together: each takes its share, then they combine what they have.

Lanes of a warp exchange values by shuffles, warps through shared memory. The tree depends on the schedule alone, and
every thread gets the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.elemental import RegisterValue
from xjit.emitters.gpu.shared_memory import SharedArray, SharedMemory
from xjit.emitters.gpu.shuffles import combine_across
from xjit.emitters.gpu.threads import Threads
from xjit.emitters.loops.loop_nest import LoopBody, LoopNest
from xjit.emitters.reductions.lane_combining import CombinePair, Values, combine_in_register, combine_sets
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.emitters.schedule.statements import Lanes, Role
from xjit.llvm.builder import IRBuilder
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I32, I64, VOID
from xjit.llvm.values import Value, const_int


def emit_barrier(builder: IRBuilder) -> None:
    """Emits the barrier of all threads of a block."""
    builder.intrinsic("nvvm.barrier.cta.sync.aligned.all", VOID, (const_int(I32, 0),), overloads=())


def emit_warp_barrier(builder: IRBuilder) -> None:
    """Emits the barrier of all lanes of a warp."""
    builder.intrinsic("nvvm.bar.warp.sync", VOID, (const_int(I32, -1),), overloads=())


class BlockLanes:
    """`LaneLoops` of a GPU."""

    def __init__(self, nest: LoopNest, threads: Threads, shared: SharedMemory) -> None:
        self._nest = nest
        self._threads = threads
        self._shared = shared

    def first(self, lanes: Lanes, chain: int) -> Value:
        """See LaneLoops. Threads that have no element of their own start with the last one, as another does."""
        assert chain == 0 and lanes.first is not None
        if lanes.role is Role.VECTOR:
            return const_int(I64, 0)
        builder, last = self._nest.builder, const_int(I64, self._nest.intervals[lanes.first].upper)
        number, _ = self._threads.who(lanes.role)
        return builder.select(builder.icmp_signed("<", number, last), number, last)

    def loop(self, lanes: Lanes, body: LoopBody, accumulators: Sequence[Value]) -> list[Value]:
        """See LaneLoops."""
        if lanes.role is Role.VECTOR:
            return self._nest.interleaved_vector_loop(lanes.variable, lanes.width, lanes.chains, body, accumulators)
        assert lanes.chains == 1, "threads have one set of accumulators each"
        width = lanes.width if lanes.width > 1 else 0
        return self._threads.loop(lanes.role, lanes.variable, width, body, accumulators)

    def combine(self, lanes: Lanes, sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
        """See LaneLoops."""
        builder = self._nest.builder
        if lanes.width > 1:
            values = combine_in_register(builder, sets, combine)
        else:
            values = combine_sets(sets, combine)
        if lanes.role is Role.VECTOR:
            return values
        if lanes.role is Role.WARP:
            return self._across_warps(values, combine)
        values = combine_across(builder, values, combine)
        if lanes.role is Role.LANE or self._threads.num_warps == 1:
            return values
        return self._across_block(values, combine)

    def _across_block(self, values: Values, combine: CombinePair) -> list[RegisterValue]:
        """Combines one value per warp: they meet in shared memory, and each warp does the rest by shuffles."""
        nest, threads = self._nest, self._threads
        arrays = self._arrays(values, threads.num_warps)
        first = nest.builder.icmp_signed("==", threads.lane, const_int(I64, 0))

        def write(_: Sequence[Value]) -> Sequence[Value]:
            for array, part in zip(arrays, flatten(values), strict=True):
                array.store(nest.builder, threads.warp, part)
            return ()

        nest.where(first, write)
        builder = nest.builder
        emit_barrier(builder)
        place = builder.and_(threads.lane, const_int(I64, threads.num_warps - 1))
        loaded = unflatten([array.load(builder, place) for array in arrays], values)
        return combine_across(builder, loaded, combine, threads.num_warps)

    def _across_warps(self, values: Values, combine: CombinePair) -> list[RegisterValue]:
        """Combines, for each lane, what all warps have, in the order of the warps."""
        nest, threads = self._nest, self._threads
        builder = nest.builder
        parts = flatten(values)
        width = parts[0].type.width
        row = WARP_SIZE * width
        arrays = self._arrays(values, row * threads.num_warps)
        column = builder.mul(threads.lane, const_int(I64, width)) if width > 1 else threads.lane
        own = builder.add(builder.mul(threads.warp, const_int(I64, row)), column)
        for array, part in zip(arrays, parts, strict=True):
            array.store(builder, own, part)
        emit_barrier(builder)
        total: list[RegisterValue] = []
        for warp in range(threads.num_warps):
            place = builder.add(column, const_int(I64, warp * row))
            lanes = 0 if width == 1 else width
            found = unflatten([array.load(builder, place, lanes) for array in arrays], values)
            total = combine(total, found) if total else found
        return total

    def _arrays(self, values: Values, count: int) -> list[SharedArray]:
        return [self._shared.allocate(part.type.elem, count) for part in flatten(values)]
