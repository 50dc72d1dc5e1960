"""exp, expm1, logistic, tanh, sinh, cosh.

All rest on x = n ln2 + r, |r| <= ln2/2, and expm1(r) = r + r^2 P(r). Subnormal results are
as MXCSR says; NaN propagates.
"""

from __future__ import annotations

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.vec import (
    Vec,
    floats_as_doubles_without_fma,
    one_more_times_power_of_two,
    polynomial,
    power_of_two,
    round_to_int,
    round_to_power_of_two,
)

LN2_HIGH_F32, LN2_LOW_F32 = 0.693359375, -2.12194440054690583e-4  # the high part times n is exact
LN2_HIGH_F64, LN2_LOW_F64 = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
LN2, LOG2_E = 0.6931471805599453, 1.4426950408889634


def clamp(x: Vec, low: float, high: float) -> Vec:
    """min(max(x, low), high), where NaN stays NaN."""
    return x.const(low).maximum(x.const(high).minimum(x))


def _ln2_parts(x: Vec) -> tuple[float, float]:
    return (LN2_HIGH_F64, LN2_LOW_F64) if x.is_double else (LN2_HIGH_F32, LN2_LOW_F32)


def reduce_by_ln2(x: Vec) -> tuple[Vec, Vec, Vec]:
    """(r, n as float, n as integer) with x = n ln2 + r."""
    high, low = _ln2_parts(x)
    n, n_int = round_to_int(x * LOG2_E)
    return n.fma(-low, n.fma(-high, x)), n, n_int


def expm1_reduced(r: Vec) -> Vec:
    """expm1(r) for |r| <= ln2/2."""
    return (r * r).fma(polynomial(r, co.EXP_F64 if r.is_double else co.EXP_F32), r)


def exp(x: Vec) -> Vec:
    """e^x."""
    r, n, n_int = reduce_by_ln2(clamp(x, -746.0, 710.0) if x.is_double else clamp(x, -104.0, 89.0))
    return one_more_times_power_of_two(expm1_reduced(r), n, n_int)


def expm1_quarter(x: Vec) -> Vec:
    """(e^x - 1) / 4, which overflows later than sinh and cosh do.

    With r = head + tail and s = 2^n / 4 it is s head + (s - 1/4) + s (tail + r^2 P(r)). Near 0 the first two terms
    cancel, so their sum is kept with its rounding error: only the last addition rounds by more than a little.
    """
    high, low = _ln2_parts(x)
    x = clamp(x, -38.0, 710.6) if x.is_double else clamp(x, -17.5, 89.6)
    n, n_int = round_to_int(x * LOG2_E)
    head, tail = n.fma(-high, x), n * -low  # the head is exact
    r = head + tail
    tail = (r * r).fma(polynomial(r, co.EXP_F64 if x.is_double else co.EXP_F32), tail)
    scale = power_of_two(n_int - 2, x.type.elem)
    offset = scale - 0.25
    rough = scale.fma(head, offset)
    rest = scale.fma(head, offset - rough)
    rest = rest + ((scale - offset) - 0.25)  # where s is so large that s - 1/4 is rounded
    return rough + scale.fma(tail, rest)


@floats_as_doubles_without_fma
def expm1(x: Vec) -> Vec:
    """e^x - 1."""
    return _unless_tiny(x, expm1_quarter(x) * 4.0, 54 if x.is_double else 25)


def _unless_tiny(x: Vec, result: Vec, bits: int) -> Vec:
    """`result` with the sign of x, or x below 2^-bits, where intermediate values could underflow."""
    return x.where(x.abs() < 2.0**-bits, result.copysign(x))


def logistic(x: Vec) -> Vec:
    """1 / (1 + e^-x)."""
    return 1.0 / (exp(-x) + 1.0)


def tanh(x: Vec) -> Vec:
    """Hyperbolic tangent: 1 - 2 / (e^2|x| + 1), and x + x^3 P(x^2) below 0.9. Doubles take one formula for all."""
    if x.is_double:
        return _tanh_f64(x)
    magnitude = x.const(10.0).minimum(x.abs())
    n, scale = round_to_power_of_two(magnitude, 2.0 * LOG2_E)
    r = n.fma(-0.5 * LN2, magnitude)  # one product with ln2: from 0.9 on the result hardly depends on it
    doubled = [c * 2.0 ** (k + 1) for k, c in enumerate(co.EXP_F32)]
    half = scale.fma((r * r).fma(polynomial(r, doubled), r), scale.fma(0.5, 0.5))  # (e^2|x| + 1) / 2
    large = 1.0 - 1.0 / half
    square = magnitude * magnitude
    small = (square * magnitude).fma(polynomial(square, co.TANH_F32), magnitude)
    return small.where(magnitude < 0.9, large).copysign(x)


def _tanh_f64(x: Vec) -> Vec:
    """e / (e + 2) with e = expm1(2|x|) = s p + (s - 1), where 2|x| = n ln2 + r, s = 2^n and p = expm1(r): s - 1 is
    exact, and where n = 0, tiny arguments among them, e is p.
    """
    magnitude = x.const(22.0).minimum(x.abs())
    doubled = magnitude + magnitude
    n, n_int = round_to_int(doubled * LOG2_E)
    head = n.fma(-LN2_HIGH_F64, doubled)  # exact
    tail = n * -LN2_LOW_F64
    r = head + tail
    p = head + (r * r).fma(polynomial(r, co.EXP_F64), tail)
    scale = power_of_two(n_int, x.type.elem)
    e = scale.fma(p, scale - 1.0)
    return (e / (e + 2.0)).copysign(x)


def sinh(x: Vec) -> Vec:
    """Hyperbolic sine: (e + e / (e + 1)) / 2 for e = expm1(|x|)."""
    quarter = expm1_quarter(x.abs())
    return _unless_tiny(x, quarter + quarter + 0.5 * (quarter / (quarter + 0.25)), 28 if x.is_double else 13)


def cosh(x: Vec) -> Vec:
    """Hyperbolic cosine."""
    quarter = expm1_quarter(x.abs()) + 0.25
    return quarter + quarter + 0.125 / quarter
