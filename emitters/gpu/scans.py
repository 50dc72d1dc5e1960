"""Sums of what lanes, or threads, have up to each of them."""

from __future__ import annotations

from xjit.emitters.gpu.block_lanes import emit_barrier
from xjit.emitters.gpu.shared_memory import SharedMemory
from xjit.emitters.gpu.shuffles import shuffle_up
from xjit.emitters.gpu.threads import Threads
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.llvm.builder import IRBuilder
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I32, I64
from xjit.llvm.values import Value, const_int


def warp_sums(builder: IRBuilder, lane: Value, value: Value) -> Value:
    """Emits the sum of an integer of this lane and all lanes below. Every lane of the warp must be here."""
    distance = 1
    while distance < WARP_SIZE:
        below = shuffle_up(builder, value, distance)
        there = builder.icmp_signed(">=", lane, const_int(I64, distance))
        value = builder.add(value, builder.select(there, below, const_int(value.type, 0)))
        distance *= 2
    return value


def block_sums_before(nest: LoopNest, threads: Threads, shared: SharedMemory, value: Value) -> Value:
    """Emits the sum of an i32 of all threads below this one. Every thread of the block must be here."""
    builder = nest.builder
    ends = shared.allocate(I32, threads.num_warps)
    own = warp_sums(builder, threads.lane, value)

    def store(_: object) -> tuple[()]:
        ends.store(nest.builder, threads.warp, own)
        return ()

    nest.where(builder.icmp_signed("==", threads.lane, const_int(I64, WARP_SIZE - 1)), store)
    builder = nest.builder
    emit_barrier(builder)
    total = builder.sub(own, value)
    for warp in range(threads.num_warps - 1):
        is_below = builder.icmp_signed("<", const_int(I64, warp), threads.warp)
        end = ends.load(builder, const_int(I64, warp))
        total = builder.add(total, builder.select(is_below, end, const_int(I32, 0)))
    return total
