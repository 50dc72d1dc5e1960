"""What math functions are in truth: in f64 for types of at most 32 bits, in x86's long double for f64 and c128.

The functions of NumPy's long doubles, whose significand has 64 bits, are off by a thousandth of an f64 ULP or less; those of f64
by a millionth of an f32 ULP or less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

Array = np.ndarray[Any, Any]


def _logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), as exp(x) / (1 + exp(x)) where exp(-x) would be infinite."""
    small = np.exp(np.where(x.real < 0, x, -x))
    return np.where(x.real < 0, small, 1) / (1 + small)


def _erf(x: Array) -> Array:
    """The error function of long doubles: a series of positive terms up to 6.5, beyond which it rounds to one."""
    if x.dtype != np.longdouble:
        return scipy.special.erf(x)
    within = np.clip(x, -6.5, 6.5)
    square = within * within
    term = within * np.exp(-square) * 2 / np.sqrt(np.longdouble(np.pi) + np.longdouble(1.2246467991473531772e-16))
    total = np.zeros_like(term)
    for n in range(200):
        total = total + term
        term = term * (2 * square / (2 * n + 3))
    return np.where(np.abs(x) <= 6.5, total, np.sign(x))


def _log1p(x: Array) -> Array:
    """log(1 + x); NumPy's loses small complex numbers."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    near = np.log1p(x.real * (2 + x.real) + x.imag * x.imag) / 2
    real = np.where(np.abs(x) < 0.5, near, np.log(np.hypot(1 + x.real, x.imag)))
    return real + 1j * np.arctan2(x.imag, 1 + x.real)


TRUTH: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": _erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": _log1p,
    "logistic": _logistic,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Opcodes, and what they are in a wider type."""

REAL_ONLY = frozenset({"cbrt", "erf"})
