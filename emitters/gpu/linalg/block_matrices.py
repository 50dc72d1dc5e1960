"""Kernels whose blocks of threads work on matrices in shared memory, and the matrices."""

from __future__ import annotations

import math
from collections.abc import Callable

from xjit.affine import AffineExpr, delinearize
from xjit.dataclass import dataclass
from xjit.emitters.elemental import ComplexValue, RegisterValue, emit_elementwise, round_to_type
from xjit.emitters.fused import FusedIrEmitter
from xjit.emitters.gpu.kernel_context import GpuKernelContext, launch_dimensions
from xjit.emitters.gpu.shared_memory import SharedArray, SharedMemory
from xjit.emitters.gpu.threads import special_register
from xjit.emitters.kernels.kernel import Kernel, finish
from xjit.emitters.kernels.loops.hand_loops import bind_index, scope, structured
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.reductions.reduction_loops import flatten
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import PROMOTED, register_type
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

Visit = Callable[[StructuredBuilder, AffineExpr, AffineExpr], None]
"""Called with the row and the column of an element."""


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """A matrix in shared memory. Rows begin `stride` elements apart: an odd number keeps columns in different banks."""

    parts: tuple[SharedArray, ...]
    stride: int

    def get(self, builder: IRBuilder, row: Value, column: Value) -> RegisterValue:
        """Emits the read of an element."""
        position = self._position(builder, row, column)
        values = [array.load(builder, position) for array in self.parts]
        return ComplexValue(values[0], values[1]) if len(values) > 1 else values[0]

    def put(self, builder: IRBuilder, row: Value, column: Value, value: RegisterValue) -> None:
        """Emits the write of an element."""
        position = self._position(builder, row, column)
        for array, part in zip(self.parts, flatten([value]), strict=True):
            array.store(builder, position, part)

    def _position(self, builder: IRBuilder, row: Value, column: Value) -> Value:
        return builder.add(builder.mul(row, const_int(I64, self.stride), nsw=True), column, nsw=True)


class BlockMatrices:
    """The function of a kernel, for one thread. `blocks_of_matrix` blocks share the work on one matrix of the batch.

    Narrow floats are computed with as f32.
    """

    def __init__(self, context: GpuKernelContext, view: KernelView, threads: int, blocks_of_matrix: int = 1) -> None:
        context = context.for_one_kernel(view.instruction.name)
        self.view = view
        (self._shape,) = view.result_shapes
        self.kind = PROMOTED.get(self._shape.element_type, self._shape.element_type)
        self.threads = threads
        self.function, leaves, (self._result,) = context.new_gpu_kernel(view, threads)
        nest = self.nest = LoopNest(context.module, self.function, context.target)
        self._fused = FusedIrEmitter(nest, leaves, context.maps)
        self._shared = SharedMemory(context.module, self.function)
        self.thread = special_register(nest, "tid.x")
        batch = self._shape.dimensions[:-2]
        self._blocks = math.prod(batch) * blocks_of_matrix
        block = bind_index(nest, special_register(nest, "ctaid.x"), self._blocks)
        self.part = nest.simplify(block.mod(blocks_of_matrix))
        number = nest.simplify(block.floordiv(blocks_of_matrix))
        self._batch = tuple(nest.simplify(e) for e in delinearize(number, batch)) if batch else ()

    def matrix(self, rows: int, columns: int) -> SharedMatrix:
        """Returns a new matrix in shared memory."""
        stride = columns | 1
        kind = register_type(self.kind.component)
        count = 2 if self.kind.is_complex else 1
        return SharedMatrix(tuple(self._shared.allocate(kind, rows * stride) for _ in range(count)), stride)

    def each(self, rows: int, columns: int, visit: Visit) -> None:
        """Visits the elements of a matrix, shared out among the threads: neighbours have those of a row."""
        nest = self.nest
        with structured(nest) as builder:
            end = const_int(I64, rows * columns)
            with builder.loop(self.thread, end, self.threads, name="own") as number, scope(nest, builder):
                element = bind_index(nest, number, rows * columns)
                visit(builder, nest.simplify(element.floordiv(columns)), nest.simplify(element.mod(columns)))

    def load(self, operand: HloInstruction, row: AffineExpr, column: AffineExpr) -> RegisterValue:
        """Emits an element of the block's matrix of an operand."""
        return self._fused.element(operand, (*self._batch, row, column))[0]

    def store(self, row: AffineExpr, column: AffineExpr, value: RegisterValue) -> None:
        """Emits the store of an element of the block's matrix of the result."""
        rounded = round_to_type(self.nest.builder, self._shape.element_type, value)
        self._fused.memory.store(self._result, (*self._batch, row, column), rounded)

    def compute(self, builder: IRBuilder, opcode: str, *operands: RegisterValue) -> RegisterValue:
        """Emits an elementwise operation on values of the matrices' type."""
        return emit_elementwise(builder, opcode, self.kind, [self.kind] * len(operands), operands)

    def conjugated(self, builder: IRBuilder, value: RegisterValue) -> RegisterValue:
        """Emits the conjugate; real numbers are their own."""
        return ComplexValue(value.real, builder.fneg(value.imag)) if isinstance(value, ComplexValue) else value

    def finished(self, traffic: int, operations: int) -> Kernel:
        """Ends the function; returns the kernel."""
        finish(self.nest)
        kind, launch = self.view.hero.opcode, launch_dimensions(self._blocks, self.threads)
        return Kernel(self.function, self._blocks, 0.0, kind, traffic, operations, launch=launch)
