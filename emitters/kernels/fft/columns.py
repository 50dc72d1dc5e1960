"""The columns of an fft's result, transformed in place: every dimension but the last.

The result is an array [outer, length, inner]. The unit of work is a strip of columns that lie side by side: it is
copied to scratch memory [length, strip], where the columns are the lanes of vectors, so nothing is transposed. A strip
is as wide as the second-level cache allows, so that rows are read in pieces of several cache lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import ComplexValue, register_type
from xjit.emitters.kernels.fft.butterflies import Pair, scaled
from xjit.emitters.kernels.fft.lengths import transform_of
from xjit.emitters.kernels.fft.parts import MIN_ROW, emit_join, emit_split
from xjit.emitters.kernels.fft.stockham import radices_of
from xjit.emitters.kernels.fft.transform import load_pair, spread, store_pair
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.loops.hand_loops import Scratch, here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_int

NS_PER_BUTTERFLY = 0.6
Index = Sequence[AffineExpr]
STRIP_BYTES = 256 << 10
"""Of the two pairs of arrays that a strip is transformed in: a part of the second-level cache."""
MAX_STRIP = 64
"""Columns: eight cache lines of c64."""


@dataclass(frozen=True, slots=True)
class ColumnPass:
    """Transforms along dimension `axis` of the result, and multiplies by `scale`."""

    axis: int
    inverse: bool
    scale: float


@dataclass(frozen=True, slots=True)
class Strips:
    """`count` strips of `width` columns, from column `first` on; `distance` is that of their starts, 0: the width."""

    first: int
    width: int
    count: int
    distance: int = 0

    @property
    def step(self) -> int:
        """From the start of a strip to that of the next one."""
        return self.distance or self.width


def is_row_major(shape: Shape) -> bool:
    """Whether elements lie in memory in the order of their indices."""
    rank = len(shape.dimensions)
    tiled = shape.layout is not None and shape.layout.tile_dimensions
    return not tiled and tuple(shape.minor_to_major) == tuple(range(rank - 1, -1, -1))


def strips_of(length: int, inner: int, lanes: int, element_bytes: int) -> list[Strips]:
    """Returns how columns are shared out: strips of one width if there is a good one, else a narrower one at the end.

    `element_bytes` is that of one part of a number. Lengths with large prime factors have strips of one column.
    """
    if radices_of(length) is None:
        return [Strips(0, 1, inner)]
    widest = max(lanes, min(MAX_STRIP, STRIP_BYTES // (4 * length * element_bytes)))
    if inner <= widest:
        return [Strips(0, inner, 1)]
    dividing = next((w for w in range(widest, max(lanes, widest // 2) - 1, -1) if inner % w == 0), 0)
    if dividing:
        return [Strips(0, dividing, inner // dividing)]
    width = widest // lanes * lanes
    count, rest = divmod(inner, width)
    return [Strips(0, width, count), *([Strips(count * width, rest, 1)] if rest else [])]


class Places(Protocol):
    """Where a pass finds its columns: in an array of complex numbers, or in half spectra (`half_spectra`).

    A column is one of `outer`, a box of such sizes, and has a number in its row. Parts are vectors where lanes
    are. Where both load and store are those of an `array` [outer, length, inner], that is known.
    """

    outer: tuple[int, ...]
    array: Buffer | None

    def load(self, outer: Index, row: AffineExpr, column: AffineExpr) -> Pair:
        """Emits the load of an element."""
        ...

    def store(self, outer: Index, row: AffineExpr, column: AffineExpr, value: Pair) -> None:
        """Emits the store of an element."""
        ...


PlacesOf = Callable[[LoopNest, MemoryAccess, Mapping[HloInstruction, Buffer], Buffer], Places]
"""Makes the places of a kernel from its leaves and its result."""


def emit_columns(context: KernelContext, view: KernelView, task: ColumnPass) -> list[Kernel]:
    """Emits the kernels of one dimension of a complex result. They read and write the result."""
    shape = view.result_shapes[0]
    if not math.prod(shape.dimensions):
        return []
    inner = math.prod(shape.dimensions[task.axis + 1 :])
    lanes = context.target.vector_width(register_type(shape.element_type.component))
    strips = strips_of(shape.dimensions[task.axis], inner, lanes, shape.element_type.component.byte_width)

    def places(
        nest: LoopNest, memory: MemoryAccess, _: Mapping[HloInstruction, Buffer], result: Buffer
    ) -> _ComplexPlaces:
        return _ComplexPlaces(nest, memory, result, task.axis)

    return [ColumnKernel(context, view, task, s, places).emit() for s in strips]


class _ComplexPlaces:
    """The columns of an array of complex numbers."""

    def __init__(self, nest: LoopNest, memory: MemoryAccess, result: Buffer, axis: int) -> None:
        dims = result.shape.dimensions
        self.outer = (math.prod(dims[:axis]),)
        box = Shape.array(result.shape.element_type, (*self.outer, dims[axis], math.prod(dims[axis + 1 :])))
        self.data = Buffer(box, result.pointer)
        self.array: Buffer | None = self.data
        self.nest, self.memory = nest, memory

    def load(self, outer: Index, row: AffineExpr, column: AffineExpr) -> Pair:
        value = self.memory.load(self.data, (*outer, row, column), here(self.nest))
        assert isinstance(value, ComplexValue)
        return spread(self.nest, value.real), spread(self.nest, value.imag)

    def store(self, outer: Index, row: AffineExpr, column: AffineExpr, value: Pair) -> None:
        index = (*outer, row, column)
        if not self.nest.uses_vector(physical_offset(self.nest.table, self.data.shape, index)):
            value = self.nest.builder.extract_element(value[0], 0), self.nest.builder.extract_element(value[1], 0)
        self.memory.store(self.data, index, ComplexValue(*value))


class ColumnKernel:
    """State while the kernel of some strips is emitted."""

    def __init__(
        self, context: KernelContext, view: KernelView, task: ColumnPass, strips: Strips, places: PlacesOf
    ) -> None:
        self.task, self.strips = task, strips
        self.function, leaves, results = context.new_kernel(view, f".columns.{task.axis}")
        self.kind = results[0].shape.element_type.component
        self.length = results[0].shape.dimensions[task.axis]
        self.nest = LoopNest(context.module, self.function, context.target)
        self.memory = MemoryAccess(self.nest)
        self.places = places(self.nest, self.memory, leaves, results[0])
        self.lanes = context.target.vector_width(register_type(self.kind))
        self.transform = transform_of(context, self.length, self.kind, strips.width, in_place=False)
        size = self.length * strips.width * self.kind.byte_width
        self.scratch = Scratch(context.module, self.nest.builder, [size, size, self.transform.work_bytes])
        strip = Shape.array(self.kind, (self.length, strips.width))
        self.strip = [Buffer(strip, pointer) for pointer in self.scratch.pieces[:2]]
        self.transformed = self.strip
        self.array = self.places.array if self.lanes <= strips.width and size >= MIN_ROW * self.lanes else None
        self.function.is_cold = self.array is not None

    def emit(self) -> Kernel:
        """Emits the kernel."""
        nest, work, outer_sizes = self.nest, self.scratch.pieces[2], self.places.outer
        self.transform.emit_prepare(nest.builder, work)
        units = math.prod(outer_sizes) * self.strips.count
        unit = nest.new_variable(units)
        *outer, number = unit_index(nest.table, unit, (*outer_sizes, self.strips.count))
        parts = [buffer.pointer for buffer in self.strip]
        ordered = parts[::-1] if self.task.inverse else parts
        # before the loop, where the addresses of its elements are that no loop inside changes
        result = self.transform.result(nest.builder, ordered, work)
        transformed = result[::-1] if self.task.inverse else result
        self.transformed = [Buffer(self.strip[0].shape, pointer) for pointer in transformed]

        def body(_: Sequence[Value]) -> Sequence[Value]:
            array = self._array(outer, number)
            sizes = self.length, self.strips.width, self.array.shape.dimensions[-1] if self.array else 0
            if array is None:
                self._elements(outer, number, self._load)
            else:
                emit_split(nest.builder, self.kind, array, parts, sizes)
            nest.builder.call(self.transform.apply, [*ordered, work])
            if array is None:
                self._elements(outer, number, self._store)
            else:
                emit_join(nest.builder, self.kind, array, transformed, sizes, self.task.scale)
            return ()

        begin, end = range_arguments(self.function)
        nest.loop(unit, body, begin=begin, end=end, name="strip")
        self.scratch.free(nest.builder)
        finish(nest)
        size = units * self.length * self.strips.width
        cost = size * max(1, self.length.bit_length())
        traffic = 4 * size * self.kind.byte_width
        return Kernel(self.function, units, cost * NS_PER_BUTTERFLY, "fft", traffic, 5 * cost)

    def _array(self, outer: Index, number: AffineExpr) -> Value | None:
        """The address of the strip at hand, if it lies in an array of complex numbers and has whole vectors."""
        if self.array is None:
            return None
        shape, builder = self.array.shape, self.nest.builder
        place = (*outer, constant(0), number * self.strips.step + self.strips.first)
        first = self.nest.index_value(physical_offset(self.nest.table, shape, place))
        distance = builder.mul(first, const_int(I64, shape.element_type.byte_width))
        return builder.gep(I8, self.array.pointer, distance)

    def _elements(self, outer: Index, number: AffineExpr, move: Callable[[Index, Index], None]) -> None:
        """Calls `move` with (*outer, row, column) and an index of the strip, for each element of a strip."""
        row, column = self.nest.new_variable(self.length), self.nest.new_variable(self.strips.width)
        place = number * self.strips.step + dim(column) + self.strips.first

        def element(_: Sequence[Value]) -> Sequence[Value]:
            move((*outer, dim(row), place), (dim(row), dim(column)))
            return ()

        self.nest.loops([row, column], element, vector_width=self.lanes)

    def _load(self, far: Index, near: Index) -> None:
        *outer, row, column = far
        store_pair(self.memory, self.strip, near, self.places.load(outer, row, column))

    def _store(self, far: Index, near: Index) -> None:
        *outer, row, column = far
        re, im = (
            scaled(self.nest.builder, part, self.task.scale)
            for part in load_pair(self.nest, self.memory, self.transformed, near)
        )
        self.places.store(outer, row, column, (re, im))
