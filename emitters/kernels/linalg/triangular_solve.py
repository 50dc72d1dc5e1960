"""triangular-solve: BLAS's trsm on each pair of matrices of the batch.

To BLAS both matrices are transposed: the side and the triangle are the other ones, the operation on `a` stays the same.
"""

from __future__ import annotations

from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.linalg.matrices import MatrixKernel
from xjit.emitters.kernels.view import KernelView
from xjit.hlo import attributes as at

_OPERATIONS = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


def emit_triangular_solve(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernel of a triangular-solve."""
    shape = view.result_shapes[0]
    solve = view.hero.attributes_as(at.TriangularSolveAttributes)
    rows, columns = shape.dimensions[-2:]
    n = rows if solve.left_side else columns
    kernel = MatrixKernel(context, view, [(n, n), (rows, columns)])
    a, b = kernel.matrices

    def body() -> None:
        kernel.load_matrix(view.hero.operand(0), a)
        kernel.load_matrix(view.hero.operand(1), b)
        flags = [
            "R" if solve.left_side else "L",
            "U" if solve.lower else "L",
            _OPERATIONS[solve.transpose_a],
            "U" if solve.unit_diagonal else "N",
        ]
        numbers = [kernel.number(columns), kernel.number(rows)]
        arguments = [*map(kernel.letter, flags), *numbers, kernel.scalar(1), a.pointer, kernel.number(n)]
        kernel.call("blas_?trsm", [*arguments, b.pointer, kernel.number(columns)])
        kernel.store_matrix(b, kernel.results[0], lambda _row, _column, value: value)

    return [kernel.emit(body, "triangular-solve", n * rows * columns)]
