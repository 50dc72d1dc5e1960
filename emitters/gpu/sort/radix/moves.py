"""The kernel of a pass that moves elements: a tile is sorted by its digit in shared memory, then written run by run.

Lanes of a warp that have the same digit find each other, so an element's place among those of its digit is known
without comparing; places follow the order in which a pass finds the elements, which makes it stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.gpu.block_lanes import emit_barrier, emit_warp_barrier
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.scans import block_sums_before
from xjit.emitters.gpu.sort.lines import register_values
from xjit.emitters.gpu.sort.radix.digits import RadixPass
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import bind_index, scope, structured
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.gpu.radix_sort import DIGITS, THREADS, WARPS, RadixPlan
from xjit.emitters.planners.gpu.sort_network import register_parts
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import I16, I32, I64
from xjit.llvm.values import Value, const_int


def emit_moves(context: GpuKernelContext, view: KernelView, plan: RadixPlan, number: int) -> Kernel:
    """Emits the kernel of a pass. `counts` must be those of the tiles before."""
    return _Tile(RadixPass(context, view, plan, "move", number)).emit()


class _Tile:
    """The tile of a block. Warp w has the elements from w * 32 * items on, its lanes neighbouring ones."""

    def __init__(self, own: RadixPass) -> None:
        self._own = own
        self._nest = own.nest
        self._plan = own.plan
        self._line, self._number = own.tile()
        nest, operands = own.nest, own.view.hero.operands
        self._like = register_values(operands)
        self._first = nest.index_value(nest.simplify(self._number * own.plan.tile))
        parts = [part for operand in operands for part in register_parts(operand)]
        self._arrays = [own.shared.allocate(part, own.plan.tile) for part in parts]
        self._counts = own.shared.allocate(I32, WARPS * DIGITS)  # how many of a digit a warp has; later, those before
        self._places = own.shared.allocate(I16, own.plan.tile)  # of each element, among those of its digit and its warp
        self._bases = own.shared.allocate(I32, DIGITS)  # from the place in the tile to that in the line

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, threads, plan = self._nest, self._own.threads, self._plan
        for warp in range(WARPS):
            self._counts.store(nest.builder, self._slot(const_int(I64, warp), threads.thread), const_int(I32, 0))
        emit_barrier(nest.builder)
        self._each(self._count)
        emit_barrier(nest.builder)
        self._make_places()
        emit_barrier(nest.builder)
        self._each(self._exchange)
        emit_barrier(nest.builder)
        self._write()
        return self._own.finished(plan.blocks, plan.move_bytes)

    def _each(self, visit: Callable[[Value, Value, Value], None]) -> None:
        """Visits the thread's elements, all threads together, with the place in the tile, that in the line, and
        whether there is one.
        """
        nest, threads, plan = self._nest, self._own.threads, self._plan
        with structured(nest) as builder:
            warp = builder.mul(threads.warp, const_int(I64, WARP_SIZE * plan.items), nsw=True)
            start = builder.add(warp, threads.lane, nsw=True)
            end = const_int(I64, WARP_SIZE * plan.items)
            with builder.loop(const_int(I64, 0), end, WARP_SIZE, name="step") as step, scope(nest, builder):
                in_tile = builder.add(start, step, nsw=True)
                number = builder.add(self._first, in_tile, nsw=True)
                visit(in_tile, number, builder.icmp_signed("<", number, const_int(I64, plan.network.size)))

    def _slot(self, warp: Value, digit: Value) -> Value:
        builder = self._nest.builder
        return builder.add(builder.mul(warp, const_int(I64, DIGITS), nsw=True), digit, nsw=True)

    def _count(self, in_tile: Value, number: Value, exists: Value) -> None:
        """Counts an element; its place is how many of its warp, with its digit, are before it."""
        nest, threads, plan = self._nest, self._own.threads, self._plan

        def read(_: Sequence[Value]) -> Sequence[Value]:
            key = self._own.load(self._line, bind_index(nest, number, plan.network.size), plan.order.operand)
            return [nest.builder.trunc(self._own.digit(nest.builder, key), I32)]

        digit = nest.where(exists, read, [const_int(I32, 0)])[0]
        builder = nest.builder
        lane = builder.trunc(threads.lane, I32)
        mine = builder.select(exists, digit, const_int(I32, -1))
        arguments = (const_int(I32, -1), mine)
        same = builder.intrinsic("nvvm.match.any.sync.i32", I32, arguments, overloads=())
        lower = builder.sub(builder.shl(const_int(I32, 1), lane), const_int(I32, 1))
        before = builder.intrinsic("ctpop", I32, (builder.and_(same, lower),))
        slot = self._slot(threads.warp, builder.zext(digit, I64))
        seen = self._counts.load(builder, slot)
        emit_warp_barrier(builder)
        is_first = builder.and_(exists, builder.icmp_signed("==", before, const_int(I32, 0)))

        def count(_: Sequence[Value]) -> Sequence[Value]:
            number = nest.builder.intrinsic("ctpop", I32, (same,))
            self._counts.store(nest.builder, slot, nest.builder.add(seen, number))
            return ()

        nest.where(is_first, count)
        emit_warp_barrier(nest.builder)
        self._places.store(nest.builder, in_tile, nest.builder.trunc(nest.builder.add(seen, before), I16))

    def _make_places(self) -> None:
        """Makes of the counts of each warp the places of its digits in the tile. A thread has one digit."""
        nest, own = self._nest, self._own
        thread = own.threads.thread
        slots = [self._slot(const_int(I64, warp), thread) for warp in range(WARPS)]
        counts = [self._counts.load(nest.builder, slot) for slot in slots]
        total = counts[0]
        for count in counts[1:]:
            total = nest.builder.add(total, count)
        place = start = block_sums_before(nest, own.threads, own.shared, total)
        for slot, count in zip(slots, counts, strict=True):
            self._counts.store(nest.builder, slot, place)
            place = nest.builder.add(place, count)
        digit = bind_index(nest, thread, DIGITS)
        before_line = block_sums_before(nest, own.threads, own.shared, own.load_number(own.totals, (self._line, digit)))
        before_tile = own.load_number(own.counts, (self._line, digit, self._number))
        base = nest.builder.sub(nest.builder.add(before_line, before_tile), start)
        self._bases.store(nest.builder, thread, base)

    def _exchange(self, in_tile: Value, number: Value, exists: Value) -> None:
        """Puts an element where it belongs in the tile."""
        nest, plan = self._nest, self._plan

        def put(_: Sequence[Value]) -> Sequence[Value]:
            at = bind_index(nest, number, plan.network.size)
            values = [self._own.load(self._line, at, i) for i in range(len(plan.shapes))]
            builder = nest.builder
            slot = self._slot(self._own.threads.warp, self._own.digit(builder, values[plan.order.operand]))
            own = builder.zext(self._places.load(builder, in_tile), I32)
            place = builder.zext(builder.add(self._counts.load(builder, slot), own), I64)
            for array, part in zip(self._arrays, flatten(values), strict=True):
                array.store(builder, place, part)
            return ()

        nest.where(exists, put)

    def _write(self) -> None:
        """Writes the tile: neighbouring threads have neighbours of a run."""
        nest, own, plan = self._nest, self._own, self._plan
        left = nest.builder.sub(const_int(I64, plan.network.size), self._first)
        with structured(nest) as builder:
            end = builder.min(left, const_int(I64, plan.tile))
            with builder.loop(own.threads.thread, end, THREADS, name="element") as number, scope(nest, builder):
                values = unflatten([array.load(builder, number) for array in self._arrays], self._like)
                digit = own.digit(builder, values[plan.order.operand])
                base = builder.sext(self._bases.load(builder, digit), I64)
                place = bind_index(nest, builder.add(base, number), plan.network.size)
                own.store(self._line, place, values)
