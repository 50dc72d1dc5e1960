"""triangular-solve where the triangle fits in the shared memory of a block of threads, by substitution.

The system is brought to the form a x = b with a lower triangle, on the way into shared memory: transposed for `a` on
the right, with rows and columns in reverse for an upper triangle. A block has some columns of b.
"""

from __future__ import annotations

from xjit.affine import AffineExpr
from xjit.emitters.elemental import RegisterValue
from xjit.emitters.gpu.block_lanes import emit_barrier
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.linalg.block_matrices import BlockMatrices
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import bind_index, scope, structured
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

COLUMNS = 16
MAX_THREADS = 256


def emit_gpu_triangular_solve(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a triangular-solve: a block for up to 16 columns of a matrix."""
    return [_Substitution(context, view).emit()]


class _Substitution:
    """The solution of some columns. A residual is divided by its pivot whenever the solution's element is needed."""

    def __init__(self, context: GpuKernelContext, view: KernelView) -> None:
        options = self._options = view.hero.attributes_as(at.TriangularSolveAttributes)
        self._operands = view.hero.operands
        *_, rows, columns = view.result_shapes[0].dimensions
        self._n, self._count = (rows, columns) if options.left_side else (columns, rows)
        self._is_turned = (options.transpose_a != "NO_TRANSPOSE") == options.left_side
        self._is_lower = options.lower != self._is_turned
        self._width = 1 << (min(self._count, COLUMNS) - 1).bit_length()
        threads = min(MAX_THREADS, max(WARP_SIZE, self._width << (self._n - 1).bit_length() >> 1))
        block = self._block = BlockMatrices(context, view, threads, -(-self._count // self._width))
        self._nest = block.nest
        self._a, self._b = block.matrix(self._n, self._n), block.matrix(self._n, self._width)

    def emit(self) -> Kernel:
        """Returns the kernel."""
        block, n, nest = self._block, self._n, self._nest
        block.each(n, n, self._load_triangle)
        by_rows = self._options.left_side  # of b: neighbours there are neighbours in memory
        block.each(*((n, self._width) if by_rows else (self._width, n)), self._load_columns)
        with structured(nest) as builder, builder.loop(const_int(I64, 0), const_int(I64, n), name="i") as i:
            self._row(builder, i)
        emit_barrier(nest.builder)
        block.each(*((n, self._width) if by_rows else (self._width, n)), self._store_columns)
        (shape,) = block.view.result_shapes
        traffic = 2 * shape.byte_size + self._operands[0].shape.byte_size
        return block.finished(traffic, shape.num_elements * n)

    def _load_triangle(self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr) -> None:
        nest, block = self._nest, self._block
        r, c = nest.index_value(row), nest.index_value(column)
        with builder.when(builder.icmp_signed(">=" if self._options.lower else "<=", r, c)), scope(nest, builder):
            value = block.load(self._operands[0], row, column)
            if self._options.transpose_a == "ADJOINT":
                value = block.conjugated(builder, value)
            i, k = (c, r) if self._is_turned else (r, c)
            self._a.put(builder, self._ordered(builder, i), self._ordered(builder, k), value)

    def _ordered(self, builder: StructuredBuilder, number: Value) -> Value:
        """The place of a row in the order in which rows are solved."""
        return number if self._is_lower else builder.sub(const_int(I64, self._n - 1), number)

    def _load_columns(self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr) -> None:
        nest = self._nest
        i, c = self._shared_place(builder, row, column)
        with builder.when(self._exists(builder, c)), scope(nest, builder):
            self._b.put(builder, i, c, self._block.load(self._operands[1], *self._place(builder, row, column, c)))

    def _store_columns(self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr) -> None:
        nest = self._nest
        i, c = self._shared_place(builder, row, column)
        with builder.when(self._exists(builder, c)), scope(nest, builder):
            self._block.store(*self._place(builder, row, column, c), self._solution(builder, i, c))

    def _shared_place(self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr) -> tuple[Value, Value]:
        """The row of the system, and the column of the block, of an element of b as it is in memory."""
        i, c = (row, column) if self._options.left_side else (column, row)
        return self._ordered(builder, self._nest.index_value(i)), self._nest.index_value(c)

    def _place(
        self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr, c: Value
    ) -> tuple[AffineExpr, AffineExpr]:
        """The place of such an element in b."""
        first = self._nest.index_value(self._nest.simplify(self._block.part * self._width))
        own = bind_index(self._nest, builder.add(first, c), self._count)
        return (row, own) if self._options.left_side else (own, column)

    def _exists(self, builder: StructuredBuilder, c: Value) -> Value:
        first = self._nest.index_value(self._nest.simplify(self._block.part * self._width))
        return builder.icmp_signed("<", builder.add(first, c), const_int(I64, self._count))

    def _solution(self, builder: StructuredBuilder, i: Value, c: Value) -> RegisterValue:
        """Emits an element of the solution, of its residual."""
        residual = self._b.get(builder, i, c)
        if self._options.unit_diagonal:
            return residual
        return self._block.compute(builder, "divide", residual, self._a.get(builder, i, i))

    def _row(self, builder: StructuredBuilder, i: Value) -> None:
        """Takes what row i of the solution contributes off the rows below."""
        block, shift = self._block, self._width.bit_length() - 1
        emit_barrier(builder)
        column = builder.and_(block.thread, const_int(I64, self._width - 1))
        with builder.when(self._exists(builder, column)):
            solution = self._solution(builder, i, column)
            first = builder.add(builder.add(i, const_int(I64, 1)), builder.lshr(block.thread, const_int(I64, shift)))
            end = const_int(I64, self._n)
            with builder.loop(first, end, block.threads >> shift, name="k") as k:
                product = block.compute(builder, "multiply", self._a.get(builder, k, i), solution)
                rest = block.compute(builder, "subtract", self._b.get(builder, k, column), product)
                self._b.put(builder, k, column, rest)
