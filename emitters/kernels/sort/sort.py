"""sort: one line along the sorted dimension per unit; always stable, any comparator, any number of operands.

An order by one key sorts (unsigned key, position) pairs - by radix, or short lines by merging - and then moves all
operands once. One operand alone in ordinary ascending order is sorted by NumPy's vectorised sort, or by its bytes if it
has one or two. Any other comparator is inlined into a merge sort of all operands.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence

from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.loops.lines import Line, LineKernel, contiguous, raw_type
from xjit.emitters.kernels.sort import narrow_sort
from xjit.emitters.kernels.sort.merge_sort import emit_merge_sort
from xjit.emitters.kernels.sort.narrow_sort import emit_narrow_sort, is_by_bytes
from xjit.emitters.kernels.sort.numpy_sort import emit_numpy_sort, numpy_sort_name
from xjit.emitters.kernels.sort.pair_sort import emit_pair_sort, is_by_radix, work_bytes
from xjit.emitters.kernels.sort.radix_sort import num_digits
from xjit.emitters.kernels.sort.sort_order import emit_key, from_raw
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.nested import IrEmitterNested
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int
from xjit.ops.sort_keys import KeyOrder, key_order

NS_PER_COMPARISON = 3.0
NS_PER_RADIX_PASS = 2.0
NS_PER_COUNTER = 1.0


def emit_sort(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a sort."""
    sort = view.hero
    order = key_order(sort.to_apply)
    operand = sort.operand(0).shape
    axis = sort.attributes_as(at.SortAttributes).dimensions[0]
    if order is not None and is_by_bytes(order, sort.operand_count, operand.dimensions[axis]):
        return [_NarrowSort(context, view, axis, order).build()]
    if order is not None and numpy_sort_name(order, sort.operand_count, operand.dimensions[axis]):
        return [_NumpySort(context, view, axis, order).build()]
    if order is not None:
        return [_KeyedSort(context, view, axis, order).build()]
    return [_ComparatorSort(context, view, axis).build()]


class _Sort(LineKernel, abc.ABC):
    """What the ways of sorting share: lines of operands and results, scratch arrays, estimates."""

    def __init__(self, context: KernelContext, view: KernelView, axis: int) -> None:
        shape = view.hero.operand(0).shape
        super().__init__(context, view, axis, shape.dimensions)
        self.size = shape.dimensions[axis]
        self.sort = view.hero
        self.scratch: Scratch | None = None
        self.nested = IrEmitterNested()

    def allocate(self, sizes: Sequence[int]) -> list[Value]:
        """Scratch pieces of that many bytes, allocated once per call of the kernel."""
        self.scratch = Scratch(self.context.module, self.nest.levels[0].builder, sizes)
        return self.scratch.pieces

    def on_exit(self, builder: IRBuilder) -> None:
        if self.scratch is not None:
            self.scratch.free(builder)

    def inputs(self) -> list[Line]:
        """The current lines of all operands."""
        return [self.line(self.operand(o)) for o in self.sort.operands]

    def outputs(self) -> list[Line]:
        """The current lines of all results."""
        return [self.line(r) for r in self.results]

    def comparisons_ns(self) -> float:
        """The estimated time of a merge sort of all lines."""
        return NS_PER_COMPARISON * self.lines * self.size * max(1.0, math.log2(max(self.size, 1)))

    @abc.abstractmethod
    def build(self) -> Kernel:
        """Emits the kernel."""


def position_type(size: int) -> PrimitiveType:
    """The type of positions in a line."""
    return PrimitiveType.U32 if size < 1 << 32 else PrimitiveType.U64


def copy_line(builder: StructuredBuilder, source: Line, target: Line) -> None:
    """Copies all elements."""
    with builder.loop(const_int(I64, 0), const_int(I64, source.size), name="copy") as i:
        target.store_raw(builder, i, source.load_raw(builder, i))


class _ComparatorSort(_Sort):
    """Merge sort with the comparator inlined, on copies of all operands."""

    def build(self) -> Kernel:
        kinds = [o.shape.element_type for o in self.sort.operands]
        sizes = [self.size * k.byte_width for k in kinds]
        pieces = self.allocate([*sizes, *sizes])
        first = [contiguous(k, p, self.size) for k, p in zip(kinds, pieces[: len(kinds)], strict=True)]
        second = [contiguous(k, p, self.size) for k, p in zip(kinds, pieces[len(kinds) :], strict=True)]

        def body(builder: StructuredBuilder) -> None:
            inputs, outputs = self.inputs(), self.outputs()
            for source, target in zip(inputs, first, strict=True):
                copy_line(builder, source, target)
            done = emit_merge_sort(builder, self.size, first, second, lambda a, b: self._less(builder, kinds, a, b))
            for source, target in zip(done, outputs, strict=True):
                copy_line(builder, source, target)

        return self.emit(body, "sort", self.comparisons_ns())

    def _less(
        self, builder: StructuredBuilder, kinds: Sequence[PrimitiveType], a: Sequence[Value], b: Sequence[Value]
    ) -> Value:
        pairs = [from_raw(builder, k, v) for k, x, y in zip(kinds, a, b, strict=True) for v in (x, y)]
        result = self.nested.inline(builder, self.sort.to_apply, pairs)[0]
        assert isinstance(result, Value)
        return result


class _KeyedSort(_Sort):
    """Sorts keys with their positions, then moves the operands."""

    def __init__(self, context: KernelContext, view: KernelView, axis: int, order: KeyOrder) -> None:
        super().__init__(context, view, axis)
        self.order = order

    def build(self) -> Kernel:
        key_kind = PrimitiveType.U64 if self.order.kind.bit_width == 64 else PrimitiveType.U32
        kinds = [key_kind, position_type(self.size)]
        sizes = [self.size * k.byte_width for k in kinds]
        pieces = self.allocate([*sizes, *sizes, work_bytes(self.size, key_kind.bit_width)])
        first = [contiguous(k, p, self.size) for k, p in zip(kinds, pieces[:2], strict=True)]
        second = [contiguous(k, p, self.size) for k, p in zip(kinds, pieces[2:4], strict=True)]

        def body(builder: StructuredBuilder) -> None:
            inputs, outputs = self.inputs(), self.outputs()
            emit_keys(builder, self.order, self.nested, inputs[self.order.operand], first)
            done = emit_pair_sort(builder, self.size, first, second, pieces[4])
            with builder.loop(const_int(I64, 0), const_int(I64, self.size), name="move") as i:
                place = done[1].load_raw(builder, i)
                place = builder.zext(place, I64) if place.type.bits < 64 else place
                for source, target in zip(inputs, outputs, strict=True):
                    target.store_raw(builder, i, source.load_raw(builder, place))

        passes = num_digits(key_kind.bit_width) + 2
        by_radix = self.lines * self.size * passes * NS_PER_RADIX_PASS
        return self.emit(body, "sort", by_radix if is_by_radix(self.size) else self.comparisons_ns())


def emit_keys(
    builder: StructuredBuilder, order: KeyOrder, nested: IrEmitterNested, source: Line, pairs: Sequence[Line]
) -> None:
    """Writes the (key, position) pairs of a line."""
    with builder.loop(const_int(I64, 0), const_int(I64, source.size), name="key") as i:
        value = from_raw(builder, source.kind, source.load_raw(builder, i))
        pairs[0].store_raw(builder, i, emit_key(builder, nested, order, value))
        position = raw_type(pairs[1].kind)
        pairs[1].store_raw(builder, i, builder.trunc(i, position) if position.bits < 64 else i)


class _NumpySort(_Sort):
    """One operand in ordinary ascending order, sorted in the result itself if that is contiguous."""

    def __init__(self, context: KernelContext, view: KernelView, axis: int, order: KeyOrder) -> None:
        super().__init__(context, view, axis)
        self.order = order

    def build(self) -> Kernel:
        kind = self.sort.operand(0).shape.element_type
        pieces = self.allocate([self.size * kind.byte_width])

        def body(builder: StructuredBuilder) -> None:
            source, target = self.inputs()[0], self.outputs()[0]
            place = target if target.stride == 1 else contiguous(kind, pieces[0], self.size)
            emit_numpy_sort(builder, source, place)
            if place is not target:
                copy_line(builder, place, target)

        cost = self.comparisons_ns() / 16
        return self.emit(body, "sort", cost)


class _NarrowSort(_Sort):
    """One operand of one or two bytes, sorted by these."""

    def __init__(self, context: KernelContext, view: KernelView, axis: int, order: KeyOrder) -> None:
        super().__init__(context, view, axis)
        self.order = order

    def build(self) -> Kernel:
        kind = self.sort.operand(0).shape.element_type
        counters, room = self.allocate(narrow_sort.work_bytes(kind, self.size))

        def body(builder: StructuredBuilder) -> None:
            emit_narrow_sort(builder, self.order, self.inputs()[0], self.outputs()[0], (counters, room))

        passes = 2 * kind.byte_width
        moves = self.size * NS_PER_RADIX_PASS + narrow_sort.BUCKETS * NS_PER_COUNTER
        return self.emit(body, "sort", self.lines * passes * moves)
