"""atan, atan2, asin, acos. The budgets are a few ULP; constants are added in two parts."""

from __future__ import annotations

import math

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.vec import Vec, polynomial

_TAN_PI_8 = 0.41421356237309503
_PI_2_LOW = {True: 6.123233995736766e-17, False: -4.371139000186241e-08}  # pi/2 less its rounding, by is_double


def _quarter_pi_parts(x: Vec) -> tuple[float, float]:
    """pi/4 as a short number, exact when multiplied by up to 4, and the rest."""
    if x.is_double:
        return float.fromhex("0x1.921fb544p-1"), float.fromhex("0x1.0b4611a626331p-35")
    return float.fromhex("0x1.921f8p-1"), float.fromhex("0x1.aa2216p-20")


def atan2(y: Vec, x: Vec) -> Vec:
    """The angle of (x, y) as C defines it: quadrants and signed zeros included."""
    abs_x, abs_y = x.abs(), y.abs()
    steep = abs_y > abs_x
    larger, smaller = abs_y.where(steep, abs_x), abs_x.where(steep, abs_y)
    both_infinite = smaller.eq(math.inf)
    degenerate = larger.eq(0.0)  # subnormals may count as zero
    scale = x.const(0.25).where(larger > (2.0**1020 if x.is_double else 2.0**124), 1.0)  # the sum must not overflow
    larger = x.const(1.0).where(both_infinite, x.const(1.0).where(degenerate, larger * scale))
    smaller = x.const(1.0).where(both_infinite, x.const(0.0).where(degenerate, smaller * scale))
    angle, eighths = _atan_of_ratio(smaller, larger)
    eighths = (2.0 - eighths).where(steep, eighths)
    angle = (-angle).where(steep, angle)
    left = x.as_int() < 0
    eighths = (4.0 - eighths).where(left, eighths)
    angle = (-angle).where(left, angle)
    high, low = _quarter_pi_parts(x)
    result = (eighths * high + (eighths.fma(low, angle))).copysign(y)
    return (x + y).where(Vec(x.b, x.b.fcmp_unordered("uno", x.v, y.v)), result)


def _atan_of_ratio(smaller: Vec, larger: Vec) -> tuple[Vec, Vec]:
    """(a, k) with atan(smaller / larger) = a + k pi/4, k 0 or 1."""
    beyond = smaller > larger * _TAN_PI_8
    numerator = (smaller - larger).where(beyond, smaller)
    denominator = (smaller + larger).where(beyond, larger)
    q = numerator / denominator
    z = q * q
    angle = (z * q).fma(polynomial(z, co.ATAN_F64 if q.is_double else co.ATAN_F32), q)
    return angle, q.const(1.0).where(beyond, 0.0)


def atan(x: Vec) -> Vec:
    """Arc tangent."""
    return atan2(x, x.const(1.0))


def _asin_parts(x: Vec) -> tuple[Vec, Vec]:
    """(p, beyond): with a = |x|, asin(a) = p for a <= 1/2; beyond that asin(a) = pi/2 - 2p."""
    a = x.abs()
    beyond = a > 0.5
    z = ((1.0 - a) * 0.5).where(beyond, a * a)
    s = z.sqrt().where(beyond, a)
    return (s * z).fma(polynomial(z, co.ASIN_F64 if x.is_double else co.ASIN_F32), s), beyond


def asin(x: Vec) -> Vec:
    """Arc sine; NaN outside [-1, 1]."""
    p, beyond = _asin_parts(x)
    return (math.pi / 2 - (p + p - _PI_2_LOW[x.is_double])).where(beyond, p).copysign(x)


def acos(x: Vec) -> Vec:
    """Arc cosine; NaN outside [-1, 1]."""
    p, beyond = _asin_parts(x)
    low = _PI_2_LOW[x.is_double]
    twice = p + p
    outer = (math.pi - (twice - 2 * low)).where(x < 0.0, twice)
    return outer.where(beyond, math.pi / 2 - (p.copysign(x) - low))
