"""What LAPACK's geev leaves to its callers: refusing matrices that are not finite, unpacking eigenvectors."""

from __future__ import annotations

from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I1, I64, LLVMType
from xjit.llvm.values import Value, const_float, const_int


def emit_is_finite(builder: StructuredBuilder, pointer: Value, count: int, part: LLVMType) -> Value:
    """Whether `count` numbers are all finite: x - x is zero for those only."""
    start = builder.alloca(I1, align=1, name="finite")
    builder.store(const_int(I1, 1), start, 1)
    initial = builder.load(I1, start, 1)
    with builder.loop_with(const_int(I64, 0), const_int(I64, count), [initial], name="finite") as (
        i,
        so_far,
        following,
    ):
        value = _load(builder, pointer, i, part)
        following.append(builder.and_(so_far[0], builder.fcmp_ordered("ord", builder.fsub(value, value), value)))
    return so_far[0]


def emit_eigenvectors(
    builder: StructuredBuilder, n: int, imaginary: Value, packed: Value, target: Value, part: LLVMType
) -> None:
    """Writes the complex eigenvectors, column by column, of a real matrix.

    A pair of conjugate eigenvalues, the one with the positive imaginary part first, shares two real columns: the real
    and the imaginary part of the first one's eigenvector. `imaginary` points to the eigenvalues' imaginary parts.
    """
    zero, begin, end = const_float(part, 0.0), const_int(I64, 0), const_int(I64, n)
    with builder.loop(begin, end, name="column") as column:
        value = _load(builder, imaginary, column, part)
        first, second = builder.fcmp_ordered(">", value, zero), builder.fcmp_ordered("<", value, zero)
        above = builder.min(builder.add(column, const_int(I64, 1)), const_int(I64, n - 1))
        below = builder.sub(column, const_int(I64, 1))
        below = builder.select(builder.icmp_signed("<", below, begin), begin, below)
        real_column, imaginary_column = builder.select(second, below, column), builder.select(first, above, column)
        with builder.loop(begin, end, name="row") as row:
            real = _load(builder, packed, _at(builder, row, real_column, n), part)
            other = _load(builder, packed, _at(builder, row, imaginary_column, n), part)
            other = builder.select(second, builder.fneg(other), other)
            other = builder.select(builder.or_(first, second), other, zero)
            place = builder.mul(_at(builder, row, column, n), const_int(I64, 2))
            for position, number in ((place, real), (builder.add(place, const_int(I64, 1)), other)):
                builder.store(number, builder.gep(part, target, position), part.bits // 8)


def _at(builder: StructuredBuilder, row: Value, column: Value, n: int) -> Value:
    return builder.add(builder.mul(column, const_int(I64, n)), row)


def _load(builder: StructuredBuilder, pointer: Value, position: Value, part: LLVMType) -> Value:
    return builder.load(part, builder.gep(part, pointer, position), part.bits // 8)
