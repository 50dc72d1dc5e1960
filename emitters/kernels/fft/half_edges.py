"""Inverse real transforms of three dimensions: columns 0 and n / 2 of the half spectra, through both other dimensions.

Only behind both do they count as real: until then, they need twice the room that the rows of the result have for
them. So a plane [a, b] of one of these columns is transformed in scratch memory, as rows: first of length a, then b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import ComplexValue
from xjit.emitters.kernels.fft.columns import NS_PER_BUTTERFLY
from xjit.emitters.kernels.fft.lengths import transform_of
from xjit.emitters.kernels.fft.transform import Transform
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.loops.hand_loops import Scratch, here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.shape import Shape
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_int

Plane = Sequence[Buffer]
"""Real and imaginary parts."""


class EdgePlanes:
    """State while the kernel of the edges is emitted. The unit of work is one of the `edges` planes of a batch."""

    def __init__(self, context: KernelContext, view: KernelView, first: int, edges: int) -> None:
        self.view, self.edges = view, edges
        self.function, leaves, results = context.new_kernel(view, ".edges")
        self.nest = LoopNest(context.module, self.function, context.target)
        self.memory = MemoryAccess(self.nest)
        source, self.kind = leaves[view.hero.operand(0)], results[0].shape.element_type
        dims = results[0].shape.dimensions
        self.row_size, self.batch = dims[-1], math.prod(dims[:first])
        self.a, self.b = dims[first:-1]
        box = self.batch, self.a, self.b
        self.source = Buffer(Shape.array(source.shape.element_type, (*box, self.row_size // 2 + 1)), source.pointer)
        self.data = Buffer(Shape.array(self.kind, (*box, self.row_size)), results[0].pointer)
        self.transforms = [transform_of(context, n, self.kind) for n in (self.a, self.b)]
        size = self.a * self.b * self.kind.byte_width
        work = [t.work_bytes for t in self.transforms]
        self.scratch = Scratch(context.module, self.nest.builder, [*[size] * 4, *work])

    def emit(self) -> Kernel:
        """Emits the kernel."""
        nest, pieces = self.nest, self.scratch.pieces
        for transform, work in zip(self.transforms, pieces[4:], strict=True):
            transform.emit_prepare(nest.builder, work)
        turned, plane = (
            [Buffer(Shape.array(self.kind, sizes), p) for p in parts]
            for sizes, parts in (((self.b, self.a), pieces[:2]), ((self.a, self.b), pieces[2:4]))
        )
        units = self.batch * self.edges
        unit = nest.new_variable(units)
        batch, edge = unit_index(nest.table, unit, (self.batch, self.edges))

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._each(lambda x, y: self._load((batch, x, y, edge * (self.row_size // 2)), turned, (y, x)))
            self._rows(self.transforms[0], turned, pieces[4])
            self._each(lambda x, y: self._move(zip(turned, plane, strict=True), (y, x), (x, y)))
            self._rows(self.transforms[1], plane, pieces[5])
            self._each(
                lambda x, y: self._move([(plane[0], self.data)], (x, y), (batch, x, y, edge * (self.row_size - 1)))
            )
            return ()

        begin, end = range_arguments(self.function)
        nest.loop(unit, body, begin=begin, end=end, name="edge")
        self.scratch.free(nest.builder)
        finish(nest)
        size = units * self.a * self.b
        cost = size * max(1, (self.a * self.b).bit_length())
        return Kernel(self.function, units, cost * NS_PER_BUTTERFLY, "fft", 4 * size * self.kind.byte_width, 5 * cost)

    def _each(self, move: Callable[[AffineExpr, AffineExpr], None]) -> None:
        """Calls `move` with both places in the plane, for each of its elements."""
        x, y = self.nest.new_variable(self.a), self.nest.new_variable(self.b)

        def element(_: Sequence[Value]) -> Sequence[Value]:
            move(dim(x), dim(y))
            return ()

        self.nest.loops([x, y], element)

    def _load(self, far: Sequence[AffineExpr], plane: Plane, near: Sequence[AffineExpr]) -> None:
        value = self.memory.load(self.source, far, here(self.nest))
        assert isinstance(value, ComplexValue)
        for buffer, part in zip(plane, (value.real, value.imag), strict=True):
            self.memory.store(buffer, near, part)

    def _move(
        self, pairs: Iterable[tuple[Buffer, Buffer]], source: Sequence[AffineExpr], target: Sequence[AffineExpr]
    ) -> None:
        for from_buffer, to_buffer in pairs:
            self.memory.store(to_buffer, target, self.memory.load(from_buffer, source, here(self.nest)))

    def _rows(self, transform: Transform, plane: Plane, work: Value) -> None:
        """Transforms all rows, backwards: forwards, with the parts exchanged."""
        shape = plane[0].shape
        row = self.nest.new_variable(shape.dimensions[0])

        def body(_: Sequence[Value]) -> Sequence[Value]:
            first = self.nest.index_value(physical_offset(self.nest.table, shape, (dim(row), constant(0))))
            distance = self.nest.builder.mul(first, const_int(I64, self.kind.byte_width))
            real, imag = (self.nest.builder.gep(I8, buffer.pointer, distance) for buffer in plane)
            self.nest.builder.call(transform.apply, [imag, real, work])
            return ()

        self.nest.loops([row], body)
