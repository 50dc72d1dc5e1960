"""cholesky: LAPACK's potrf on each matrix of the batch.

Row-major memory is the transpose to LAPACK, so the lower triangle is its upper one; the factor of the transpose is the
transpose of the factor, for complex matrices, too. A matrix that is not positive definite gives NaN everywhere.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr, Interval, constant
from xjit.emitters.access.guards import EVERYWHERE, restrict
from xjit.emitters.elemental import ComplexValue, RegisterValue, constant_register
from xjit.emitters.fused import select_register
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.linalg.matrices import MatrixKernel
from xjit.emitters.kernels.loops.hand_loops import here
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.nested import splat_register, width_of
from xjit.hlo import attributes as at
from xjit.llvm.types import I32
from xjit.llvm.values import Value, const_int


def emit_cholesky(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a cholesky."""
    shape = view.result_shapes[0]
    n = shape.dimensions[-1]
    lower = view.hero.attributes_as(at.CholeskyAttributes).lower
    kernel = MatrixKernel(context, view, [(n, n)])
    nest, matrix = kernel.nest, kernel.matrices[0]

    def body() -> None:
        kernel.load_matrix(view.hero.operand(0), matrix)
        info = nest.builder.alloca(I32, align=4)
        size = kernel.number(n)
        kernel.call("lapack_?potrf", [kernel.letter("U" if lower else "L"), size, matrix.pointer, size, info])
        failed = nest.builder.icmp_signed("!=", nest.builder.load(I32, info, 4), const_int(I32, 0))
        corner = kernel.memory.load(matrix, (constant(n - 1), constant(n - 1)), here(nest))
        part = corner.real if isinstance(corner, ComplexValue) else corner
        failed = nest.builder.or_(failed, nest.builder.fcmp_unordered("uno", part, part))  # not all libraries see NaNs

        def transform(row: AffineExpr, column: AffineExpr, value: RegisterValue) -> RegisterValue:
            return _triangle(kernel, (row - column) if lower else (column - row), value, failed, n)

        kernel.store_matrix(matrix, kernel.results[0], transform)

    return [kernel.emit(body, "cholesky", n**3 // 3)]


def _triangle(kernel: MatrixKernel, distance: AffineExpr, value: RegisterValue, failed: Value, n: int) -> RegisterValue:
    """The value where the distance from the diagonal is not negative, else zero; NaN if the factorization failed."""
    nest, builder = kernel.nest, kernel.nest.builder
    nan = complex(math.nan, math.nan) if kernel.kind.is_complex else math.nan
    guard = restrict(nest, EVERYWHERE, [(distance, Interval(0, n - 1))])
    zero, bad = (constant_register(kernel.kind, v) for v in (0, nan))
    if guard is None:
        value = zero
    lanes = guard.lanes.type.width if guard is not None and guard.lanes is not None else 0
    width = max(width_of(value), lanes)
    value, zero, bad = (splat_register(builder, v, width) for v in (value, zero, bad))
    for test in (guard.scalar, guard.lanes) if guard is not None else ():
        if test is not None:
            value = select_register(builder, test, value, zero)
    return select_register(builder, failed, bad, value)
