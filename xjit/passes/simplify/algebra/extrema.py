"""Maximum, minimum and clamp."""

from __future__ import annotations

from typing import Any

from xjit.hlo import HloInstruction
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import constant, is_greatest, is_least, value_of
from xjit.passes.simplify.algebra.kinds import is_complex, is_discrete, is_float, is_wide_float
from xjit.passes.simplify.algebra.ranges import value_range
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound


def _ordered(low: Any, high: Any) -> bool:
    """Whether two constants are in order; -0.0 lies below +0.0, and a NaN nowhere."""
    return bool(low < high) or (low == high and str(low) == str(high)) or (low == high and str(low).startswith("-"))


def _clamp(match: Match, into: Expansion) -> HloInstruction | None:
    low, high = value_of(match["low"]), value_of(match["high"])
    return into.make("clamp", match["low"], match["x"], match["high"]) if _ordered(low, high) else None


def _merged_clamp(match: Match, into: Expansion) -> HloInstruction | None:
    """clamp(a, clamp(b, x, c), d): the intersection of both intervals, if there is one; complex numbers have none."""
    if match.root.shape.element_type.is_complex:
        return None
    lows, highs = [match["low"], match["inner low"]], [match["high"], match["inner high"]]
    a, b, c, d = (value_of(i) for i in (*lows, *highs))
    if not (_ordered(a, c) and _ordered(b, d) and _ordered(a, d) and _ordered(b, c)):
        return None
    low = lows[1] if _ordered(a, b) else lows[0]
    high = highs[0] if _ordered(c, d) else highs[1]
    return into.make("clamp", low, match["x"], high)


def _is_inside(match: Match, _into: Expansion) -> HloInstruction | None:
    low, x, high = (value_range(match[name]) for name in ("low", "x", "high"))
    inside = low is not None and x is not None and high is not None and low[1] <= x[0] and x[1] <= high[0]
    return match["x"] if inside else None


def _clamped_before(match: Match, _into: Expansion) -> HloInstruction | None:
    return match["inner"] if _ordered(value_of(match["low"]), value_of(match["high"])) else None


def _already_in(match: Match, _into: Expansion) -> HloInstruction | None:
    return match["inner"] if match["y"] in match["inner"].operands else None


_X, _Y = m.any("x"), m.any("y")
_LEAST, _GREATEST = constant("limit", is_least), constant("limit", is_greatest)
_LOW, _HIGH = constant("low"), constant("high")
_NAN = "minmax_propagate_nan"

_GROWING = ("cbrt", "exponential", "exponential-minus-one", "logistic", "tanh", "erf")
"""Functions that never fall, of all floats."""


def _sunk(match: Match, into: Expansion) -> HloInstruction | None:
    """maximum(f(x), f(y)) = f(maximum(x, y)) for a function that never falls."""
    left, right = match["left"], match["right"]
    if left.opcode != right.opcode or left.attributes != right.attributes or not is_wide_float(left):
        return None
    inside = into.make(match.root.opcode, left.operand(0), right.operand(0))
    return into.make(left.opcode, inside, attributes=left.attributes)


_GROWS = m.op("|".join(_GROWING)).one_use()

_CLAMPED = m.op("clamp", m.any("low"), _X, m.any("high"), name="inner")
_IN_ORDER = _CLAMPED.where(lambda i: not is_complex(i))

EXTREMA = (
    AlgebraRule("N4", "maximum(f(x), f(y)) = f(maximum(x, y)) for a function that never falls",
                m.op("maximum|minimum", _GROWS.named("left"), _GROWS.named("right")), _sunk, Exactness.ACCURATE, _NAN),
    AlgebraRule("R69", "maximum(x, x) = x, minimum(x, x) = x", m.op("maximum|minimum", _X, _X), bound("x")),
    AlgebraRule("R70", "maximum(maximum(x, y), y) = maximum(x, y)",
                m.op("maximum", m.op("maximum", name="inner"), _Y), _already_in),
    AlgebraRule("R70b", "minimum(minimum(x, y), y) = minimum(x, y)",
                m.op("minimum", m.op("minimum", name="inner"), _Y), _already_in),
    AlgebraRule("R71,R73", "maximum(x, least) = x", m.op("maximum", _X, _LEAST).where(is_discrete), bound("x")),
    AlgebraRule("R71b", "minimum(x, greatest) = x", m.op("minimum", _X, _GREATEST).where(is_discrete), bound("x")),
    AlgebraRule("R71f", "maximum(x, -inf) = x", m.op("maximum", _X, _LEAST).where(is_float), bound("x"), option=_NAN),
    AlgebraRule("R71g", "minimum(x, inf) = x", m.op("minimum", _X, _GREATEST).where(is_float), bound("x"), option=_NAN),
    AlgebraRule("R72", "maximum(x, greatest) = greatest",
                m.op("maximum", _X, _GREATEST).where(is_discrete), bound("limit")),
    AlgebraRule("R72b,R73b", "minimum(x, least) = least",
                m.op("minimum", _X, _LEAST).where(is_discrete), bound("limit")),
    AlgebraRule("R74", "maximum(minimum(x, high), low) = clamp(low, x, high)",
                m.op("maximum", m.op("minimum", _X, _HIGH).one_use(), _LOW), _clamp, option=_NAN),
    AlgebraRule("R74b", "minimum(maximum(x, low), high) = clamp(low, x, high)",
                m.op("minimum", m.op("maximum", _X, _LOW).one_use(), _HIGH), _clamp, option=_NAN),
    AlgebraRule("R75", "clamp(a, clamp(b, x, c), d) = clamp(max(a, b), x, min(c, d))",
                m.op("clamp", _LOW, m.op("clamp", constant("inner low"), _X, constant("inner high")), _HIGH),
                _merged_clamp),
    AlgebraRule("N37", "clamp(low, clamp(low, x, high), high) = clamp(low, x, high)",
                m.op("clamp", m.any("low"), _IN_ORDER, m.any("high")), bound("inner")),
    AlgebraRule("N82", "maximum(clamp(low, x, high), low) = clamp(low, x, high) of constants in order",
                m.op("maximum", m.op("clamp", _LOW, _X, _HIGH, name="inner"), m.any("low")), _clamped_before),
    AlgebraRule("R76", "clamp(low, x, high) = x for low <= x <= high",
                m.op("clamp", m.any("low"), _X, m.any("high")), _is_inside),
)  # fmt: skip
