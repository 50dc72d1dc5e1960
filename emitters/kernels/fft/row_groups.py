"""Rows side by side: the last dimension's transforms of as many rows as a vector has lanes.

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
    """Whether an fft has rows for half the lanes, and stages along them that would scatter vectors.

    Half spectra in rows of odd length (`half_spectra`) are left to transforms of one row.
    """
    attributes = view.hero.attributes_as(at.FftAttributes)
    *others, n = attributes.fft_length
    shapes = view.hero.operand(0).shape, view.result_shapes[0]
    kind = shapes[1].element_type.component
    lanes = context.target.vector_width(register_type(kind))
    has_halves = attributes.fft_type in ("RFFT", "IRFFT") and n % 2 == 0
    n = n // 2 if has_halves else n
    if others and attributes.fft_type == "IRFFT" and not has_halves:
        return False
    if not all(map(is_row_major, shapes)) or n < 2 or radices_of(n) is None:
        return False
    rows, fits = math.prod(shapes[1].dimensions[:-1]), 4 * n * lanes * kind.byte_width <= GROUP_BYTES
    return fits and rows > 1 and 2 * rows >= lanes and not weaves_all(n, lanes)


class RowGroups:
    """State while the kernel over the last dimension of an fft is emitted.

    With `reads_result` the rows of the result, of even length, hold the half spectra to transform (`half_spectra`).
    """

    def __init__(self, context: KernelContext, view: KernelView, scale: float, reads_result: bool = False) -> None:
        self.view, self.scale, self.reads_result = view, scale, reads_result
        attributes = view.hero.attributes_as(at.FftAttributes)
        self.kind_of_fft = attributes.fft_type
        self.inverse = self.kind_of_fft in ("IFFT", "IRFFT")
        self.length = attributes.fft_length[-1]
        self.function, leaves, results = context.new_kernel(view)
        self.source, self.result = results[0] if reads_result else leaves[view.hero.operand(0)], results[0]
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
        self.source = self.source if self.reads_result else source
        self.result, self.length = result, halves.m
        return halves

    def _allocate(self, context: KernelContext) -> None:
        builder, lanes, size = self.nest.builder, self.lanes, self.kind.byte_width
        self.transform = transform_of(context, self.length, self.kind, lanes, in_place=False)
        strip = Shape.array(self.kind, (self.length, lanes))
        sizes, spectrum = [strip.num_elements * size] * 2, 0
        if self.halves is not None:
            spectrum = (self.length + 1) * lanes * size
            sizes += [2 * spectrum, *self.halves.table_bytes]
        self.scratch = Scratch(context.module, builder, [*sizes, self.transform.work_bytes])
        *pieces, self.work = self.scratch.pieces
        self.strip = [Buffer(strip, piece) for piece in pieces[:2]]
        if self.halves is not None:
            shape = Shape.array(self.kind, (self.length + 1, lanes * (2 if self.reads_result else 1)))
            imag = builder.gep(I8, pieces[2], const_int(I64, lanes * size if self.reads_result else spectrum))
            self.spectrum = [Buffer(shape, pieces[2]), Buffer(shape, imag)]
            self.halves.prepare(pieces[3:])
        self.transform.emit_prepare(builder, self.work)

    def emit(self) -> Kernel:
        """Emits the kernel; its unit of work is a group."""
        nest = self.nest
        groups = -(-self.rows // self.lanes)
        group = nest.new_variable(groups)
        ordered = self._exchanged([buffer.pointer for buffer in self.strip])
        # before the loop, where the addresses of its elements are that no loop inside changes
        result = self.transform.result(nest.builder, ordered, self.work)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            first = nest.index_value(dim(group) * self.lanes)
            self._load(first)
            nest.builder.call(self.transform.apply, [*ordered, self.work])
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
        row = self.lanes * self.kind.byte_width
        if self.reads_result:  # real part 0 is where imaginary part 0 would be
            emit_split_rows(builder, rows, [parts[1], parts[1]])
            builder.memcpy(parts[0], parts[1], const_int(I64, row), self.kind.byte_width)
        else:
            emit_split_rows(builder, rows, parts)
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
