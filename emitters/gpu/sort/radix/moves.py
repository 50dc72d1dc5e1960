"""The kernel of a pass that moves elements: a tile is sorted by its digit in shared memory, then written run by run.

Lanes of a warp that have the same digit find each other, so an element's place among those of its digit is known
without comparing; places follow the order in which a pass finds the elements, which makes it stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.emitters.elemental import RegisterValue
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
from xjit.llvm.types import I32, I64
from xjit.llvm.values import Value, const_int


def emit_moves(context: GpuKernelContext, view: KernelView, plan: RadixPlan, number: int) -> Kernel:
    """Emits the kernel of a pass. `counts` must be those of the tiles before."""
    return _Tile(RadixPass(context, view, plan, "move", number)).emit()


@dataclass(frozen=True, slots=True)
class _Element:
    """An element in registers: whether it exists, its values, its digit, and its place among those of its warp."""

    exists: Value
    values: list[RegisterValue]
    digit: Value
    rank: Value


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
        self._ranks = own.shared.allocate(I32, WARPS * DIGITS)  # how many of a digit a warp has; later, those before
        self._bases = own.shared.allocate(I32, DIGITS)  # from the place in the tile to that in the line

    def emit(self) -> Kernel:
        """Returns the kernel."""
        nest, threads, plan = self._nest, self._own.threads, self._plan
        for warp in range(WARPS):
            self._ranks.store(nest.builder, self._slot(const_int(I64, warp), threads.thread), const_int(I32, 0))
        emit_barrier(nest.builder)
        elements = [self._element(step) for step in range(plan.items)]
        emit_barrier(nest.builder)
        self._make_places()
        emit_barrier(nest.builder)
        for element in elements:
            self._exchange(element)
        emit_barrier(nest.builder)
        self._write()
        return self._own.finished(plan.blocks, plan.move_bytes)

    def _slot(self, warp: Value, digit: Value) -> Value:
        builder = self._nest.builder
        return builder.add(builder.mul(warp, const_int(I64, DIGITS), nsw=True), digit, nsw=True)

    def _element(self, step: int) -> _Element:
        """Reads an element, and counts it."""
        nest, threads, plan = self._nest, self._own.threads, self._plan
        builder = nest.builder
        warp = builder.mul(threads.warp, const_int(I64, WARP_SIZE * plan.items), nsw=True)
        in_tile = builder.add(builder.add(warp, threads.lane, nsw=True), const_int(I64, step * WARP_SIZE), nsw=True)
        number = builder.add(self._first, in_tile, nsw=True)
        exists = builder.icmp_signed("<", number, const_int(I64, plan.network.size))

        def load(_: Sequence[Value]) -> Sequence[Value]:
            place = bind_index(nest, number, plan.network.size)
            return flatten([self._own.load(self._line, place, i) for i in range(len(plan.shapes))])

        values = unflatten(nest.where(exists, load, flatten(self._like)), self._like)
        digit = nest.builder.trunc(self._own.digit(nest.builder, values[plan.order.operand]), I32)
        digit = nest.builder.select(exists, digit, const_int(I32, 0))
        return _Element(exists, values, digit, self._rank(exists, digit))

    def _rank(self, exists: Value, digit: Value) -> Value:
        """Emits how many elements of its warp are before one, of those with its digit."""
        nest, threads = self._nest, self._own.threads
        builder = nest.builder
        lane = builder.trunc(threads.lane, I32)
        mine = builder.select(exists, digit, const_int(I32, -1))
        arguments = (const_int(I32, -1), mine)
        same = builder.intrinsic("nvvm.match.any.sync.i32", I32, arguments, overloads=())
        lower = builder.sub(builder.shl(const_int(I32, 1), lane), const_int(I32, 1))
        before = builder.intrinsic("ctpop", I32, (builder.and_(same, lower),))
        slot = self._slot(threads.warp, builder.zext(digit, I64))
        seen = self._ranks.load(builder, slot)
        emit_warp_barrier(builder)
        is_first = builder.and_(exists, builder.icmp_signed("==", before, const_int(I32, 0)))

        def count(_: Sequence[Value]) -> Sequence[Value]:
            number = nest.builder.intrinsic("ctpop", I32, (same,))
            self._ranks.store(nest.builder, slot, nest.builder.add(seen, number))
            return ()

        nest.where(is_first, count)
        emit_warp_barrier(nest.builder)
        return nest.builder.add(seen, before)

    def _make_places(self) -> None:
        """Makes of the counts of each warp the places of its digits in the tile. A thread has one digit."""
        nest, own = self._nest, self._own
        thread = own.threads.thread
        slots = [self._slot(const_int(I64, warp), thread) for warp in range(WARPS)]
        counts = [self._ranks.load(nest.builder, slot) for slot in slots]
        total = counts[0]
        for count in counts[1:]:
            total = nest.builder.add(total, count)
        place = start = block_sums_before(nest, own.threads, own.shared, total)
        for slot, count in zip(slots, counts, strict=True):
            self._ranks.store(nest.builder, slot, place)
            place = nest.builder.add(place, count)
        digit = bind_index(nest, thread, DIGITS)
        before_line = block_sums_before(nest, own.threads, own.shared, own.load_number(own.totals, (self._line, digit)))
        before_tile = own.load_number(own.counts, (self._line, digit, self._number))
        base = nest.builder.sub(nest.builder.add(before_line, before_tile), start)
        self._bases.store(nest.builder, thread, base)

    def _exchange(self, element: _Element) -> None:
        """Puts an element where it belongs in the tile."""
        nest = self._nest
        slot = self._slot(self._own.threads.warp, nest.builder.zext(element.digit, I64))

        def put(_: Sequence[Value]) -> Sequence[Value]:
            builder = nest.builder
            place = builder.zext(builder.add(self._ranks.load(builder, slot), element.rank), I64)
            for array, part in zip(self._arrays, flatten(element.values), strict=True):
                array.store(builder, place, part)
            return ()

        nest.where(element.exists, put)

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
