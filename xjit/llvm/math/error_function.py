"""erf."""

from __future__ import annotations

from xjit.llvm.math import coefficients as co
from xjit.llvm.math.exponential import expm1_reduced, reduce_by_ln2
from xjit.llvm.math.vec import Vec, floats_as_doubles_without_fma, polynomial, power_of_two

ERFC_CENTER = 1.046875


@floats_as_doubles_without_fma
def erf(x: Vec) -> Vec:
    """The error function: x + x P(x^2) up to 1, and 1 - erfc(|x|) beyond."""
    coefficients, limit = (co.ERF_F64, 6.0) if x.is_double else (co.ERF_F32, 4.0)
    a = x.const(limit).minimum(x.abs())
    square = a * a
    factor = polynomial(square, coefficients)
    small = a.fma(factor, a) if x.has_fma else a * (factor + 1.0)  # a product alone might underflow
    large = _large_f64(a, square) if x.is_double else _large_f32(a)
    return small.where(a < 1.0, large).copysign(x)


def _large_f32(x: Vec) -> Vec:
    """1 - (c + t P(t))^4 with t = x - ERFC_CENTER, from 1 to 4. Near 1, where erfc counts most, t is small, and so is
    the rounding error of its product.
    """
    root, *others = co.ERFC_ROOT_F32
    t = x - ERFC_CENTER
    change = t * polynomial(t, others)
    square = change.fma(change + 2.0 * root, x.const(root * root))
    return (-square).fma(square, x.const(1.0))


def _large_f64(x: Vec, square: Vec) -> Vec:
    """1 - exp(-x^2) Q(t) with t = (x - 2) / (x + 2), from 1 to 6."""
    r, _, n = reduce_by_ln2(-square)
    exponential = (expm1_reduced(r) + 1.0) * power_of_two(n, x.type.elem)
    return 1.0 - exponential * polynomial((x - 2.0) / (x + 2.0), co.ERFCX_F64)
