"""erf."""

from __future__ import annotations

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.exponential import expm1_reduced, reduce_by_ln2
from xjit.llvm.math.vec import Vec, polynomial, power_of_two


def erf(x: Vec) -> Vec:
    """The error function: x + x P(x^2) up to 1; beyond, 1 - exp(-x^2) Q(t) with t = (x - 2) / (x + 2)."""
    small_poly, large_poly, limit = (co.ERF_F64, co.ERFCX_F64, 6.0) if x.is_double else (co.ERF_F32, co.ERFCX_F32, 4.0)
    a = x.const(limit).minimum(x.abs())
    square = a * a
    factor = polynomial(x.const(1.0).minimum(square), small_poly)
    small = a.fma(factor, a) if x.has_fma else a * (factor + 1.0)  # a product alone might underflow
    r, _, n = reduce_by_ln2(-square)
    exponential = (expm1_reduced(r) + 1.0) * power_of_two(n, x.type.elem)
    t = (a - 2.0) / (a + 2.0)
    large = 1.0 - exponential * polynomial(t, large_poly)
    return small.where(a < 1.0, large).copysign(x)
