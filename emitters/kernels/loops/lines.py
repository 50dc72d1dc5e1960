"""Kernels whose unit of work is one line of an array: all elements along one axis (sort, topk, fft, prefix sums).

`LineKernel` runs over the lines in parallel. Where a line lies in a buffer comes from the buffer's layout map: an
offset and, as layouts without tiles are linear, one stride.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xjit.affine import AffineExpr, constant, dim
from xjit.dataclass import dataclass
from xjit.emitters.access.memory import Buffer
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.elemental import storage_type
from xjit.emitters.kernels.kernel import Kernel, KernelContext, finish, range_arguments
from xjit.emitters.kernels.loops.hand_loops import structured
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import unit_index
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.loops.variables import factor_of
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64, LLVMType, int_type
from xjit.llvm.values import Value, const_int


def raw_type(kind: PrimitiveType) -> LLVMType:
    """The integer type that holds one element's bits in memory (both parts of a complex number)."""
    return int_type(8 * kind.byte_width)


def raw_alignment(kind: PrimitiveType) -> int:
    """The alignment of elements in bytes."""
    return storage_type(kind.component).bits // 8


@dataclass(frozen=True, slots=True)
class Line:
    """The elements along one axis: the address of the first, the stride in elements, their type and number."""

    pointer: Value
    stride: int
    kind: PrimitiveType
    size: int

    def address(self, builder: IRBuilder, position: Value) -> Value:
        """The address of an element."""
        step = builder.mul(position, const_int(I64, self.stride))
        return builder.gep(raw_type(self.kind), self.pointer, step)

    def load_raw(self, builder: IRBuilder, position: Value) -> Value:
        """The bits of an element."""
        return builder.load(raw_type(self.kind), self.address(builder, position), raw_alignment(self.kind))

    def store_raw(self, builder: IRBuilder, position: Value, bits: Value) -> None:
        """Writes the bits of an element."""
        builder.store(bits, self.address(builder, position), raw_alignment(self.kind))


class LineKernel:
    """State while a kernel over lines is emitted; `dimensions` are those of the arrays, apart from the axis's size."""

    def __init__(
        self, context: KernelContext, view: KernelView, axis: int, dimensions: Sequence[int], suffix: str = ""
    ) -> None:
        self.view = view
        self.context = context
        self.axis = axis
        self.function, self.leaves, self.results = context.new_kernel(view, suffix)
        self.nest = LoopNest(context.module, self.function, context.target)
        self._outer = [d for d in range(len(dimensions)) if d != axis]
        self._sizes = [dimensions[d] for d in self._outer]
        self.lines = math.prod(self._sizes)
        self._line = self.nest.new_variable(max(self.lines, 1))
        self._along = self.nest.new_variable(1 << 40)

    def index(self, along: AffineExpr) -> tuple[AffineExpr, ...]:
        """The index of an element of the current line."""
        index: list[AffineExpr] = [constant(0)] * (len(self._outer) + 1)
        for d, place in zip(self._outer, unit_index(self.nest.table, self._line, self._sizes), strict=True):
            index[d] = place
        index[self.axis] = along
        return tuple(index)

    def line(self, buffer: Buffer) -> Line:
        """The current line of a buffer. Errors: Unsupported for a tiled layout."""
        nest, shape = self.nest, buffer.shape
        size = shape.dimensions[self.axis]
        offset = physical_offset(nest.table, shape, self.index(dim(self._along)))
        stride = factor_of(offset, self._along)
        if stride is None:
            raise Unsupported(f"{self.view.instruction.opcode} along a tiled dimension of {shape}")
        start = nest.index_value(nest.simplify(offset - dim(self._along) * stride))
        kind = shape.element_type
        return Line(nest.builder.gep(raw_type(kind), buffer.pointer, start), stride, kind, size)

    def operand(self, instruction: HloInstruction) -> Buffer:
        """The buffer of an operand, which must not be computed inside of the kernel."""
        buffer = self.leaves.get(instruction)
        if buffer is None:
            raise Unsupported(f"{self.view.hero.opcode} of a value that is fused into its kernel", instruction.span)
        return buffer

    def emit(self, body: Callable[[StructuredBuilder], None], kind: str, cost_ns: float, operations: int = 0) -> Kernel:
        """Emits the loop over lines around `body` and returns the kernel; `cost_ns` is that of all lines."""
        nest = self.nest
        begin, end = range_arguments(self.function)

        def each(_: Sequence[Value]) -> Sequence[Value]:
            with structured(nest) as builder:
                body(builder)
            return ()

        nest.loop(self._line, each, begin=begin, end=end, name="line")
        self.on_exit(nest.builder)
        finish(nest)
        return Kernel(self.function, self.lines, cost_ns, kind, self.view.byte_size, operations)

    def on_exit(self, builder: IRBuilder) -> None:
        """Code behind the loop: subclasses free their scratch memory here."""


def contiguous(shape_kind: PrimitiveType, pointer: Value, size: int) -> Line:
    """A line of neighbouring elements at an address: scratch memory."""
    return Line(pointer, 1, shape_kind, size)
