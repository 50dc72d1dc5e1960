"""erf."""

from __future__ import annotations

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.exponential import expm1_reduced, reduce_by_ln2
from xjit.llvm.math.vec import Vec, polynomial, power_of_two


def erf(x: Vec) -> Vec:
    """The error function. For doubles x + x P(x^2) up to 1, and 1 - erfc(|x|) beyond."""
    if not x.is_double:
        return _erf_f32(x)
    a = x.const(6.0).minimum(x.abs())
    square = a * a
    factor = polynomial(x.const(1.0).minimum(square), co.ERF_F64)
    return _with_itself(a, factor).where(a < 1.0, _large(a, square)).copysign(x)


def _erf_f32(x: Vec) -> Vec:
    """1 - (1 - z)^8 with 8 z = 8 - 8 erfc(|x|)^(1/8) = |x| + |x| P(|x|).

    1 - (1 - z)^2 is 2 z - z^2, so half of it follows from z where nothing cancels. Scaled by 8, 4, 2 no z is smaller
    than |x|, which would underflow.
    """
    a = x.const(3.95).minimum(x.abs())
    z = _with_itself(a, polynomial(a, co.ERFC_ROOT_F32))
    for divisor in (16.0, 8.0, 4.0):
        z = (z * (-1.0 / divisor)).fma(z, z)
    return z.copysign(x)


def _with_itself(a: Vec, factor: Vec) -> Vec:
    """a + a * factor, where the product alone might underflow."""
    return a.fma(factor, a) if a.has_fma else a * (factor + 1.0)


def _large(x: Vec, square: Vec) -> Vec:
    """1 - exp(-x^2) Q(t) with t = (x - 2) / (x + 2), from 1 to 6."""
    r, _, n = reduce_by_ln2(-square)
    exponential = (expm1_reduced(r) + 1.0) * power_of_two(n, x.type.elem)
    return 1.0 - exponential * polynomial((x - 2.0) / (x + 2.0), co.ERFCX_F64)
