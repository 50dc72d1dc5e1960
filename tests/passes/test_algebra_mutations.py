"""Planted wrong rules: each one differs from a right rule by what somebody may forget, and the proof finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.algebra_instances import INSTANCES as EXPRESSIONS
from tests.support.algebra_proof import prove
from tests.support.algebra_structures import STRUCTURES
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import HloVerifyError
from xjit.passes.framework import match as m
from xjit.passes.simplify.algebra.constants import constant, folded, is_finite, is_number, is_zero
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound, converted, filled, make
from xjit.passes.simplify.algebra.table import ALGEBRA

RULES = {rule.id: rule for rule in ALGEBRA}
X, Y, Z, P = m.any("x"), m.any("y"), m.any("z"), m.any("p")
C, C1, C2 = constant("c"), constant("c1"), constant("c2")


def _anywhere(rule_id: str) -> AlgebraRule:
    """The rule without the conditions on its root: types, above all."""
    rule = RULES[rule_id]
    return replace(rule, pattern=replace(rule.pattern, conditions=()))


def _claimed(rule_id: str) -> AlgebraRule:
    """A rule that changes values, said to be exact."""
    return replace(RULES[rule_id], exactness=Exactness.EXACT)


def _rewritten(rule_id: str, rewrite: Callable[..., object], pattern: m.Pattern | None = None) -> AlgebraRule:
    rule = RULES[rule_id]
    return replace(rule, rewrite=rewrite, pattern=pattern or rule.pattern)


def _dimensions(opcode: str, permuted: Callable[[m.Match], tuple[int, ...]]) -> Callable[..., object]:
    return lambda match, into: into.like_source(opcode, [match["x"]], at.DimensionsAttributes(permuted(match)))


def _shifted_ranges(match: m.Match, into: object) -> object:
    ranges = match.root.attributes_as(at.SliceAttributes).slice
    return into.make("slice", match["x"], attributes=at.SliceAttributes(ranges))  # type: ignore[attr-defined]


WRONG = {
    "x + 0 of floats": _anywhere("R1"),
    "x + +0.0 said to be exact": _claimed("R1x"),
    "x - x of floats": _anywhere("R5"),
    "(x + c1) + c2 of floats": _anywhere("R6"),
    "(x + c1) + c2 with the difference": _rewritten("R6", make("add", "x", folded("subtract", "c1", "c2"))),
    "x + -y as y - x": _rewritten("R7,R9", make("subtract", "y", "x")),
    "-(x - y) of floats": _anywhere("R11"),
    "(x + y) - y of floats": _anywhere("R14"),
    "x - c as x + c": _rewritten("R4", make("add", "x", "c")),
    "0 * x of floats": _anywhere("R19"),
    "x * -1 of unsigned as x": _rewritten("R20", bound("x")),
    "abs(x) * abs(x) as x": _rewritten("R24", bound("x")),
    "x * 2**k shifted by c": _rewritten("R47", make("shift-left", "x", "c")),
    "p * x of floats": _anywhere("R28"),
    "x / -1 of floats as x": _rewritten("R31", bound("x")),
    "x / c as x * (1/c) said to be exact": _claimed("R33"),
    "x / 2**k shifted, signed": replace(RULES["R41"], pattern=replace(
        RULES["R41"].pattern, conditions=(lambda i: i.shape.element_type.is_integer,))),
    "x / x as 1 said to be exact": _claimed("R34"),
    "x % 2**k masked, signed": replace(RULES["R43"], pattern=replace(
        RULES["R43"].pattern, conditions=(lambda i: i.shape.element_type.is_signed,))),
    "x ** 0.5 of any x": replace(RULES["R53r"], exactness=Exactness.ACCURATE),
    "x ** 0 as x": _rewritten("R48", bound("x")),
    "maximum with any constant": _rewritten("R72", bound("c"), m.op("maximum", X, C)),
    "maximum(maximum(x, y), z)": _rewritten(
        "R70", bound("inner"), m.op("maximum", m.op("maximum", X, Y, name="inner"), Z)),
    "maximum(minimum(x, high), low) without order": _rewritten("R74", make("clamp", "low", "x", "high")),
    "abs(x) as x after sqrt": _rewritten("R65", bound("x"), m.op("abs", m.op("sqrt", name="x"))),
    "abs(x) as x of integers": _rewritten("R65", bound("x"), m.op("abs", X)),
    "is-finite of any conversion": _rewritten("R77", filled(1), m.op("is-finite", m.op("convert", X))),
    "convert through anything": _rewritten("R79,R80", converted("x"), m.op("convert", m.op("convert", X))),
    "compare(x, x, EQ) of floats": _rewritten("R85", filled(1), m.op("compare", X, X).where(
        lambda i: i.attributes_as(at.CompareAttributes).direction == "EQ")),
    "compare(c, x) not mirrored": _rewritten("R88", lambda match, into: into.make(
        "compare", *match.root.operands[::-1], attributes=match.root.attributes)),
    "not(compare(x, y, LT)) of floats": _rewritten("R91", lambda match, into: into.make(
        "compare", *match["compare"].operands, attributes=at.CompareAttributes("GE")),
        m.op("not", m.op("compare", name="compare").where(
            lambda i: i.attributes_as(at.CompareAttributes).direction == "LT"))),
    "select(not(p), x, y) unswapped": _rewritten("R94", make("select", "p", "a", "b")),
    "select of equals of floats": _claimed("R97r"),
    "select(p, 1, 0) of any constants": _rewritten("R95c", converted("p"), m.op("select", P, C1, C2)),
    "or(x, ones) as x": _rewritten("R99d", bound("x")),
    "and(x, c) as x": _rewritten("R99a", bound("x"), m.op("and", X, C)),
    "shift by any constant as 0": _rewritten("R100b", filled(0), m.op("shift-left", X, C)),
    "arithmetic shift of all bits as 0": _rewritten("R100c", filled(0)),
    "transpose of transpose the wrong way": _rewritten("R109", _dimensions(
        "transpose", lambda match: tuple(dimensions_of(match.root)[d] for d in dimensions_of(match["inner"])))),
    "transpose(broadcast) with old dimensions": _rewritten("R110,R113", _dimensions(
        "broadcast", lambda match: dimensions_of(match["broadcast"]))),
    "slice(slice) without the first": _rewritten("R119", _shifted_ranges),
    "concatenate(x, y) as x": _rewritten("R137", bound("x"), m.op("concatenate", X, m.any()).where(
        lambda i: i.operand(0).shape.same_dimensions(i.shape) or True)),
    "reverse as x": _rewritten("R115", bound("x"), m.op("reverse", X)),
    "update of anything as the old array": _rewritten("R129", lambda match, into: match.root.operand(0),
                                                      m.op("dynamic-update-slice")),
    "reduce over size 1 without init": _rewritten("R143,R145", lambda match, into: into.like_source(
        "reshape", [match["x"]])),
    "reduce(pad) with any value": _rewritten("R150", lambda match, into: into.make(
        "reduce", match["moved"].operand(0), match["init"], attributes=match.root.attributes,
        called=[match.root.to_apply])),
    "sum of copies as one of them": _rewritten("R148b", bound("x"), RULES["R148b"].pattern.where(
        lambda i: i.operand(0).operand(0).shape.same_dimensions(i.shape))),
    "sort of anything as x": _rewritten("R165", lambda match, into: match.root.operand(0), m.op("sort", X)),
    "constant told by its first element": _rewritten("R117", lambda match, into: into.full(
        match.root.shape, float(match.root.literal.array.flat[0])),
        RULES["R117"].pattern.where(lambda i: is_finite(i.literal.array.flat[0], i.shape.element_type))),
    "x * c as 0 for small c": _rewritten("R19r", filled(0), m.op("multiply", X, constant(
        "zero", lambda v, k: is_zero(v, k) or is_number(1)(v, k)))),
    "(a b) c as a (b c) said to be exact": _claimed("N8"),
    "sum of a product said to be exact": _claimed("N12"),
    "product of a padded array said to be exact": _claimed("N11"),
    "part of a product as all of it": _rewritten("N9", lambda match, into: into.like_source(
        "dot", match["dot"].operands, match["dot"].attributes)),
    "product of a reversed array not reversed": _rewritten("N10b", lambda match, into: into.like_source(
        "dot", [match.root.operand(0), match["reverse"].operand(0)], match.root.attributes)),
    "any move as a bitcast": _rewritten("R116c", lambda match, into: into.like_source(
        "bitcast", [match.root.operand(0)]), m.op("transpose|reshape|copy")),
    "bitcast(broadcast) with old dimensions": _rewritten("R116d", lambda match, into: into.like_source(
        "broadcast", [match["x"]], match["broadcast"].attributes)),
    "any custom call as a copy": _rewritten("N7", lambda match, into: into.like_source(
        "copy", [into.make("negate", match.root.operand(0))])),
    "numbers without their step": _rewritten("R127", lambda match, into: into.like_source("reshape", [into.make(
        "convert", into.make("clamp", into.full(match.root.operand(1).shape, 0), match.root.operand(1),
                             into.full(match.root.operand(1).shape, 3)),
        shape=match.root.shape.with_dimensions(()))])),
    "dynamic-slice(reshape) with unmoved starts": _rewritten("N13", lambda match, into: into.like_source(
        "reshape", [into.make("dynamic-slice", match.root.operand(0).operand(0), *match.root.operands[1:],
                              attributes=match.root.attributes)])),
    "gather of what was padded": _rewritten("N14", lambda match, into: into.like_source(
        "gather", [match["pad"].operand(0), match["indices"]], match.root.attributes)),
    "windows over nothing as zeros": _rewritten("R151c", lambda match, into: into.tuple_of(
        *(into.full(shape, 0) for shape in match.root.shape.tuple_shapes))),
    "one window as all that is there": _rewritten("N15", lambda match, into: into.like_source("reshape", [into.make(
        "slice", match["window"].operand(0), attributes=match.root.attributes)])),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str) -> None:
    rule = WRONG[name]
    with pytest.raises((AssertionError, HloVerifyError)):
        prove(rule, {**EXPRESSIONS, **STRUCTURES}[rule.id])


def test_a_rule_that_never_applies_is_found() -> None:
    with pytest.raises(AssertionError, match="applies to none"):
        prove(RULES["R1"], ["multiply(x, c)"])
