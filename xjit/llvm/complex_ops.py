"""Complex arithmetic on pairs, with XLA's branch cuts.

Sums, products and absolute values are computed in the type of the parts. Everything else on c64 is computed in f64,
where neither overflow nor cancellation matter; the formulas are those that also hold for c128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xjit.llvm.inline_control_flow import if_then
from xjit.llvm.math import exponential as ex
from xjit.llvm.math import logarithm as lo
from xjit.llvm.math.inverse_trigonometric import atan2 as real_atan2
from xjit.llvm.math.power import power as real_power
from xjit.llvm.math.trigonometric import sin_cos
from xjit.llvm.math.vec import Vec, two_product, two_sum
from xjit.llvm.values import Value


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number as two `Vec`s of one type."""

    real: Vec
    imag: Vec

    def where(self, condition: Vec, other: Complex) -> Complex:
        """This where `condition` holds, else `other`."""
        return Complex(self.real.where(condition, other.real), self.imag.where(condition, other.imag))

    def __neg__(self) -> Complex:
        return Complex(-self.real, -self.imag)


def _in_f64(function: Callable[..., Complex]) -> Callable[..., Complex]:
    """`function`, computed in f64 whatever the type of the operands."""

    def wrapper(*operands: Complex) -> Complex:
        if operands[0].real.is_double:
            return function(*operands)
        result = function(*[Complex(z.real.to_double(), z.imag.to_double()) for z in operands])
        return Complex(result.real.to_float(), result.imag.to_float())

    wrapper.__name__, wrapper.__doc__ = function.__name__, function.__doc__
    return wrapper


def add(a: Complex, b: Complex) -> Complex:
    """a + b."""
    return Complex(a.real + b.real, a.imag + b.imag)


def subtract(a: Complex, b: Complex) -> Complex:
    """a - b."""
    return Complex(a.real - b.real, a.imag - b.imag)


def negate(a: Complex) -> Complex:
    """-a."""
    return -a


def multiply(a: Complex, b: Complex) -> Complex:
    """a * b, by the definition."""
    return Complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def divide(a: Complex, b: Complex) -> Complex:
    """a / b; infinities and NaNs as C99 has them. In f64 by Smith's method; c64 needs none, in f64."""
    if a.real.is_double:
        return _with_infinities(_smith_quotient(a, b), a, b)
    return _divide_in_f64(a, b)


def _smith_quotient(a: Complex, b: Complex) -> Complex:
    """a / b, where the larger part of b divides first: no square overflows."""
    wide = b.real.abs() >= b.imag.abs()
    large, small = b.real.where(wide, b.imag), b.imag.where(wide, b.real)
    is_zero = b.real.eq(0.0) & b.imag.eq(0.0)  # not `large`: next to a NaN it is the other part
    ratio = small.const(0.0).where(is_zero, small / large)
    divisor = large.where(is_zero, small.fma(ratio, large))
    first, second = a.real.where(wide, a.imag), a.imag.where(wide, a.real)
    real = second.fma(ratio, first)
    imag = a.imag.fma(ratio, -a.real).where(~wide, (-a.real).fma(ratio, a.imag))
    real, imag = a.real.where(is_zero, real), a.imag.where(is_zero, imag)
    return Complex(real / divisor, imag / divisor)


@_in_f64
def _divide_in_f64(a: Complex, b: Complex) -> Complex:
    """a / b of numbers of f32: a conj(b) / |b|^2. Products are exact, and no square over- or underflows."""
    size = b.real.fma(b.real, b.imag * b.imag)
    is_zero = size.eq(0.0)
    scale = 1.0 / b.real.where(is_zero, size)
    real = a.real.where(is_zero, a.real.fma(b.real, a.imag * b.imag))
    imag = a.imag.where(is_zero, a.imag.fma(b.real, -(a.real * b.imag)))
    quotient = Complex(real * scale, imag * scale)
    builder, lost = a.real.b, quotient.real.is_nan() & quotient.imag.is_nan()

    def mended() -> list[Value]:
        found = _with_infinities(quotient, a, b)
        return [found.real.v, found.imag.v]

    found = if_then(builder, lost.any(), mended, [quotient.real.v, quotient.imag.v])
    return Complex(*(Vec(builder, part) for part in found))


def _with_infinities(quotient: Complex, a: Complex, b: Complex) -> Complex:
    """Replaces NaNs in both parts of a / b: an infinite number over a finite one is infinite, the opposite is 0."""
    lost = quotient.real.is_nan() & quotient.imag.is_nan()
    grows, vanishes = lost & _is_infinite(a) & _is_finite(b), lost & _is_finite(a) & _is_infinite(b)
    x, y = _direction(a).where(grows, a), _direction(b).where(vanishes, b)
    scale = x.real.const(math.inf).where(grows, 0.0)
    real = (x.real * y.real + x.imag * y.imag) * scale
    imag = (x.imag * y.real - x.real * y.imag) * scale
    return Complex(real, imag).where(grows | vanishes, quotient)


def _is_infinite(z: Complex) -> Vec:
    return z.real.abs().eq(math.inf) | z.imag.abs().eq(math.inf)


def _is_finite(z: Complex) -> Vec:
    return (z.real.abs() < math.inf) & (z.imag.abs() < math.inf)


def _direction(z: Complex) -> Complex:
    """Infinite parts as 1, others as 0, with their signs."""
    parts = [p.const(1.0).where(p.abs().eq(math.inf), 0.0).copysign(p) for p in (z.real, z.imag)]
    return Complex(*parts)


def _ordered_parts(z: Complex) -> tuple[Vec, Vec]:
    """(larger, smaller) of |real|, |imag|."""
    x, y = z.real.abs(), z.imag.abs()
    steep = y > x
    return y.where(steep, x), x.where(steep, y)


def absolute(z: Complex) -> Vec:
    """|z| without overflow and underflow on the way; inf if either part is, even if the other is NaN.

    Large and small numbers are scaled by powers of two, so that their squares are ordinary numbers.
    """
    x, y = z.real.abs(), z.imag.abs()
    larger = x.where(x > y, y)
    limits = _F64_SQUARES if z.real.is_double else _F32_SQUARES
    is_large, is_small = larger > limits.large, larger < limits.small
    one = larger.const(1.0)
    scale = one.const(limits.shrink).where(is_large, one.const(limits.grow).where(is_small, one))
    unscale = one.const(1 / limits.shrink).where(is_large, one.const(1 / limits.grow).where(is_small, one))
    a, b = x * scale, y * scale
    size = a.fma(a, b * b).sqrt() * unscale
    infinite = x.eq(math.inf) | y.eq(math.inf)
    return size.const(math.inf).where(infinite, size)


@dataclass(frozen=True, slots=True)
class _SquareLimits:
    """Which numbers are scaled before they are squared, and by what."""

    large: float
    shrink: float
    small: float
    grow: float


_F32_SQUARES = _SquareLimits(2.0**60, 2.0**-70, 2.0**-40, 2.0**100)
_F64_SQUARES = _SquareLimits(2.0**500, 2.0**-600, 2.0**-400, 2.0**600)


def sign(z: Complex) -> Complex:
    """z / |z|; 0 for 0, NaN if either part is."""
    size = absolute(z)
    is_zero = z.real.eq(0.0) & z.imag.eq(0.0)
    divisor = size.const(1.0).where(is_zero, size)
    nan = (z.real + z.imag) * 0.0
    is_nan = z.real.is_nan() | z.imag.is_nan()
    return Complex(nan, nan).where(is_nan, Complex(z.real / divisor, z.imag / divisor))


@_in_f64
def exp(z: Complex) -> Complex:
    """e^z, without early overflow; an imaginary part of 0 gives exactly real numbers."""
    sine, cosine = sin_cos(z.imag)
    is_large = z.real > 700.0
    size = ex.exp((z.real - 700.0).where(is_large, z.real))
    rest = size.const(math.exp(700.0)).where(is_large, 1.0)
    return Complex(size * cosine * rest, z.imag.where(z.imag.eq(0.0), size * sine * rest))


@_in_f64
def expm1(z: Complex) -> Complex:
    """e^z - 1 without cancellation near zero."""
    sine, cosine = sin_cos(z.imag)
    half_sine, _ = sin_cos(z.imag * 0.5)
    is_real = z.imag.eq(0.0)
    shifted = ex.expm1(z.real)
    real = shifted.fma(cosine, half_sine * half_sine * -2.0)
    return Complex(shifted.where(is_real, real), z.imag.where(is_real, ex.exp(z.real) * sine))


def _log_size(z: Complex) -> Vec:
    """log |z|, accurate near |z| = 1, too."""
    larger, smaller = _ordered_parts(z)
    near = (larger > 0.5) & (larger < 2.0) & (smaller < 2.0)
    a, b = larger.where(near, 1.0), smaller.where(near, 0.0)
    a2, a2_low = two_product(a, a)
    b2, b2_low = two_product(b, b)
    close = lo.log1p(((a2 - 1.0) + b2) + (a2_low + b2_low)) * 0.5
    ratio = smaller / larger
    ratio = ratio.where(larger > 0.0, 0.0).where(larger < math.inf, 0.0)
    far = lo.log(larger) + lo.log1p(ratio * ratio) * 0.5
    result = close.where(near, far)
    infinite = z.real.abs().eq(math.inf) | z.imag.abs().eq(math.inf)
    nan = z.real + z.imag
    result = nan.where(z.real.is_nan() | z.imag.is_nan(), result)
    return result.const(math.inf).where(infinite, result)


@_in_f64
def log(z: Complex) -> Complex:
    """log z, imaginary part in [-pi, pi]."""
    return Complex(_log_size(z), real_atan2(z.imag, z.real))


@_in_f64
def log1p(z: Complex) -> Complex:
    """log(1 + z): (log1p of |1 + z|^2 - 1) / 2 near zero."""
    x, y = z.real, z.imag
    near = (x.abs() < 0.5) & (y.abs() < 0.5)
    small_x, small_y = x.where(near, 0.0), y.where(near, 0.0)
    x2, x2_low = two_product(small_x, small_x)
    y2, y2_low = two_product(small_y, small_y)
    total, e1 = two_sum(small_x + small_x, x2)
    total, e2 = two_sum(total, y2)
    close = lo.log1p(total + (e1 + e2 + (x2_low + y2_low))) * 0.5
    moved = Complex(x + 1.0, y)
    return Complex(close.where(near, _log_size(moved)), real_atan2(y, moved.real))


@_in_f64
def sqrt(z: Complex) -> Complex:
    """The square root with a real part that is not negative; on the cut, -0 counts as above it, as in XLA."""
    return _sqrt(Complex(z.real, z.imag + 0.0))


def _sqrt(z: Complex) -> Complex:
    """The square root as in C99: on the cut, -0 counts as below it."""
    x, y = z.real, z.imag
    larger, _ = _ordered_parts(z)
    # scaled by powers of 4, so that |x| + |z| neither overflows nor vanishes
    big, tiny = larger > 2.0**1000, larger < 2.0**-900
    scale = x.const(2.0**-20).where(big, x.const(2.0**200).where(tiny, 1.0))
    unscale = x.const(2.0**10).where(big, x.const(2.0**-100).where(tiny, 1.0))
    scaled = Complex(x * scale, y * scale)
    t = ((scaled.real.abs() + absolute(scaled)) * 0.5).sqrt()
    other = (scaled.imag.abs() * 0.5) / t
    is_zero = x.eq(0.0) & y.eq(0.0)
    other = x.const(0.0).where(is_zero, other) * unscale
    t = t * unscale
    left = x.as_int() < 0
    real, imag = other.where(left, t), t.where(left, other)
    infinite_y = y.abs().eq(math.inf)
    infinite_x = x.abs().eq(math.inf) & ~infinite_y
    small = (y * 0.0).abs()  # 0, or NaN for NaN
    real = small.where(infinite_x & left, x.const(math.inf).where(infinite_y | infinite_x, real))
    imag = small.where(infinite_x & ~left, x.const(math.inf).where(infinite_y | infinite_x, imag))
    return Complex(real, imag.copysign(y))


@_in_f64
def rsqrt(z: Complex) -> Complex:
    """1 / sqrt(z)."""
    one = Complex(z.real.const(1.0), z.real.const(0.0))
    return divide(one, _sqrt(z))


@_in_f64
def logistic(z: Complex) -> Complex:
    """1 / (1 + e^-z)."""
    e = exp(-z)
    one = z.real.const(1.0)
    return divide(Complex(one, z.real.const(0.0)), Complex(e.real + one, e.imag))


@_in_f64
def sinh(z: Complex) -> Complex:
    """sinh x cos y + i cosh x sin y."""
    sine, cosine = sin_cos(z.imag)
    is_real, is_imaginary = z.imag.eq(0.0), z.real.eq(0.0)
    real = z.real.where(is_imaginary, ex.sinh(z.real) * cosine)
    return Complex(real, z.imag.where(is_real, ex.cosh(z.real) * sine))


@_in_f64
def cosh(z: Complex) -> Complex:
    """cosh x cos y + i sinh x sin y."""
    sine, cosine = sin_cos(z.imag)
    either = z.real.eq(0.0) | z.imag.eq(0.0)
    zero = z.real.const(0.0).copysign(z.real).as_int() ^ z.real.const(0.0).copysign(z.imag).as_int()
    return Complex(ex.cosh(z.real) * cosine, zero.as_float().where(either, ex.sinh(z.real) * sine))


def _times_i(z: Complex) -> Complex:
    return Complex(-z.imag, z.real)


def _over_i(z: Complex) -> Complex:
    return Complex(z.imag, -z.real)


@_in_f64
def sin(z: Complex) -> Complex:
    """-i sinh(i z)."""
    return _over_i(sinh(_times_i(z)))


@_in_f64
def cos(z: Complex) -> Complex:
    """cosh(i z)."""
    return cosh(_times_i(z))


@_in_f64
def tanh(z: Complex) -> Complex:
    """Kahan's formula; beyond |x| = 20 the limit and its first term."""
    sine, cosine = sin_cos(z.imag)
    x = z.real
    saturated = x.abs() > 20.0
    s = ex.sinh(x.where(~saturated, 1.0))
    # with t = tan y: beta = 1 + t^2 = 1 / cos^2; everything is multiplied by cos^2
    square = s * s
    denominator = cosine.fma(cosine, square)
    real = s * (square + 1.0).sqrt() / denominator
    imag = sine * cosine / denominator
    decay = ex.exp(x.abs() * -2.0) * 4.0
    far = Complex(x.const(1.0).copysign(x), decay * sine * cosine)
    flat = x.abs().eq(math.inf) & ~(z.imag.abs() < math.inf)
    far_imag = x.const(0.0).copysign(z.imag).where(flat, far.imag)
    imag = z.imag.where(z.imag.eq(0.0), far_imag.where(saturated, imag))
    real = far.real.where(saturated & ((z.imag.abs() < math.inf) | x.abs().eq(math.inf)), real)
    return Complex(x.where(x.eq(0.0) & z.imag.eq(0.0), real), imag)


@_in_f64
def tan(z: Complex) -> Complex:
    """-i tanh(i z)."""
    return _over_i(tanh(_times_i(z)))


def _sqrt_of_one_plus_and_minus(z: Complex) -> tuple[Complex, Complex]:
    one = z.real.const(1.0)
    return _sqrt(Complex(one + z.real, z.imag)), _sqrt(Complex(one - z.real, -z.imag))


@_in_f64
def asin(z: Complex) -> Complex:
    """Kahan's formula."""
    plus, minus = _sqrt_of_one_plus_and_minus(z)
    real = real_atan2(z.real, plus.real * minus.real - plus.imag * minus.imag)
    return Complex(real, lo.asinh(minus.real * plus.imag - minus.imag * plus.real).copysign(z.imag))


@_in_f64
def acos(z: Complex) -> Complex:
    """Kahan's formula."""
    plus, minus = _sqrt_of_one_plus_and_minus(z)
    real = real_atan2(minus.real, plus.real) * 2.0
    return Complex(real, lo.asinh(plus.real * minus.imag - plus.imag * minus.real).copysign(-z.imag))


@_in_f64
def asinh(z: Complex) -> Complex:
    """-i asin(i z)."""
    return _over_i(asin(_times_i(z)))


@_in_f64
def acosh(z: Complex) -> Complex:
    """Kahan's formula; the real part is not negative."""
    one = z.real.const(1.0)
    plus, minus = _sqrt(Complex(z.real + one, z.imag)), _sqrt(Complex(z.real - one, z.imag))
    real = lo.asinh(minus.real * plus.real + minus.imag * plus.imag)
    return Complex(real, real_atan2(minus.imag, plus.real) * 2.0)


@_in_f64
def atanh(z: Complex) -> Complex:
    """log1p(4x / ((1 - x)^2 + y^2)) / 4 and half the angle of ((1 - x)(1 + x) - y^2, 2y)."""
    x, y = z.real.abs(), z.imag
    less, more = 1.0 - x, x + 1.0
    far = (x > 2.0**500) | (y.abs() > 2.0**500)  # the limit is +-i pi/2
    real = lo.log1p(4.0 * x / (less * less + y * y)) * 0.25
    real = x.const(0.0).where(far, real)
    imag = real_atan2(y + y, less * more - y * y) * 0.5
    imag = x.const(math.pi / 2).copysign(y).where(far, imag)
    return Complex(real.copysign(z.real), imag)


@_in_f64
def power(a: Complex, b: Complex) -> Complex:
    """|a|^c e^(-d arg a) cis(c arg a + d log |a|) for b = c + i d; NaN where that angle is not a number.

    a^0 and 1^b are 1 whatever the other is; 0^c is 0 and inf^c is inf for real c > 0, inf^c is 0 for c < 0, and 0^b
    NaN for all other b.
    """
    angle = real_atan2(a.imag, a.real)
    scale = real_power(absolute(a), b.real) * ex.exp(-(b.imag * angle))
    sine, cosine = sin_cos(b.real * angle + b.imag * _log_size(a))
    result = Complex(scale * cosine, scale * sine)
    zero = a.real.const(0.0)
    is_real = b.imag.eq(0.0)
    grows, falls = is_real & (b.real > 0.0), is_real & (b.real < 0.0)
    result = Complex(zero, zero).where(a.real.eq(0.0) & a.imag.eq(0.0) & grows, result)
    is_infinite = a.real.eq(math.inf) & a.imag.eq(0.0)
    at_infinity = Complex(zero.const(math.inf).where(grows, zero), zero)
    result = at_infinity.where(is_infinite & (grows | falls), result)
    is_one = (is_real & b.real.eq(0.0)) | (a.real.eq(1.0) & a.imag.eq(0.0))
    return Complex(zero.const(1.0), zero).where(is_one, result)


@_in_f64
def atan2(y: Complex, x: Complex) -> Complex:
    """-i log((x + i y) / sqrt(x^2 + y^2))."""
    numerator = add(x, _times_i(y))
    squares = add(multiply(x, x), multiply(y, y))
    return _over_i(log(divide(numerator, _sqrt(squares))))


FUNCTIONS: Mapping[str, Callable[..., Complex]] = MappingProxyType(
    {
        "acos": acos,
        "acosh": acosh,
        "asin": asin,
        "asinh": asinh,
        "atan2": atan2,
        "atanh": atanh,
        "cosh": cosh,
        "cosine": cos,
        "exponential": exp,
        "exponential-minus-one": expm1,
        "log": log,
        "log-plus-one": log1p,
        "logistic": logistic,
        "rsqrt": rsqrt,
        "sine": sin,
        "sinh": sinh,
        "sqrt": sqrt,
        "tan": tan,
        "tanh": tanh,
    }
)
"""The transcendental ones, by opcode."""
