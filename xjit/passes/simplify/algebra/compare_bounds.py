"""Comparisons with constants: of selected constants, of two of one value, of extrema, of numbers without a sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CompareAttributes
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import constant, is_zero, value_of
from xjit.passes.simplify.algebra.kinds import is_discrete, is_integer
from xjit.passes.simplify.algebra.ranges import value_range
from xjit.passes.simplify.algebra.rule import AlgebraRule, filled

_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQ": lambda x, y: x == y, "NE": lambda x, y: x != y, "LT": lambda x, y: x < y, "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y, "GE": lambda x, y: x >= y,
}  # fmt: skip

_WITHOUT_ORDER = {"LE": "EQ", "GT": "NE"}
_Interval = tuple[float, float]


def _direction(compare: HloInstruction) -> str:
    return compare.attributes_as(CompareAttributes).direction


def _compare(into: Expansion, direction: str, *operands: HloInstruction) -> HloInstruction:
    return into.make("compare", *operands, attributes=CompareAttributes(direction))


def _with_zero(match: Match, into: Expansion) -> HloInstruction | None:
    """What is never below zero is compared with zero by equality."""
    bounds, direction = value_range(match["x"]), _direction(match.root)
    if direction not in _WITHOUT_ORDER or bounds is None or bounds[0] < 0:
        return None
    return _compare(into, _WITHOUT_ORDER[direction], *match.root.operands)


def _of_select(match: Match, into: Expansion) -> HloInstruction | None:
    """compare(select(p, a, b), c) of constants: p, not p, or one value."""
    holds, p = _HOLDS[_direction(match.root)], match["p"]
    if p.shape.dimensions != match.root.shape.dimensions:
        return None
    a, b, c = (int(value_of(match[name])) for name in "abc")
    if holds(a, c) == holds(b, c):
        return filled(holds(a, c))(match, into)
    return p if holds(a, c) else into.make("not", p)


def _interval(compare: HloInstruction) -> _Interval | None:
    """Which integers a comparison with a constant admits, inclusive; None for all but one."""
    c = int(value_of(compare.operand(1)))
    return {
        "EQ": (c, c), "LT": (-math.inf, c - 1), "LE": (-math.inf, c), "GT": (c + 1, math.inf), "GE": (c, math.inf),
    }.get(_direction(compare))  # fmt: skip


def _is_within(a: _Interval, b: _Interval) -> bool:
    return b[0] <= a[0] and a[1] <= b[1]


def _both(match: Match, into: Expansion) -> HloInstruction | None:
    """Two comparisons of one value, both or one of which must hold: the stronger, the weaker, never or always."""
    first, second = match["first"], match["second"]
    a, b = _interval(first), _interval(second)
    if a is None or b is None:
        return None
    conjunction = match.root.opcode == "and"
    if _is_within(a, b):
        return first if conjunction else second
    if _is_within(b, a):
        return second if conjunction else first
    if conjunction and max(a[0], b[0]) > min(a[1], b[1]):
        return filled(False)(match, into)
    low, high = sorted((a, b))
    covers = low[0] == -math.inf and high[1] == math.inf and high[0] <= low[1] + 1
    return filled(True)(match, into) if covers and not conjunction else None


def _without_extremum(strict: str) -> Callable[[Match, Expansion], HloInstruction | None]:
    """maximum(x, y) > x is y > x, where neither holds for a NaN; `strict` is the direction in which the extremum stands
    on the left.
    """

    def rewrite(match: Match, into: Expansion) -> HloInstruction | None:
        left = match.root.operand(0) is match["extremum"]
        direction = _direction(match.root)
        if direction != (strict if left else {"GT": "LT", "LT": "GT"}[strict]):
            return None
        return _compare(into, strict, match["y"], match["x"])

    return rewrite


def _extremum(opcode: str) -> m.Pattern:
    return m.op(opcode, m.any("x"), m.any("y"), name="extremum")


_CHOICE = m.op("select", m.any("p"), constant("a"), constant("b")).where(is_discrete)


def _bound(name: str) -> m.Pattern:
    return m.op("compare", m.any("x").where(is_integer), constant(f"c_{name}"), name=name)


COMPARE_BOUNDS = (
    AlgebraRule("N19", "compare(x, 0, GT) = compare(x, 0, NE) for 0 <= x",
                m.op("compare", m.any("x").where(is_integer), constant("c", is_zero)), _with_zero),
    AlgebraRule("N20", "compare(select(p, a, b), c) = p of constants", m.op("compare", _CHOICE, constant("c")),
                _of_select),
    AlgebraRule("N21", "and(compare(x, c1), compare(x, c2)) = the stronger, or(..) = the weaker of the two",
                m.op("and|or", _bound("first"), _bound("second")), _both),
    AlgebraRule("N22", "compare(maximum(x, y), x, GT) = compare(y, x, GT)",
                m.op("compare", _extremum("maximum"), m.any("x")),
                _without_extremum("GT")),
    AlgebraRule("N22b", "compare(x, maximum(x, y), LT) = compare(y, x, GT)",
                m.op("compare", m.any("x"), _extremum("maximum")),
                _without_extremum("GT")),
    AlgebraRule("N22c", "compare(minimum(x, y), x, LT) = compare(y, x, LT)",
                m.op("compare", _extremum("minimum"), m.any("x")),
                _without_extremum("LT")),
    AlgebraRule("N22d", "compare(x, minimum(x, y), GT) = compare(y, x, LT)",
                m.op("compare", m.any("x"), _extremum("minimum")),
                _without_extremum("LT")),
)  # fmt: skip
