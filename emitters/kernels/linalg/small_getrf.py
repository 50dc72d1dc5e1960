"""LU factorizations with partial pivoting of small real matrices, in line: LAPACK takes many times as long to divide
the work of a matrix that fits the nearest cache, and its threads wait for each other.

Column by column, as LAPACK's unblocked routine does: the largest element at or below the diagonal is the pivot (the
first of equals), its row changes places, the column below is divided by it, and what lies to the right is updated.
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.kernels.linalg.small_matrix import SmallMatrix
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I32, LLVMType
from xjit.llvm.values import Value, const_float, const_int

MAX_SIZE = 48
"""Rows and columns of the largest matrix that is small: above, blocks of multiplications pay."""


@dataclass(frozen=True, slots=True)
class SmallGetrf:
    """LAPACK's getrf of an m x n matrix, column-major, in place."""

    m: int
    n: int


def emit_small_getrf(
    builder: StructuredBuilder, lu: SmallGetrf, kind: LLVMType, a: Value, pivots: Value, info: Value
) -> None:
    """Emits the factorization in the place of `a`. `pivots` are numbers of rows, from 1 on; `info` is the number of the
    first column without a pivot, or 0; both are i32. `kind` is f32 or f64.
    """
    matrix, rows = SmallMatrix(builder, kind, a, 1, lu.m), builder.i64(lu.m)
    builder.store(const_int(I32, 0), info, 4)
    with builder.loop(builder.i64(0), builder.i64(min(lu.m, lu.n)), name="column") as j:
        row, pivot = _find_pivot(matrix, j, lu.m)
        number = builder.trunc(builder.add(row, builder.i64(1)), I32)
        builder.store(number, builder.gep(I32, pivots, j), 4)
        below, is_zero = builder.add(j, builder.i64(1)), builder.fcmp_ordered("==", pivot, const_float(kind, 0.0))
        is_first = builder.icmp_signed("==", builder.load(I32, info, 4), const_int(I32, 0))
        with builder.when(builder.and_(is_zero, is_first)):
            builder.store(builder.trunc(below, I32), info, 4)
        with builder.when(builder.icmp_signed("!=", row, j)):
            _swap_rows(matrix, j, row, lu.n)
        with builder.when(builder.xor(is_zero, const_int(is_zero.type, 1))):
            matrix.for_rows(below, rows, lambda lanes, i: matrix.divide(lanes, i, j, pivot))
        with builder.loop(below, builder.i64(lu.n), name="right") as right:
            factor = matrix.load(j, right)
            matrix.for_rows(below, rows, lambda lanes, i: matrix.subtract_multiple(lanes, i, right, j, factor))


def _find_pivot(matrix: SmallMatrix, j: Value, rows: int) -> tuple[Value, Value]:
    """The row of the pivot of column j, and the pivot."""
    builder = matrix.builder
    first = matrix.load(j, j)
    with builder.loop_with(
        builder.add(j, builder.i64(1)), builder.i64(rows), [j, first, builder.fabs(first)], name="pivot"
    ) as (i, (row, pivot, size), following):
        value = matrix.load(i, j)
        magnitude = builder.fabs(value)
        larger = builder.fcmp_ordered(">", magnitude, size)
        pairs = ((i, row), (value, pivot), (magnitude, size))
        following += [builder.select(larger, new, old) for new, old in pairs]
    return row, pivot


def _swap_rows(matrix: SmallMatrix, a: Value, b: Value, columns: int) -> None:
    builder = matrix.builder
    with builder.loop(builder.i64(0), builder.i64(columns), name="swap") as column:
        first, second = matrix.load(a, column), matrix.load(b, column)
        matrix.store(second, a, column)
        matrix.store(first, b, column)
