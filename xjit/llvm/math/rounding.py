"""floor, ceil, trunc, round; min and max with XLA's NaN and zero rules; sign; remainder; reduce-precision."""

from __future__ import annotations

import math

from xjit.llvm.math.vec import Vec


def _integral_from(x: Vec) -> float:
    """From here on, all numbers are whole."""
    return 2.0**52 if x.is_double else 2.0**23


def round_even(x: Vec) -> Vec:
    """To the nearest whole number, halves to even."""
    if x.b.target.has_rounding:
        return Vec(x.b, x.b.intrinsic("roundeven", x.type, (x.v,)))
    a = x.abs()
    magic = _integral_from(x)
    return ((a + magic) - magic).copysign(x).where(a < magic, x)


def floor(x: Vec) -> Vec:
    """Towards -inf."""
    if x.b.target.has_rounding:
        return Vec(x.b, x.b.intrinsic("floor", x.type, (x.v,)))
    r = round_even(x)
    return (r - x.const(1.0).where(r > x, 0.0)).copysign(x)


def ceil(x: Vec) -> Vec:
    """Towards +inf."""
    if x.b.target.has_rounding:
        return Vec(x.b, x.b.intrinsic("ceil", x.type, (x.v,)))
    r = round_even(x)
    return (r + x.const(1.0).where(r < x, 0.0)).copysign(x)


def truncate(x: Vec) -> Vec:
    """Towards zero."""
    if x.b.target.has_rounding:
        return Vec(x.b, x.b.intrinsic("trunc", x.type, (x.v,)))
    return floor(x.abs()).copysign(x)


def round_away(x: Vec) -> Vec:
    """To the nearest whole number, halves away from zero."""
    a = x.abs()
    down = truncate(a)
    up = down + x.const(1.0).where(a - down >= 0.5, 0.0)
    return up.where(a < _integral_from(x), a).copysign(x)


def maximum(x: Vec, y: Vec) -> Vec:
    """The larger; NaN if either is NaN; +0 over -0."""
    limit, other = _limit_and_other(x, y)
    if limit is not None:
        larger = limit.maximum(other)
        return larger + 0.0 if _is_zero(limit, 1.0) else larger  # -0 becomes +0
    if not x.type.is_vector and x.b.target.gpu is None:  # a select of scalars would be a branch
        return -minimum(-x, -y)
    if x.b.target.has_vector_arithmetic:  # LLVM does what follows in its code generator, in less time
        return x.ieee_maximum(y)
    swap = x.as_int() < 0
    first, second = x.where(swap, y), y.where(swap, x)
    result = first.maximum(second)  # zeros are ordered: second is not negative if either is not
    return first.where(first.is_nan(), result)


def minimum(x: Vec, y: Vec) -> Vec:
    """The smaller; NaN if either is NaN; -0 over +0."""
    limit, other = _limit_and_other(x, y)
    if limit is not None and not _is_zero(limit, -1.0):
        return limit.minimum(other)
    # the two differ for -0 and +0, and where one is NaN: it has all bits of the exponent, and keeps them
    return (x.minimum(y).as_int() | y.minimum(x).as_int()).as_float()


def _limit_and_other(x: Vec, y: Vec) -> tuple[Vec | None, Vec]:
    """The operand that is a constant number, if there is one, and the other one.

    x86 gives the second operand where they are equal or unordered.
    """
    for limit, other in ((x, y), (y, x)):
        number = limit.v.constant
        if number is not None and not math.isnan(number):
            return limit, other
    return None, y


def _is_zero(limit: Vec, sign: float) -> bool:
    number = limit.v.constant
    return number == 0 and math.copysign(1.0, number) == sign


def sign(x: Vec) -> Vec:
    """-1, -0, +0, 1 or NaN."""
    one = x.const(1.0).copysign(x)
    return one.where(x.abs() > 0.0, x + x)  # of what is flushed, the sum is a zero


def reduce_precision(x: Vec, exponent_bits: int, mantissa_bits: int) -> Vec:
    """Rounds to a float with that many exponent and mantissa bits: nearest even, overflow to inf, no subnormals, NaN
    kept."""
    own = (11, 52) if x.is_double else (8, 23)
    bits = reduce_precision_bits(x.as_int(), *own, exponent_bits, mantissa_bits)
    return x.where(x.is_nan(), bits.as_float())


def reduce_precision_bits(
    bits: Vec, own_exponent: int, own_mantissa: int, exponent_bits: int, mantissa_bits: int
) -> Vec:
    """`reduce_precision` on the bits of a float that has `own_exponent` and `own_mantissa` bits; not for NaN."""
    sign_mask = -1 << (own_exponent + own_mantissa)
    sign_bits, result = bits & sign_mask, bits & ~sign_mask
    drop = own_mantissa - mantissa_bits
    if drop > 0:
        odd = (result >> drop) & 1
        result = (result + (odd + ((1 << (drop - 1)) - 1))) & -(1 << drop)
    if exponent_bits < own_exponent:
        bias, small_bias = (1 << (own_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = result >> own_mantissa
        result = result.const(((1 << own_exponent) - 1) << own_mantissa).where(exponent > bias + small_bias, result)
        result = result.const(0).where(exponent <= bias - small_bias, result)
    return sign_bits | result
