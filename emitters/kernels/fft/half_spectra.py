"""Inverse real transforms of several dimensions: columns of half spectra, kept where the real rows will be.

Half a spectrum of a row of n real numbers is n / 2 + 1 complex ones, but the first, and of an even n the last, count as
real once all columns are transformed. Without their imaginary parts they are n numbers: the first real part, then
pairs, then perhaps a real part. So a row of the result holds its half spectrum until the row's own transform replaces
it: real part k is number 2k - 1, imaginary part k number 2k, and only real part 0 is number 0.

Columns 0 and n / 2, the edges, have a kernel of their own; those of three dimensions are `half_edges`.
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
from xjit.emitters.kernels.fft.half_edges import EdgePlanes
from xjit.emitters.kernels.fft.transform import spread
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.values import Value


def emit_half_columns(context: KernelContext, view: KernelView, first: int) -> list[Kernel]:
    """Emits the kernels of all dimensions of an IRFFT from `first` on, but the last.

    Those of dimension `first` read the operand, the others the rows of the result, where all write to.
    """
    last = len(view.result_shapes[0].dimensions) - 1
    edges = _edges_of(view.result_shapes[0])
    if last - first > 1:
        kernels = [EdgePlanes(context, view, first, edges.count).emit()]
    else:
        kernels = _half_columns(context, view, ColumnPass(first, True, 1.0), [edges], _Edges)
    for axis in range(first, last):
        task, places = ColumnPass(axis, True, 1.0), _HalfPlaces if axis == first else _KeptHalves
        kernels += _half_columns(context, view, task, _strips_inside(context, view, axis), places)
    return kernels


def _edges_of(shape: Shape) -> Strips:
    n = shape.dimensions[-1]
    return Strips(0, 1, 2, n // 2) if n % 2 == 0 else Strips(0, 1, 1)


def _strips_inside(context: KernelContext, view: KernelView, axis: int) -> list[Strips]:
    """How the columns between the edges are shared out."""
    shape = view.result_shapes[0]
    inside, kind = (shape.dimensions[-1] - 1) // 2, shape.element_type
    if not inside:
        return []
    lanes = context.target.vector_width(register_type(kind))
    found = strips_of(shape.dimensions[axis], inside, lanes, kind.byte_width)
    return [Strips(s.first + 1, s.width, s.count) for s in found]


def _half_columns(
    context: KernelContext, view: KernelView, task: ColumnPass, strips: Sequence[Strips], kind: type[_HalfPlaces]
) -> list[Kernel]:
    """Emits the kernels of strips of one dimension."""

    def places(
        nest: LoopNest, memory: MemoryAccess, leaves: Mapping[HloInstruction, Buffer], result: Buffer
    ) -> _HalfPlaces:
        return kind(nest, memory, leaves[view.hero.operand(0)], result, task.axis)

    return [ColumnKernel(context, view, task, strip, places).emit() for strip in strips]


class _HalfPlaces:
    """Columns that are read from the operand, and written as half spectra to the rows of the result.

    A column is one of `outer`: the dimensions before the pass's, and those between it and the rows.
    """

    array: Buffer | None = None

    def __init__(self, nest: LoopNest, memory: MemoryAccess, source: Buffer, result: Buffer, axis: int) -> None:
        dims = result.shape.dimensions
        self.nest, self.memory, self.row_size = nest, memory, dims[-1]
        self.outer = math.prod(dims[:axis]), math.prod(dims[axis + 1 : -1])
        box = self.outer[0], dims[axis], self.outer[1]
        self.data = Buffer(Shape.array(result.shape.element_type, (*box, dims[-1])), result.pointer)
        half = source.shape.dimensions[-1]
        self.source = Buffer(Shape.array(source.shape.element_type, (*box, half)), source.pointer)

    def load(self, outer: Index, row: AffineExpr, column: AffineExpr) -> Pair:
        value = self.memory.load(self.source, (outer[0], row, outer[1], column), here(self.nest))
        assert isinstance(value, ComplexValue)
        return spread(self.nest, value.real), spread(self.nest, value.imag)

    def store(self, outer: Index, row: AffineExpr, column: AffineExpr, value: Pair) -> None:
        nest = self.nest
        for place, part in zip(self.numbers(column), value, strict=False):
            index = (outer[0], row, outer[1], place)
            varies = nest.uses_vector(physical_offset(nest.table, self.data.shape, index))
            self.memory.store(self.data, index, part if varies else nest.builder.extract_element(part, 0))

    def numbers(self, column: AffineExpr) -> tuple[AffineExpr, ...]:
        """Which numbers of its row the parts of an element are, as far as they are kept."""
        return column * 2 - 1, column * 2


class _Edges(_HalfPlaces):
    """Columns 0 and n / 2, of two dimensions: only real parts are kept, as numbers 0 and n - 1."""

    def numbers(self, column: AffineExpr) -> tuple[AffineExpr, ...]:
        return (column.floordiv(max(1, self.row_size // 2)) * (self.row_size - 1),)


class _KeptHalves(_HalfPlaces):
    """Columns of the half spectra that an earlier pass has written."""

    def load(self, outer: Index, row: AffineExpr, column: AffineExpr) -> Pair:
        indices = [(outer[0], row, outer[1], place) for place in self.numbers(column)]
        real, imag = (self.memory.load(self.data, index, here(self.nest)) for index in indices)
        assert isinstance(real, Value) and isinstance(imag, Value)
        return spread(self.nest, real), spread(self.nest, imag)


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
