"""sqrt, rsqrt, cbrt, pow.

pow keeps log|x| in about 68 bits: in f64 for f32 operands, in two doubles for f64 ones, so y log|x| is good to the
last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.exponential import LN2, LN2_HIGH_F64, LN2_LOW_F64, LOG2_E, clamp, expm1_reduced, reduce_by_ln2
from xjit.llvm.math.logarithm import log_of_parts, min_normal, split_exponent
from xjit.llvm.math.rounding import round_even
from xjit.llvm.math.vec import (
    Vec,
    fast_two_sum,
    floats_as_doubles_without_fma,
    polynomial,
    power_of_two,
    residual,
    round_to_int,
    scale_by_power_of_two,
    two_product,
    two_sum,
)


def sqrt(x: Vec) -> Vec:
    """The square root, correctly rounded."""
    return x.sqrt()


@floats_as_doubles_without_fma
def rsqrt(x: Vec) -> Vec:
    """1 / sqrt(x); with fused multiply-add both roundings are made good: half of what y (x y) lacks to 1 is added."""
    y = 1.0 / x.sqrt()
    if not x.has_fma:
        return y
    root, error = two_product(x, y)
    missing = residual(root, y, x.const(1.0)) - error * y
    ordinary = (x >= min_normal(x)) & (x < math.inf)
    return (y * 0.5).fma(missing, y).where(ordinary, y)


def cbrt(x: Vec) -> Vec:
    """The cube root: a parabola, Halley's iteration, and a last step with an exact residual."""
    mantissa_bits, bias = (52, 1023) if x.is_double else (23, 127)
    a = x.abs()
    bits = a.as_int()
    exponent = (bits >> mantissa_bits) - bias + 1200
    third = (exponent * 21846) >> 16  # exponent / 3 for exponents below 2^15
    rest = exponent - third * 3
    m1 = ((bits & ((1 << mantissa_bits) - 1)) | (bias << mantissa_bits)).as_float()
    root = polynomial(m1, co.CBRT_F64 if x.is_double else co.CBRT_F32)
    y = root * x.const(2 ** (2 / 3)).where(rest.eq(2), x.const(2 ** (1 / 3)).where(rest.eq(1), 1.0))
    m = m1 * power_of_two(rest, x.type.elem)
    for _ in range(2 if x.is_double else 1):
        cube = y * y * y
        y = y - y * ((cube - m) / (cube + cube + m))
    square, error = two_product(y, y)
    excess = residual(square, y, m) - error * y
    y = y + excess / (3.0 * square)
    result = (y * power_of_two(third - 400, x.type.elem)).copysign(x)
    ordinary = (a >= min_normal(x)) & (a < math.inf)
    return result.where(ordinary, x)


def power(x: Vec, y: Vec) -> Vec:
    """x^y with C's special cases: pow(1, NaN) = pow(NaN, 0) = 1, negative x only with whole y."""
    known = _KNOWN_EXPONENTS.get(y.v.constant)
    if known is not None:
        return known(x)
    if x.v.constant == 2.0:
        return _two_to(y)
    magnitude = _power_of_positive_f64(x.abs(), y) if x.is_double else _power_of_positive_f32(x.abs(), y)
    a = x.abs()
    y_is_whole = round_even(y).eq(y)
    half = y * 0.5
    y_is_odd = y_is_whole & round_even(half).ne(half) & (y.abs() < math.inf)
    # zero (or subnormal) and infinite bases
    is_zero = a < min_normal(x)
    grows = (y < 0.0) & is_zero | (y > 0.0) & a.eq(math.inf)
    magnitude = x.const(math.inf).where(grows, x.const(0.0)).where(is_zero | a.eq(math.inf), magnitude)
    magnitude = x.const(1.0).where(a.eq(1.0) & y.abs().eq(math.inf), magnitude)
    negative = x.as_int() < 0
    result = (-magnitude).where(negative & y_is_odd, magnitude)
    result = x.const(math.nan).where((x < 0.0) & ~y_is_whole & (a < math.inf) & ~is_zero, result)
    result = (x + y).where(Vec(x.b, x.b.fcmp_unordered("uno", x.v, y.v)), result)
    return x.const(1.0).where(x.eq(1.0) | y.eq(0.0), result)


def _two_to(y: Vec) -> Vec:
    """2^y: exact for whole numbers, as only what is left of them is a power of e."""
    wide = y if y.is_double else y.to_double()
    n, n_int = round_to_int(clamp(wide, -1100.0, 1100.0))
    rest = (wide - n).where(wide.abs() < 1100.0, 0.0 * wide.where(wide.is_nan(), 0.0))
    if not y.is_double:
        return scale_by_power_of_two(1.0 + expm1_reduced(rest * LN2), n, n_int).to_float()
    r, error = two_product(rest, rest.const(LN2))
    error, q = rest.fma(_LN2_TAIL, error), expm1_reduced(r)
    return scale_by_power_of_two(1.0 + (q + error.fma(q, error)), n, n_int)


_LN2_TAIL = float.fromhex("0x1.abc9e3b39803fp-56")
"""ln2 less the double next to it."""


def _to_one_half(x: Vec) -> Vec:
    """The square root, but inf of -inf, and 0 of -0."""
    return x.const(math.inf).where(x.eq(-math.inf), sqrt(x).abs())


def _to_minus_one_half(x: Vec) -> Vec:
    """1 / sqrt(x), but 0 of -inf, and inf of -0."""
    return x.const(0.0).where(x.eq(-math.inf), rsqrt(x).abs())


def _cube(x: Vec) -> Vec:
    return x * (x * x)


_KNOWN_EXPONENTS: Mapping[float | None, Callable[[Vec], Vec]] = {
    0.5: _to_one_half,
    -0.5: _to_minus_one_half,
    3.0: _cube,
}
"""What takes a few instructions: two roundings at most."""


def _power_of_positive_f32(a: Vec, y: Vec) -> Vec:
    wide, y = a.to_double(), y.to_double()
    k, mantissa = split_exponent(wide)
    product = y * log_of_parts(k, mantissa - 1.0)
    r, _, n = reduce_by_ln2(clamp(product, -200.0, 200.0))
    return ((expm1_reduced(r) + 1.0) * power_of_two(n, wide.type.elem)).to_float()


def _power_of_positive_f64(a: Vec, y: Vec) -> Vec:
    y = clamp(y, -1e25, 1e25)  # beyond, the result is 0, 1 or inf already
    log_high, log_low = _log_in_two_parts(a)
    product, error = two_product(y, log_high)
    error = y.fma(log_low, error)
    in_range = product.abs() < 800.0
    product = clamp(product, -800.0, 800.0)
    error = error.where(in_range, 0.0)
    n, n_int = round_to_int(product * LOG2_E)
    r, rounding = two_sum(n.fma(-LN2_HIGH_F64, product), n * -LN2_LOW_F64)
    tail = rounding + error
    r_high, r_low = fast_two_sum(r, tail)
    q = expm1_reduced(r_high)
    result = 1.0 + (q + r_low.fma(q, r_low))
    return scale_by_power_of_two(result, n, n_int)


def _log_in_two_parts(a: Vec) -> tuple[Vec, Vec]:
    """log(a) = high + low for positive normal a: 2s + s^3 (2/3 + s^2 P(s^2)), s = (m - 1) / (m + 1), all in two
    parts."""
    k, mantissa = split_exponent(a)
    f = mantissa - 1.0
    den_high, den_low = fast_two_sum(a.const(2.0), f)
    s = f / den_high
    s_low = (residual(s, den_high, f) - s * den_low) / den_high
    s2, s2_low = two_product(s, s)
    s2_low = (s + s).fma(s_low, s2_low)
    c, c_low = fast_two_sum(a.const(2 / 3), s2.fma(polynomial(s2, co.ATANH_TAIL_F64), 3.700743415417188e-17))
    s3, s3_low = two_product(s2, s)
    s3_low = s3_low + s2.fma(s_low, s2_low * s)
    term, term_low = two_product(s3, c)
    term_low = term_low + s3.fma(c_low, s3_low * c)
    k_float = k.sitofp(a.type.elem)
    high, e1 = two_sum(k_float * LN2_HIGH_F64, s + s)
    high, e2 = two_sum(high, term)
    low_product, e3 = two_product(k_float, a.const(LN2_LOW_F64))
    high, e4 = two_sum(high, low_product)
    # ln2 less both parts above
    low = ((e1 + e2) + e4) + ((s_low + s_low + term_low) + k_float.fma(_LN2_REST, e3))
    return fast_two_sum(high, low)


_LN2_REST = float.fromhex("0x1.cc01f97b57a08p-87")
