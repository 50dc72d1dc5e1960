"""Comparisons."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CompareAttributes
from xjit.ops.reducers import integer_limits
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Condition, Match
from xjit.passes.simplify.algebra.addition import constant_on_the_left
from xjit.passes.simplify.algebra.constants import constant, folded, is_number, is_zero, value_of
from xjit.passes.simplify.algebra.kinds import is_complex, is_discrete, is_float, is_integer, is_pred
from xjit.passes.simplify.algebra.ranges import is_not_negative, value_range
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, filled, term

_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_OPPOSITE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_OF_EQUALS = {"EQ": True, "LE": True, "GE": True, "NE": False, "LT": False, "GT": False}


def direction(compare: HloInstruction) -> str:
    """EQ, NE, GE, GT, LE or LT."""
    return compare.attributes_as(CompareAttributes).direction


def _is_total(compare: HloInstruction) -> bool:
    """Whether of two operands that are not equal, one is less."""
    return is_discrete(compare.operand(0)) or compare.attributes_as(CompareAttributes).type == "TOTALORDER"


def _with_direction(into: Expansion, compare: HloInstruction, new: str, *operands: HloInstruction) -> HloInstruction:
    attributes = CompareAttributes(new, compare.attributes_as(CompareAttributes).type)
    return into.make("compare", *operands, attributes=attributes)


def _of_equals(match: Match, into: Expansion) -> HloInstruction | None:
    found = direction(match.root)
    if not (_is_total(match.root) or found in ("LT", "GT")):
        return None
    return filled(_OF_EQUALS[found])(match, into)


def _mirror(match: Match, into: Expansion) -> HloInstruction:
    return _with_direction(into, match.root, _MIRRORED[direction(match.root)], *match.root.operands[::-1])


def _invert(match: Match, into: Expansion) -> HloInstruction | None:
    compare = match["compare"]
    if not (_is_total(compare) or direction(compare) in ("EQ", "NE")):
        return None
    return _with_direction(into, compare, _OPPOSITE[direction(compare)], *compare.operands)


def _decided(match: Match, into: Expansion) -> HloInstruction | None:
    """What the bounds of both operands say."""
    x, y = (value_range(o) for o in match.root.operands)
    if x is None or y is None:
        return None
    less, more = x[1] < y[0], x[0] > y[1]
    not_more, not_less = x[1] <= y[0], x[0] >= y[1]
    proven = {"LT": less, "GT": more, "LE": not_more, "GE": not_less, "NE": less or more, "EQ": False}
    found = direction(match.root)
    if proven[found]:
        return filled(True)(match, into)
    return filled(False)(match, into) if proven[_OPPOSITE[found]] else None


def _shifted(match: Match, into: Expansion) -> HloInstruction | None:
    """compare(x + c1, c2): equality survives wrapping, order only where nothing overflows."""
    if direction(match.root) not in ("EQ", "NE"):
        bounds, kind = value_range(match["x"]), match["x"].shape.element_type
        low, high = integer_limits(kind)
        c1, c2 = int(value_of(match["c1"])), int(value_of(match["c2"]))
        if bounds is None or bounds[0] + c1 < low or bounds[1] + c1 > high or not low <= c2 - c1 <= high:
            return None
    right = term(folded("subtract", "c2", "c1"), match, into)
    return _with_direction(into, match.root, direction(match.root), match["x"], right)


def _negated_if(wrong: str, match: Match, into: Expansion) -> HloInstruction:
    p = match["p"]
    return into.make("not", p) if direction(match.root) == wrong else p


def _chooses_nothing(negation: HloInstruction) -> bool:
    """Whether no select takes an instruction as its predicate: such a select swaps its operands instead."""
    return not any(user.opcode == "select" and user.operand(0) is negation for user in negation.users)


def _is_equality(compare: HloInstruction) -> bool:
    return direction(compare) in ("EQ", "NE")


def _is_partial(wanted: str) -> Condition:
    """The condition that floats are compared in that direction, not in their total order."""

    def holds(compare: HloInstruction) -> bool:
        a = compare.attributes_as(CompareAttributes)
        return a.direction == wanted and a.type != "TOTALORDER" and is_float(compare.operand(0))

    return holds


_P = m.any("p").where(is_pred)
_ZERO, _ONE = constant("c", is_zero), constant("c", is_number(1))
_PLUS_ZERO = constant("c", is_number(0))
_FROM_PRED = m.op("convert", _P).where(lambda i: not is_complex(i))

COMPARISONS = (
    AlgebraRule("R88", "compare(c, x) = mirrored compare(x, c)", m.op("compare").where(constant_on_the_left), _mirror),
    AlgebraRule("R85", "compare(x, x) = what equals give", m.op("compare", m.any("x"), m.any("x")), _of_equals),
    AlgebraRule("R86,R89", "compare(x, y) = what the bounds of x and y say",
                m.op("compare").where(lambda i: is_discrete(i.operand(0))), _decided),
    AlgebraRule("N69", "compare(x, 0, LT) = false for 0 <= x",
                m.op("compare", m.any("x").where(is_not_negative), _PLUS_ZERO).where(_is_partial("LT")),
                filled(0)),
    AlgebraRule("N69x", "compare(x, 0, GE) = true for 0 <= x but for a NaN",
                m.op("compare", m.any("x").where(is_not_negative), _PLUS_ZERO).where(_is_partial("GE")),
                filled(1), Exactness.XLA),
    AlgebraRule("R87", "compare(convert(p), 0, NE) = p",
                m.op("compare", _FROM_PRED, _ZERO).where(_is_equality),
                lambda match, into: _negated_if("EQ", match, into)),
    AlgebraRule("R87b", "compare(convert(p), 1, EQ) = p",
                m.op("compare", _FROM_PRED, _ONE).where(_is_equality),
                lambda match, into: _negated_if("NE", match, into)),
    AlgebraRule("R87c", "compare(p, false, NE) = p", m.op("compare", _P, _ZERO).where(_is_equality),
                lambda match, into: _negated_if("EQ", match, into)),
    AlgebraRule("R87d", "compare(p, true, EQ) = p", m.op("compare", _P, _ONE).where(_is_equality),
                lambda match, into: _negated_if("NE", match, into)),
    AlgebraRule("R90", "compare(x + c1, c2) = compare(x, c2 - c1)",
                m.op("compare", m.op("add", m.any("x"), constant("c1")), constant("c2"))
                .where(lambda i: is_integer(i.operand(0))), _shifted),
    AlgebraRule("R91", "not(compare(x, y)) = opposite compare(x, y)",
                m.op("not", m.op("compare", name="compare").one_use()).where(_chooses_nothing), _invert),
)  # fmt: skip
