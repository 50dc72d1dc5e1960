"""floor, ceil, trunc, round; min and max with XLA's NaN and zero rules; sign; remainder; reduce-precision."""

from __future__ import annotations

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
    # x86 max gives its second operand for equal and unordered ones: order zeros by sign first
    swap = x.as_int() < 0
    first, second = x.where(swap, y), y.where(swap, x)
    result = first.maximum(second)  # second: not negative if either is not
    return first.where(first.is_nan(), result)


def minimum(x: Vec, y: Vec) -> Vec:
    """The smaller; NaN if either is NaN; -0 over +0."""
    swap = x.as_int() < 0
    first, second = y.where(swap, x), x.where(swap, y)
    result = first.minimum(second)
    return first.where(first.is_nan(), result)


def sign(x: Vec) -> Vec:
    """-1, -0, +0, 1 or NaN."""
    one = x.const(1.0).copysign(x)
    return one.where(x.abs() > 0.0, x)


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
