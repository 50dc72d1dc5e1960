"""Inverse real transforms of two dimensions: columns of half spectra, kept where the real rows will be.

Half a spectrum of a row of n real numbers is n / 2 + 1 complex ones, but the first, and of an even n the last, count as
real once all columns are transformed. Without their imaginary parts they are n numbers: the first real part, then
pairs, then perhaps a real part. So a row of the result holds its half spectrum until the row's own transform replaces
it: real part k is number 2k - 1, imaginary part k number 2k, and only real part 0 is number 0.

Columns 0 and n / 2, the edges, have a kernel of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import ComplexValue, register_type
from xjit.emitters.kernels.fft.butterflies import Pair
from xjit.emitters.kernels.fft.columns import ColumnKernel, ColumnPass, Index, Strips, strips_of
from xjit.emitters.kernels.fft.transform import spread
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.values import Value


def emit_half_columns(context: KernelContext, view: KernelView, task: ColumnPass) -> list[Kernel]:
    """Emits the kernels of the first dimension of an IRFFT. They read the operand, and write to rows of the result."""
    shape = view.result_shapes[0]
    n, length, kind = shape.dimensions[-1], shape.dimensions[task.axis], shape.element_type
    lanes = context.target.vector_width(register_type(kind))
    inside = (n - 1) // 2
    edges = Strips(0, 1, 2, n // 2) if n % 2 == 0 else Strips(0, 1, 1)
    strips = [edges]
    if inside:
        found = strips_of(length, inside, lanes, kind.byte_width)
        strips += [Strips(s.first + 1, s.width, s.count) for s in found]
    kernels: list[Kernel] = []
    for strip in strips:

        def places(
            nest: LoopNest,
            memory: MemoryAccess,
            leaves: Mapping[HloInstruction, Buffer],
            result: Buffer,
            is_edge: bool = strip is edges,
        ) -> _HalfPlaces:
            return _HalfPlaces(nest, memory, leaves[view.hero.operand(0)], result, task.axis, is_edge)

        kernels.append(ColumnKernel(context, view, task, strip, places).emit())
    return kernels


class _HalfPlaces:
    """Columns that are read from the operand, and written as half spectra to the rows of the result."""

    array: Buffer | None = None

    def __init__(
        self, nest: LoopNest, memory: MemoryAccess, source: Buffer, result: Buffer, axis: int, is_edge: bool
    ) -> None:
        dims = result.shape.dimensions
        self.nest, self.memory, self.is_edge, self.row_size = nest, memory, is_edge, dims[-1]
        self.outer = (math.prod(dims[:axis]),)
        box = (*self.outer, dims[axis])
        self.data = Buffer(Shape.array(result.shape.element_type, (*box, dims[-1])), result.pointer)
        half = source.shape.dimensions[-1]
        self.source = Buffer(Shape.array(source.shape.element_type, (*box, half)), source.pointer)

    def load(self, outer: Index, row: AffineExpr, column: AffineExpr) -> Pair:
        value = self.memory.load(self.source, (*outer, row, column), here(self.nest))
        assert isinstance(value, ComplexValue)
        return spread(self.nest, value.real), spread(self.nest, value.imag)

    def store(self, outer: Index, row: AffineExpr, column: AffineExpr, value: Pair) -> None:
        nest = self.nest
        if self.is_edge:  # columns 0 and n / 2: real parts, numbers 0 and n - 1
            places = [column.floordiv(max(1, self.row_size // 2)) * (self.row_size - 1)]
        else:
            places = [column * 2 - 1, column * 2]
        for place, part in zip(places, value, strict=False):
            index = (*outer, row, place)
            varies = nest.uses_vector(physical_offset(nest.table, self.data.shape, index))
            self.memory.store(self.data, index, part if varies else nest.builder.extract_element(part, 0))


def load_half_row(
    nest: LoopNest, memory: MemoryAccess, row: Callable[[AffineExpr], Value], n: int, box: Sequence[Buffer], width: int
) -> None:
    """Emits loads of the half spectrum of a row of the result, of n numbers, into two lines of scratch memory.

    `row` emits the load of a number of the row. The imaginary parts of the edges are left as they are.
    """
    memory.store(box[0], (constant(0),), row(constant(0)))
    for part, count in ((0, n // 2), (1, (n - 1) // 2)):
        position = nest.new_variable(count, 1)

        def body(_: Sequence[Value], part: int = part, position: int = position) -> Sequence[Value]:
            memory.store(box[part], (dim(position),), row(dim(position) * 2 + (part - 1)))
            return ()

        nest.vector_loop(position, width, body)
