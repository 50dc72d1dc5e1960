"""The kernels of a pass that count digits: in each tile, and from tile to tile."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import dim
from xjit.emitters.gpu.block_lanes import emit_barrier
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.scans import warp_sums
from xjit.emitters.gpu.shuffles import shuffle_from
from xjit.emitters.gpu.sort.radix.digits import RadixPass
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import bind_index, scope, structured
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.radix_sort import DIGITS, THREADS, WARPS, RadixPlan
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I32, I64
from xjit.llvm.values import Value, const_int


def emit_digit_counts(context: GpuKernelContext, view: KernelView, plan: RadixPlan, number: int) -> Kernel:
    """Emits the kernel that counts the digits of a pass in each tile: a block each."""
    own = RadixPass(context, view, plan, "count", number)
    nest, thread = own.nest, own.threads.thread
    bins = own.shared.allocate(I32, DIGITS)
    line, tile = own.tile()
    bins.store(nest.builder, thread, const_int(I32, 0))
    emit_barrier(nest.builder)
    first = nest.index_value(nest.simplify(tile * plan.tile))
    left = nest.builder.sub(const_int(I64, plan.network.size), first)
    with structured(nest) as builder:
        end = builder.min(left, const_int(I64, plan.tile))
        with builder.loop(thread, end, THREADS, name="element") as element, scope(nest, builder):
            place = bind_index(nest, builder.add(first, element), plan.network.size)
            digit = own.digit(builder, own.load(line, place, plan.order.operand))
            builder.atomicrmw("add", bins.address(builder, digit), const_int(I32, 1), "monotonic", scope="block")
    emit_barrier(nest.builder)
    own.store_number(own.counts, (line, bind_index(nest, thread, DIGITS), tile), bins.load(nest.builder, thread))
    return own.finished(plan.blocks, plan.count_bytes)


def emit_count_sums(context: GpuKernelContext, view: KernelView, plan: RadixPlan) -> Kernel:
    """Emits the kernel that makes of counts those of all tiles before: a warp for each digit of a line."""
    own = RadixPass(context, view, plan, "sums", 0)
    nest, lane = own.nest, own.threads.lane
    blocks_of_line = DIGITS // WARPS
    block = bind_index(nest, own.block, plan.network.lines * blocks_of_line)
    line = nest.simplify(block.floordiv(blocks_of_line))
    digit = nest.simplify(block.mod(blocks_of_line) * WARPS + bind_index(nest, own.threads.warp, WARPS))
    group = nest.new_variable(-(-plan.tiles // WARP_SIZE))

    def step(carried: Sequence[Value]) -> Sequence[Value]:
        number = nest.index_value(nest.simplify(dim(group) * WARP_SIZE))
        number = nest.builder.add(number, lane)
        exists = nest.builder.icmp_signed("<", number, const_int(I64, plan.tiles))

        def load(_: Sequence[Value]) -> Sequence[Value]:
            return [own.load_number(own.counts, (line, digit, bind_index(nest, number, plan.tiles)))]

        def store(_: Sequence[Value]) -> Sequence[Value]:
            own.store_number(own.counts, (line, digit, bind_index(nest, number, plan.tiles)), before)
            return ()

        count = nest.where(exists, load, [const_int(I32, 0)])[0]
        sums = warp_sums(nest.builder, lane, count)
        before = nest.builder.add(carried[0], nest.builder.sub(sums, count))
        nest.where(exists, store)
        return [nest.builder.add(carried[0], shuffle_from(nest.builder, sums, WARP_SIZE - 1))]

    total = nest.scalar_loop(group, step, [const_int(I32, 0)])[0]

    def store_total(_: Sequence[Value]) -> Sequence[Value]:
        own.store_number(own.totals, (line, digit), total)
        return ()

    nest.where(nest.builder.icmp_signed("==", lane, const_int(I64, 0)), store_total)
    return own.finished(plan.network.lines * blocks_of_line, plan.scan_bytes)
