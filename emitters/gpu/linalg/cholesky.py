"""cholesky of matrices that fit in the shared memory of a block of threads, column by column (right-looking).

A matrix that is not positive definite gives NaN everywhere: a pivot that is not positive makes NaN of all that
follows it, the last element included.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr
from xjit.emitters.elemental import ComplexValue, RegisterValue, constant_register, emit_elementwise
from xjit.emitters.fused import select_register
from xjit.emitters.gpu.block_lanes import emit_barrier
from xjit.emitters.gpu.kernel_context import GpuKernelContext
from xjit.emitters.gpu.linalg.block_matrices import BlockMatrices, SharedMatrix
from xjit.emitters.kernels.kernel import Kernel
from xjit.emitters.kernels.loops.hand_loops import scope, structured
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int, constant

SQUARE = 16
"""Threads are a grid of so many columns."""

MAX_THREADS = SQUARE * SQUARE


def emit_gpu_cholesky(context: GpuKernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a cholesky: a block for each matrix."""
    n = view.result_shapes[0].dimensions[-1]
    threads = min(MAX_THREADS, max(WARP_SIZE, 1 << (n * n // 8).bit_length()))
    return [_Factor(BlockMatrices(context, view, threads), n).emit()]


class _Factor:
    """The lower factor of the block's matrix; an upper one is its conjugate transpose on the way in and out."""

    def __init__(self, block: BlockMatrices, n: int) -> None:
        self._block = block
        self._nest = block.nest
        self._n = n
        self._lower = block.view.hero.attributes_as(at.CholeskyAttributes).lower
        self._a: SharedMatrix = block.matrix(n, n)

    def emit(self) -> Kernel:
        """Returns the kernel."""
        block, n = self._block, self._n
        block.each(n, n, self._load)
        with structured(self._nest) as builder, builder.loop(const_int(I64, 0), const_int(I64, n), name="j") as j:
            self._column(builder, j)
        emit_barrier(self._nest.builder)
        block.each(n, n, self._store)
        (shape,) = block.view.result_shapes
        return block.finished(2 * shape.byte_size, shape.num_elements * n // 3)

    def _load(self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr) -> None:
        """Reads an element of the triangle that counts."""
        nest, block = self._nest, self._block
        r, c = nest.index_value(row), nest.index_value(column)
        with builder.when(builder.icmp_signed(">=" if self._lower else "<=", r, c)), scope(nest, builder):
            value = block.load(block.view.hero.operand(0), row, column)
            if self._lower:
                self._a.put(builder, r, c, value)
            else:
                self._a.put(builder, c, r, block.conjugated(builder, value))

    def _column(self, builder: StructuredBuilder, j: Value) -> None:
        """Makes column j of the factor, and takes its products off all that is right of it."""
        block, n, a = self._block, const_int(I64, self._n), self._a
        one = const_int(I64, 1)
        after = builder.add(j, one)
        emit_barrier(builder)
        root = self._root(builder, a.get(builder, j, j))
        with builder.loop(builder.add(after, block.thread), n, block.threads, name="scale") as i:
            a.put(builder, i, j, block.compute(builder, "divide", a.get(builder, i, j), root))
        emit_barrier(builder)
        with builder.when(builder.icmp_signed("==", block.thread, const_int(I64, 0))):
            a.put(builder, j, j, root)
        first_row = builder.add(after, builder.lshr(block.thread, const_int(I64, SQUARE.bit_length() - 1)))
        first_column = builder.add(after, builder.and_(block.thread, const_int(I64, SQUARE - 1)))
        with builder.loop(first_row, n, block.threads // SQUARE, name="row") as i:
            left = a.get(builder, i, j)
            with builder.loop(first_column, builder.add(i, one), SQUARE, name="column") as k:
                product = block.compute(builder, "multiply", left, block.conjugated(builder, a.get(builder, k, j)))
                a.put(builder, i, k, block.compute(builder, "subtract", a.get(builder, i, k), product))

    def _root(self, builder: StructuredBuilder, pivot: RegisterValue) -> RegisterValue:
        """Emits the root of a pivot, whose imaginary part counts for nothing; NaN if it is not positive."""
        kind = self._block.kind.component
        real = pivot.real if isinstance(pivot, ComplexValue) else pivot
        zero = constant(real.type, 0.0)
        root = emit_elementwise(builder, "sqrt", kind, [kind], [real])
        assert isinstance(root, Value)
        root = builder.select(builder.fcmp_ordered(">", real, zero), root, constant(real.type, math.nan))
        return ComplexValue(root, zero) if isinstance(pivot, ComplexValue) else root

    def _store(self, builder: StructuredBuilder, row: AffineExpr, column: AffineExpr) -> None:
        """Writes an element: zero in the other triangle, NaN if there is no factor."""
        nest, block, a = self._nest, self._block, self._a
        r, c = nest.index_value(row), nest.index_value(column)
        last = const_int(I64, self._n - 1)
        corner = a.get(builder, last, last)
        part = corner.real if isinstance(corner, ComplexValue) else corner
        is_inside = builder.icmp_signed(">=" if self._lower else "<=", r, c)
        larger, smaller = builder.select(is_inside, r, c), builder.select(is_inside, c, r)
        if self._lower:
            value = a.get(builder, larger, smaller)
        else:
            value = block.conjugated(builder, a.get(builder, smaller, larger))
        nan = complex(math.nan, math.nan) if block.kind.is_complex else math.nan
        value = select_register(builder, is_inside, value, constant_register(block.kind, 0))
        failed = builder.fcmp_unordered("uno", part, part)
        block.store(row, column, select_register(builder, failed, constant_register(block.kind, nan), value))
