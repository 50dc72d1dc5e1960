"""Kernels whose unit of work is one matrix of a batch, handed to a BLAS or LAPACK routine.

A matrix is copied to row-major scratch memory in a type that the library has (narrow floats as f32), worked on there,
and copied back. The library sees row-major memory as the transpose, which callers express in its flags.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.guards import EVERYWHERE
from xjit.emitters.access.memory import Buffer, MemoryAccess
from xjit.emitters.elemental import RegisterValue, register_type
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.loops.hand_loops import Scratch, here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.llvm.types import I32, PTR, VOID
from xjit.llvm.values import Value, const_int

NS_PER_FLOP = 0.1
NS_PER_MATRIX = 300.0
_LETTERS = {PrimitiveType.F32: "s", PrimitiveType.F64: "d", PrimitiveType.C64: "c", PrimitiveType.C128: "z"}

Transform = Callable[[AffineExpr, AffineExpr, RegisterValue], RegisterValue]
"""`transform(row, column, value)`: the value to write back."""


def library_type(kind: PrimitiveType) -> PrimitiveType:
    """The type in which BLAS and LAPACK compute for a type."""
    return kind if kind in _LETTERS else PrimitiveType.F32


class MatrixKernel:
    """State while such a kernel is emitted. `extents` are the (rows, columns) of the matrices in scratch memory."""

    def __init__(self, context: KernelContext, view: KernelView, extents: Sequence[tuple[int, int]]) -> None:
        self.view = view
        self.context = context
        self.function, self.leaves, self.results = context.new_kernel(view)
        self.nest = LoopNest(context.module, self.function, context.target)
        self.memory = MemoryAccess(self.nest)
        self.kind = library_type(view.result_shapes[0].element_type)
        sizes = [rows * columns * self.kind.byte_width for rows, columns in extents]
        self._scratch = Scratch(context.module, self.nest.builder, sizes)
        self.matrices = [
            Buffer(Shape.array(self.kind, extent), pointer)
            for extent, pointer in zip(extents, self._scratch.pieces, strict=True)
        ]
        self._batch = view.result_shapes[0].dimensions[:-2]
        self.units = math.prod(self._batch)
        self._unit = self.nest.new_variable(max(self.units, 1))

    def emit(self, body: Callable[[], None], kind: str, flops: int) -> Kernel:
        """Emits the loop over matrices around `body`; `flops` is per matrix."""

        def each(_: Sequence[Value]) -> Sequence[Value]:
            body()
            return ()

        begin, end = range_arguments(self.function)
        self.nest.loop(self._unit, each, begin=begin, end=end, name="matrix")
        self._scratch.free(self.nest.builder)
        finish(self.nest)
        cost = self.units * (flops * NS_PER_FLOP + NS_PER_MATRIX)
        return Kernel(self.function, self.units, cost, kind, self.view.byte_size, self.units * flops)

    def load_matrix(self, instruction: HloInstruction, target: Buffer) -> None:
        """Copies the current matrix of an operand to scratch memory."""
        source = self.leaves.get(instruction)
        if source is None:
            raise Unsupported(f"{self.view.hero.opcode} of a value that is fused into its kernel", instruction.span)
        self._copy(source, target, True, lambda _row, _column, value: value)

    def store_matrix(self, source: Buffer, target: Buffer, transform: Transform) -> None:
        """Copies a matrix from scratch memory to the current one of a result."""
        self._copy(source, target, False, transform)

    def _copy(self, source: Buffer, target: Buffer, loading: bool, transform: Transform) -> None:
        nest = self.nest
        rows, columns = target.shape.dimensions[-2:]
        row, column = nest.new_variable(rows), nest.new_variable(columns)
        width = nest.target.vector_width(register_type(self.kind))
        local = (dim(row), dim(column))
        far = (*unit_index(nest.table, self._unit, self._batch), *local)

        def element(_: Sequence[Value]) -> Sequence[Value]:
            # the only element of a 1 x 1 matrix depends on no loop, but must not be read before the library is called
            guard = here(nest) if not loading and rows * columns == 1 else EVERYWHERE
            value = self.memory.load(source, far if loading else local, guard)
            self.memory.store(target, local if loading else far, transform(*local, value))
            return ()

        nest.loops((row, column), element, vector_width=width)

    def call(self, routine: str, arguments: Sequence[Value]) -> None:
        """Calls `xjit_<routine>` with the letter of the type in place of `?`; every argument is a pointer."""
        name = f"xjit_{routine.replace('?', _LETTERS[self.kind])}"
        declaration = self.context.module.declare(name, VOID, [PTR] * len(arguments))
        self.nest.builder.call(declaration, arguments)

    def letter(self, flag: str) -> Value:
        """A pointer to a one-letter flag."""
        return self.context.module.add_constant_bytes(flag.encode(), 1, "flag")

    def number(self, value: int) -> Value:
        """A pointer to an integer."""
        return self.context.module.add_constant(I32, const_int(I32, value), 4, "number")

    def scalar(self, value: float) -> Value:
        """A pointer to a number of the library's type."""
        return self.context.module.add_constant_array(np.array([value], self.kind.dtype), 16, "scalar")
