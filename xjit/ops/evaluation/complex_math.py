"""Complex functions with XLA's branch cuts and special values; arguments are c128 where the table says `precise`."""

from __future__ import annotations

import numpy as np

from xjit.ops.evaluation.numerics import Array


def from_parts(real: Array, imag: Array) -> Array:
    """Returns real + i imag without arithmetic (so that signed zeros and NaN survive)."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
    result.real, result.imag = real, imag
    return result


def sign(z: Array) -> Array:
    """z / |z|; 0 for 0, NaN for NaN."""
    size = np.abs(z)
    divisor = np.where(z == 0, 1, size)
    return np.where(np.isnan(z), complex(np.nan, np.nan), from_parts(z.real / divisor, z.imag / divisor)).astype(
        z.dtype
    )


def multiply(a: Array, b: Array) -> Array:
    """Product, every real operation rounded (NumPy's own may contract them)."""
    real, imag = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    return from_parts(np.asarray(real), np.asarray(imag))


def divide(a: Array, b: Array) -> Array:
    """Quotient; an infinite or nonzero number over zero is infinite, a finite one over infinity zero, as in C99."""
    kind = a.dtype
    a, b = a.astype(np.complex128), b.astype(np.complex128)
    quotient: Array = np.asarray(np.divide(a, b))
    quotient = np.where(b == 0, from_parts(a.real / b.real, a.imag / b.real), quotient)
    lost = np.isnan(quotient.real) & np.isnan(quotient.imag)
    grows, vanishes = lost & np.isinf(a) & np.isfinite(b), lost & np.isfinite(a) & np.isinf(b)
    for where, x, y, scale in ((grows, _direction(a), b, np.inf), (vanishes, a, _direction(b), 0.0)):
        real, imag = x.real * y.real + x.imag * y.imag, x.imag * y.real - x.real * y.imag
        quotient = np.where(where, from_parts(scale * real, scale * imag), quotient)
    return quotient.astype(kind)


def _direction(z: Array) -> Array:
    """Infinite parts as 1, others as 0, with their signs."""
    return from_parts(*(np.copysign(np.isinf(p).astype(np.float64), p) for p in (z.real, z.imag)))


def exp(z: Array) -> Array:
    """e^z; a real argument keeps an exactly zero imaginary part."""
    size = np.exp(z.real)
    zero = z.imag == 0
    return from_parts(
        np.where(zero, size, size * np.cos(z.imag)), np.where(zero, z.imag, size * np.sin(z.imag))
    )  # fmt: skip


def expm1(z: Array) -> Array:
    """e^z - 1 without cancellation near zero."""
    x, y = z.real, z.imag
    is_real, half = y == 0, np.sin(y / 2)
    real = np.where(is_real, np.expm1(x), np.expm1(x) * np.cos(y) - 2 * half * half)
    return from_parts(real, np.where(is_real, y, np.exp(x) * np.sin(y)))


def log1p(z: Array) -> Array:
    """log(1 + z) without cancellation near zero."""
    x, y = z.real, z.imag
    near = np.abs(z) < 0.5
    small = 0.5 * np.log1p(np.where(near, x * (2 + x) + y * y, 0))
    large = np.log(np.hypot(1 + x, y))
    return from_parts(np.where(near, small, large), np.arctan2(y, 1 + x))


def logistic(z: Array) -> Array:
    """1 / (1 + e^-z)."""
    return divide(np.ones_like(z), 1 + exp(-z))


def sqrt(z: Array) -> Array:
    """Square root with a non-negative real part; on the cut, -0 counts as above it."""
    return np.sqrt(from_parts(z.real, z.imag + 0.0))


def rsqrt(z: Array) -> Array:
    """1 / sqrt(z); here -0 counts as below the cut."""
    return divide(np.ones_like(z), np.sqrt(z))


def atan2(y: Array, x: Array) -> Array:
    """-i log((x + i y) / sqrt(x^2 + y^2))."""
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))


def power(a: Array, b: Array) -> Array:
    """a^b as |a|^c exp(-d arg a) cis(c arg a + d log |a|) for b = c + i d; NaN where that angle is not a number.

    a^0 and 1^b are 1 whatever the other is; 0^c is 0 and inf^c is inf for real c > 0, inf^c is 0 for c < 0, and 0^b
    NaN for all other b.
    """
    c, d, argument = b.real, b.imag, np.arctan2(a.imag, a.real)
    size = np.abs(a)
    scale = np.power(size, c) * np.exp(-d * argument)
    angle = c * argument + d * np.log(size)
    result = from_parts(scale * np.cos(angle), scale * np.sin(angle))
    grows, falls = (d == 0) & (c > 0), (d == 0) & (c < 0)
    result = np.where(a == 0, np.where(grows, 0, complex(np.nan, np.nan)), result)
    is_infinite = (a.real == np.inf) & (a.imag == 0)
    result = np.where(is_infinite & grows, np.inf, np.where(is_infinite & falls, 0, result))
    result = np.where((b == 0) | (a == 1), 1, result)
    return np.asarray(result).astype(a.dtype)


def acos(z: Array) -> Array:
    """Inverse cosine."""
    return np.arccos(z)


def acosh(z: Array) -> Array:
    """Inverse hyperbolic cosine."""
    return np.arccosh(z)


def asin(z: Array) -> Array:
    """Inverse sine."""
    return np.arcsin(z)


def asinh(z: Array) -> Array:
    """Inverse hyperbolic sine."""
    return np.arcsinh(z)
