"""Rows side by side: one dimension's transforms of as many rows as a vector has lanes.

In stages of a small stride, vectors along a row would be scattered: those of odd radices, and the first ones of any. A
group of rows is transposed on its way to scratch memory [length, lanes], where all stages are those of whole vectors.
The last group repeats its last row in the lanes that have none: it is loaded, and stored, several times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.affine import constant, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.columns import NS_PER_BUTTERFLY, is_row_major
from xjit.emitters.kernels.fft.lengths import transform_of
from xjit.emitters.kernels.fft.real_halves import RealHalves, pairs_of
from xjit.emitters.kernels.fft.row_parts import Rows, emit_join_rows, emit_split_rows
from xjit.emitters.kernels.fft.stockham import radices_of, weaves_all
from xjit.emitters.kernels.fft.transform import load_pair, store_pair
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo import attributes as at
from xjit.hlo.types.shape import Shape
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_int

GROUP_BYTES = 384 << 10
"""Of the two pairs of arrays that a group is transformed in: most of a second-level cache."""


def takes_groups(context: KernelContext, view: KernelView) -> bool:
    """Whether an fft of one dimension has rows for half the lanes, and stages that would scatter vectors."""
    attributes = view.hero.attributes_as(at.FftAttributes)
    (n,) = attributes.fft_length
    shapes = view.hero.operand(0).shape, view.result_shapes[0]
    kind = shapes[1].element_type.component
    lanes = context.target.vector_width(register_type(kind))
    has_halves = attributes.fft_type in ("RFFT", "IRFFT") and n % 2 == 0
    n = n // 2 if has_halves else n
    if not all(map(is_row_major, shapes)) or n < 2 or radices_of(n) is None:
        return False
    rows, fits = math.prod(shapes[1].dimensions[:-1]), 4 * n * lanes * kind.byte_width <= GROUP_BYTES
    return fits and rows > 1 and 2 * rows >= lanes and not weaves_all(n, lanes)


class RowGroups:
    """State while the kernel of an fft of one dimension is emitted."""

    def __init__(self, context: KernelContext, view: KernelView, scale: float) -> None:
        self.view, self.scale = view, scale
        attributes = view.hero.attributes_as(at.FftAttributes)
        self.kind_of_fft = attributes.fft_type
        self.inverse = self.kind_of_fft in ("IFFT", "IRFFT")
        (self.length,) = attributes.fft_length
        self.function, leaves, results = context.new_kernel(view)
        self.source, self.result = leaves[view.hero.operand(0)], results[0]
        self.kind = self.result.shape.element_type.component
        self.lanes = context.target.vector_width(register_type(self.kind))
        self.rows = math.prod(self.result.shape.dimensions[:-1])
        self.nest = LoopNest(context.module, self.function, context.target)
        self.memory = MemoryAccess(self.nest)
        self.halves = self._pair_up()
        self._allocate(context)
        self.function.is_cold = self.kind_of_fft in ("FFT", "IFFT")

    def _pair_up(self) -> RealHalves | None:
        """Takes real rows of even length as complex ones of half the length."""
        if self.kind_of_fft not in ("RFFT", "IRFFT") or self.length % 2:
            return None
        halves = RealHalves(self.nest, self.memory, self.length, self.kind, self.lanes)
        source, result = (array if array.shape.element_type.is_complex else pairs_of(array) for array in (
            self.source, self.result))  # fmt: skip
        assert source is not None and result is not None
        self.source, self.result, self.length = source, result, halves.m
        return halves

    def _allocate(self, context: KernelContext) -> None:
        builder = self.nest.builder
        self.transform = transform_of(context, self.length, self.kind, self.lanes, in_place=False)
        shape = Shape.array(self.kind, (self.length + (self.halves is not None), self.lanes))
        sizes = [shape.num_elements * self.kind.byte_width] * (2 if self.halves is None else 4)
        tables = self.halves.table_bytes if self.halves is not None else ()
        self.scratch = Scratch(context.module, builder, [*sizes, *tables, self.transform.work_bytes])
        *strips, self.work = self.scratch.pieces
        self.strip, self.spectrum = ([Buffer(shape, p) for p in pair] for pair in (strips[:2], strips[2:4]))
        if self.halves is not None:
            self.halves.prepare(strips[4:])
        self.transform.emit_prepare(builder, self.work)

    def emit(self) -> Kernel:
        """Emits the kernel; its unit of work is a group."""
        nest = self.nest
        groups = -(-self.rows // self.lanes)
        group = nest.new_variable(groups)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            first = nest.index_value(dim(group) * self.lanes)
            self._load(first)
            ordered = self._exchanged([buffer.pointer for buffer in self.strip])
            nest.builder.call(self.transform.apply, [*ordered, self.work])
            result = self.transform.result(nest.builder, ordered, self.work)
            self._store(first, self._exchanged(result))
            return ()

        begin, end = range_arguments(self.function)
        nest.loop(group, body, begin=begin, end=end, name="group")
        self.scratch.free(nest.builder)
        finish(nest)
        cost = groups * self.lanes * self.length * self.length.bit_length()
        return Kernel(self.function, groups, cost * NS_PER_BUTTERFLY, "fft", self.view.byte_size, 5 * cost)

    def _exchanged(self, parts: Sequence[Value]) -> Sequence[Value]:
        return parts[::-1] if self.inverse else parts

    def _rows(self, array: Buffer, first: Value) -> Rows:
        builder = StructuredBuilder(self.nest.builder.block)
        *_, numbers = array.shape.dimensions
        is_complex = array.shape.element_type.is_complex
        size = builder.i64(numbers * array.shape.element_type.byte_width)
        place = builder.offset(array.pointer, builder.mul(first, size))
        return Rows(place, builder.sub(builder.i64(self.rows - 1), first), numbers, self.kind, is_complex)

    def _load(self, first: Value) -> None:
        builder, rows = self.nest.builder, self._rows(self.source, first)
        joined = self.halves is not None and self.inverse
        parts = [buffer.pointer for buffer in (self.spectrum if joined else self.strip)]
        emit_split_rows(builder, rows, parts)
        row = self.lanes * self.kind.byte_width
        if joined:
            assert self.halves is not None
            self.halves.join(self.spectrum, self.strip)
        elif not rows.is_complex:
            size = const_int(I64, row * self.length)
            builder.memset(parts[1], const_int(I8, 0), size, self.kind.byte_width)
        elif self.kind_of_fft == "IRFFT":
            builder.memset(parts[1], const_int(I8, 0), const_int(I64, row), self.kind.byte_width)
            self._complete_spectrum(rows.numbers)

    def _complete_spectrum(self, half: int) -> None:
        """Fills in the conjugates that make the result real."""
        nest, n = self.nest, self.length
        if half == n:
            return
        position, lane = nest.new_variable(n - half, half), nest.new_variable(self.lanes)

        def element(_: Sequence[Value]) -> Sequence[Value]:
            re, im = load_pair(nest, self.memory, self.strip, (constant(n) - dim(position), dim(lane)))
            store_pair(self.memory, self.strip, (dim(position), dim(lane)), (re, nest.builder.fneg(im)))
            return ()

        nest.loops([position, lane], element, vector_width=self.lanes)

    def _store(self, first: Value, parts: Sequence[Value]) -> None:
        if self.halves is not None and not self.inverse:
            transformed = [Buffer(self.strip[0].shape, pointer) for pointer in parts]
            self.halves.spectrum(transformed, lambda k, value: store_pair(self.memory, self.spectrum, k, value))
            parts = [buffer.pointer for buffer in self.spectrum]
        emit_join_rows(self.nest.builder, self._rows(self.result, first), parts, self.scale)
