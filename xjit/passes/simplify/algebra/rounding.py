"""Absolute values, signs, and rounding to whole numbers."""

from __future__ import annotations

import numpy as np

from xjit.hlo import HloInstruction
from xjit.ops.reducers import integer_limits
from xjit.passes.framework import match as m
from xjit.passes.simplify.algebra.constants import is_finite
from xjit.passes.simplify.algebra.kinds import is_discrete, is_float, is_pred, is_real
from xjit.passes.simplify.algebra.ranges import is_not_below_zero, is_not_negative
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound, filled, make

_X = m.any("x")
_WHOLE = "floor|ceil|round-nearest-afz|round-nearest-even"


def _stays_finite(convert: HloInstruction) -> bool:
    """Whether a conversion from integers to floats gives no infinity."""
    kind = convert.shape.element_type
    if is_pred(convert.operand(0)):
        return True
    with np.errstate(all="ignore"):
        ends = np.array(integer_limits(convert.operand(0).shape.element_type), np.float64).astype(kind.dtype)
    return all(is_finite(end, kind) for end in ends)


ROUNDING = (
    AlgebraRule("R65", "abs(x) = x for 0 <= x", m.op("abs", _X.where(is_not_negative)), bound("x")),
    AlgebraRule("R65x", "abs(x) = x for 0 <= x of floats, but for -0.0 and rounding",
                m.op("abs", _X.where(is_not_below_zero)).where(is_float), bound("x"), Exactness.XLA),
    AlgebraRule("R66", "abs(negate(x)) = abs(x)", m.op("abs", m.op("negate", _X)), make("abs", "x")),
    AlgebraRule("R67", "floor(convert(integer)) = convert(integer)",
                m.op(_WHOLE, m.op("convert", _X.where(is_discrete), name="whole")), bound("whole")),
    AlgebraRule("R67b", "floor(floor(x)) = floor(x)", m.op(_WHOLE, m.op(_WHOLE, name="whole")), bound("whole")),
    AlgebraRule("R68", "sign(sign(x)) = sign(x)",
                m.op("sign", m.op("sign", name="sign")).where(is_real), bound("sign")),
    AlgebraRule("R77", "is-finite(convert(integer)) = true",
                m.op("is-finite", m.op("convert", _X.where(is_discrete)).where(_stays_finite)), filled(1)),
)  # fmt: skip
