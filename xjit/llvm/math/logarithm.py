"""log, log1p and the inverse hyperbolic functions that rest on them.

x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). Subnormal arguments count as zero, as XLA:CPU flushes them.
"""

from __future__ import annotations

import math

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.exponential import LN2_HIGH_F32, LN2_HIGH_F64, LN2_LOW_F32, LN2_LOW_F64
from xjit.llvm.math.vec import Vec, polynomial, power_of_two, two_sum

_SQRT_HALF_F32, _SQRT_HALF_F64 = 0x3F3504F3, 0x3FE6A09E667F3BCD


def min_normal(x: Vec) -> float:
    """The smallest normal number of the type of x."""
    return 2.0**-1022 if x.is_double else 2.0**-126


def split_exponent(x: Vec) -> tuple[Vec, Vec]:
    """(k as integer, 1 + f) with x = 2^k (1 + f), for positive normal x."""
    mantissa_bits, sqrt_half = (52, _SQRT_HALF_F64) if x.is_double else (23, _SQRT_HALF_F32)
    offset = x.as_int() - sqrt_half
    mantissa = (offset & ((1 << mantissa_bits) - 1)) + sqrt_half
    return offset.sar(mantissa_bits), mantissa.as_float()


def log_of_parts(k: Vec, f: Vec, tail: Vec | None = None) -> Vec:
    """k ln2 + log(1 + f); for floats plus a small `tail`."""
    k_float = k.sitofp(f.type.elem)
    if not f.is_double:
        f2 = f * f
        rest = k_float * LN2_LOW_F32
        y = (f2 * f).fma(polynomial(f, co.LOG_F32), rest if tail is None else rest + tail)
        return k_float.fma(LN2_HIGH_F32, f + f2.fma(-0.5, y))
    s = f / (f + 2.0)
    s2 = s * s
    half_square = f * f * 0.5
    tail = s.fma(s2.fma(polynomial(s2, co.ATANH_F64), half_square), k_float * LN2_LOW_F64)
    return k_float.fma(LN2_HIGH_F64, f - (half_square - tail))


def _special_cases(x: Vec, argument: Vec, result: Vec) -> Vec:
    """Results for an `argument` of the logarithm that is +inf, NaN, zero or negative."""
    result = result.where(x < math.inf, x)  # +inf and NaN
    result = x.const(-math.inf).where(argument < min_normal(x), result)
    return x.const(math.nan).where(argument < 0.0, result)


def log(x: Vec) -> Vec:
    """The natural logarithm."""
    k, mantissa = split_exponent(x)
    return _special_cases(x, x, log_of_parts(k, mantissa - 1.0))


def log1p(x: Vec) -> Vec:
    """log(1 + x): the rounding error of 1 + x goes into f, and for floats what f loses of it into the sum."""
    u, error = two_sum(x.const(1.0), x)
    k, mantissa = split_exponent(u)
    small_k = k.where(k < 64, 64)  # beyond, the error does not matter
    scale, near = power_of_two(-small_k, x.type.elem), mantissa - 1.0
    f = error.fma(scale, near)
    lost = None if x.is_double else error.fma(scale, near - f)
    return _special_cases(x, u, log_of_parts(k, f, lost).copysign(x))


def _large(x: Vec) -> float:
    return 2.0**60 if x.is_double else 2.0**30


def asinh(x: Vec) -> Vec:
    """Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(a^2 + 1))), log(2a) where a^2 + 1 is a^2."""
    a = x.abs()
    is_large = a > _large(x)
    small = x.const(1.0).where(is_large, a)
    square = small * small
    result = log1p(a.where(is_large, small + square / ((square + 1.0).sqrt() + 1.0)))
    return (result + x.const(math.log(2.0)).where(is_large, 0.0)).copysign(x)


def acosh(x: Vec) -> Vec:
    """Inverse hyperbolic cosine; NaN below 1."""
    is_large = x > _large(x)
    t = x.const(0.0).where(is_large, x - 1.0)
    result = log1p(x.where(is_large, t + t.fma(t, t + t).sqrt()))
    result = result + x.const(math.log(2.0)).where(is_large, 0.0)
    return x.const(math.nan).where(x < 1.0, result)


def atanh(x: Vec) -> Vec:
    """Inverse hyperbolic tangent: log1p(2a / (1 - a)) / 2."""
    a = x.abs()
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)
