"""Cholesky factorizations of small real matrices, in line, column by column: LAPACK takes many times as long to look at
its arguments."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.kernels.linalg.small_matrix import SmallMatrix
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, LLVMType
from xjit.llvm.values import Value, const_float, const_int

MAX_SIZE = 32
"""Rows of the largest matrix that is small: above, blocks of multiplications pay."""


@dataclass(frozen=True, slots=True)
class SmallPotrf:
    """LAPACK's potrf of an n x n matrix, column-major, in place; the other triangle stays as it is."""

    n: int
    lower: bool


def emit_small_potrf(builder: StructuredBuilder, cholesky: SmallPotrf, kind: LLVMType, a: Value, info: Value) -> None:
    """Emits the factorization in the place of `a`. `info`, an i32, is the number of the first column whose pivot is not
    positive, where it ends, or 0. `kind` is f32 or f64.
    """
    n, strides = builder.i64(cholesky.n), (1, cholesky.n) if cholesky.lower else (cholesky.n, 1)
    matrix = SmallMatrix(builder, kind, a, *strides)  # of the upper triangle, its transpose
    builder.store(const_int(I32, 0), info, 4)
    is_good = builder.i64(1)
    with builder.loop_with(builder.i64(0), n, [is_good], name="column") as (j, (good,), following):
        pivot = matrix.load(j, j)
        is_positive = builder.fcmp_unordered(">", pivot, const_float(kind, 0.0))  # NaN goes on, as in OpenBLAS
        was_good = builder.icmp_signed("!=", good, builder.i64(0))
        below = builder.add(j, builder.i64(1))
        with builder.when(builder.and_(was_good, builder.not_(is_positive))):
            builder.store(builder.trunc(below, I32), info, 4)
        goes_on = builder.and_(was_good, is_positive)
        with builder.when(goes_on):
            root = builder.intrinsic("sqrt", kind, (pivot,))
            matrix.store(root, j, j)
            matrix.for_rows(below, n, lambda lanes, i: matrix.divide(lanes, i, j, root))
            with builder.loop(below, n, name="right") as right:
                factor = matrix.load(right, j)
                matrix.for_rows(right, n, lambda lanes, i: matrix.subtract_multiple(lanes, i, right, j, factor))
        following.append(builder.zext(goes_on, good.type))
