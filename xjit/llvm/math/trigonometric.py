"""sin, cos, tan.

x = n pi/2 + r with r in two parts. Up to 2^20 the reduction is Cody and Waite's; if any lane is larger, a branch
that is almost never taken reduces it by Payne and Hanek's method, so all arguments are accurate. f32 reduces in f64.
"""

from __future__ import annotations

from xjit.llvm.inline_control_flow import if_then
from xjit.llvm.math import coefficients as co
from xjit.llvm.math.payne_hanek import reduce_large
from xjit.llvm.math.vec import Vec, fast_two_sum, polynomial, residual, round_to_int, two_sum
from xjit.llvm.types import I32
from xjit.llvm.values import Value

_PI_2_PARTS = tuple(
    map(float.fromhex, ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104"))
)
"""pi/2 in three parts of at most 33 bits, and the rest: n times each of the first three is exact for n < 2^20."""
_PI_2_LOW = float.fromhex("0x1.0b4611a626331p-34")  # pi/2 less the first part
_FAST_LIMIT = 2.0**20
_TWO_OVER_PI = 0.6366197723675814


def sin(x: Vec) -> Vec:
    """Sine."""
    quadrant, high, low = _reduce(x)
    sine, cosine = _sin_cos_reduced(high, low)
    return x.where(x.eq(0.0), _flip_sign(cosine.where((quadrant & 1).ne(0), sine), quadrant))


def cos(x: Vec) -> Vec:
    """Cosine."""
    quadrant, high, low = _reduce(x)
    sine, cosine = _sin_cos_reduced(high, low)
    return _flip_sign(sine.where((quadrant & 1).ne(0), cosine), quadrant + 1)


def sin_cos(x: Vec) -> tuple[Vec, Vec]:
    """Both, with one reduction."""
    quadrant, high, low = _reduce(x)
    sine, cosine = _sin_cos_reduced(high, low)
    swap = (quadrant & 1).ne(0)
    sine_of_x = x.where(x.eq(0.0), _flip_sign(cosine.where(swap, sine), quadrant))
    return sine_of_x, _flip_sign(sine.where(swap, cosine), quadrant + 1)


def tan(x: Vec) -> Vec:
    """Tangent; in odd quadrants -1 / tan(r), with the rounding error of tan(r) put back."""
    quadrant, high, low = _reduce(x)
    z = high * high
    correction = (z * high).fma(polynomial(z, co.TAN_F64 if x.is_double else co.TAN_F32), low.fma(z, low))
    tangent, error = fast_two_sum(high, correction)
    inverse = -1.0 / tangent
    # -1/(t+e) = w + w (1 + w t + w e) for w = -1/t
    negated = -inverse
    unit_error = residual(negated, tangent, x.const(1.0)) + inverse * error
    inverse = inverse.fma(unit_error, inverse)
    return x.where(x.eq(0.0), inverse.where((quadrant & 1).ne(0), tangent))


def _sin_cos_reduced(r: Vec, low: Vec) -> tuple[Vec, Vec]:
    """sin and cos of r + low, |r| <= pi/4."""
    z = r * r
    half = z * 0.5
    sine = r + (z * r).fma(polynomial(z, co.SIN_F64 if r.is_double else co.SIN_F32), low - low * half)
    w = 1.0 - half
    tail = (z * z).fma(polynomial(z, co.COS_F64 if r.is_double else co.COS_F32), ((1.0 - w) - half) - r * low)
    return sine, w + tail


def _flip_sign(value: Vec, quadrant: Vec) -> Vec:
    """-value in quadrants 2 and 3."""
    shift = value.type.elem.bits - 2
    return (value.as_int() ^ ((quadrant & 2) << shift)).as_float()


def _reduce(x: Vec) -> tuple[Vec, Vec, Vec]:
    """(quadrant, high, low): x = n pi/2 + high + low, quadrant = n modulo 4 as an integer as wide as x."""
    wide = x if x.is_double else x.to_double()
    quadrant, high, low = _reduce_medium(wide) if x.is_double else _reduce_medium_of_f32(wide)
    merged = _with_slow_path(wide, (quadrant, high, low))
    if x.is_double:
        return merged
    quadrant, high, low = merged
    high_f32 = high.to_float()
    return quadrant.trunc(I32), high_f32, (high - high_f32.to_double() + low).to_float()


def _reduce_medium(x: Vec) -> tuple[Vec, Vec, Vec]:
    n, quadrant = round_to_int(x * _TWO_OVER_PI)
    p1, p2, p3, p4 = _PI_2_PARTS
    r, e1 = two_sum(n.fma(-p1, x), n * -p2)
    r, e2 = two_sum(r, n * -p3)
    high, low = fast_two_sum(r, n.fma(-p4, e1 + e2))
    return quadrant, high, low


def _reduce_medium_of_f32(x: Vec) -> tuple[Vec, Vec, Vec]:
    n, quadrant = round_to_int(x * _TWO_OVER_PI)
    return quadrant, n.fma(-_PI_2_LOW, n.fma(-_PI_2_PARTS[0], x)), x.const(0.0)


def _with_slow_path(x: Vec, fast: tuple[Vec, Vec, Vec]) -> tuple[Vec, Vec, Vec]:
    """`fast`, except for the lanes beyond its range, which are computed behind a branch."""
    b = x.b
    is_large = x.abs() >= _FAST_LIMIT

    def slow() -> list[Value]:
        return [large.where(is_large, small).v for large, small in zip(reduce_large(x), fast)]

    quadrant, high, low = if_then(b, is_large.any(), slow, [part.v for part in fast])
    return Vec(b, quadrant), Vec(b, high), Vec(b, low)
