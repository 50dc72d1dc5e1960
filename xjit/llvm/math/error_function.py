"""erf."""

from __future__ import annotations

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.exponential import expm1_reduced, reduce_by_ln2
from xjit.llvm.math.vec import Vec, polynomial, power_of_two, round_to_power_of_two


def erf(x: Vec) -> Vec:
    """The error function: x + x P(x^2) up to 1, and 1 - erfc(|x|) beyond."""
    coefficients, limit = (co.ERF_F64, 6.0) if x.is_double else (co.ERF_F32, 4.0)
    a = x.const(limit).minimum(x.abs())
    square = a * a
    factor = polynomial(x.const(1.0).minimum(square), coefficients)
    small = a.fma(factor, a) if x.has_fma else a * (factor + 1.0)  # a product alone might underflow
    large = _large_f64(a, square) if x.is_double else _large_f32(a)
    return small.where(a < 1.0, large).copysign(x)


def _large_f32(x: Vec) -> Vec:
    """1 - 2^P(x - 1) / 8 from 1 to 4. Near 1, where erfc counts most, P is small, and so is its rounding error."""
    exponent = polynomial(x - 1.0, co.ERFC_LOG2_F32)
    n, eighth = round_to_power_of_two(exponent, bias=-3)
    r = exponent - n
    power = r.fma(polynomial(r, co.EXP2_F32), x.const(1.0))
    return power.fma(-eighth, x.const(1.0))


def _large_f64(x: Vec, square: Vec) -> Vec:
    """1 - exp(-x^2) Q(t) with t = (x - 2) / (x + 2), from 1 to 6."""
    r, _, n = reduce_by_ln2(-square)
    exponential = (expm1_reduced(r) + 1.0) * power_of_two(n, x.type.elem)
    return 1.0 - exponential * polynomial((x - 2.0) / (x + 2.0), co.ERFCX_F64)
