"""Selects."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.comparisons import direction
from xjit.passes.simplify.algebra.constants import constant, is_number
from xjit.passes.simplify.algebra.kinds import is_discrete, is_float, is_integer, is_pred, is_real
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound, converted, make

_P, _A, _B = m.any("p"), m.any("a"), m.any("b")
_ONE, _ZERO = constant("one", is_number(1)), constant("zero", is_number(0))
_REAL = Exactness.REAL


def _is_as_large(select: HloInstruction) -> bool:
    """Whether the predicate has a value for each element."""
    return select.operand(0).shape.same_dimensions(select.shape)


def _of_order(match: Match, into: Expansion) -> HloInstruction | None:
    found = direction(match["compare"])
    if found in ("EQ", "NE"):
        return None
    return into.make("maximum" if found in ("GT", "GE") else "minimum", match["a"], match["b"])


def _of_equality(match: Match, _into: Expansion) -> HloInstruction | None:
    """Where a and b are equal it does not matter which is taken."""
    return {"EQ": match["b"], "NE": match["a"]}.get(direction(match["compare"]))


def _of_truths(match: Match, into: Expansion) -> HloInstruction | None:
    """Of booleans, the greater is a or b, the lesser a and b."""
    found = direction(match["compare"])
    if found in ("EQ", "NE"):
        return None
    return into.make("or" if found in ("GT", "GE") else "and", match["a"], match["b"])


_COMPARED = m.op("select", m.op("compare", _A, _B, name="compare"), _A, _B).where(_is_as_large)

SELECTION = (
    AlgebraRule("R92", "select(true, a, b) = a", m.op("select", constant("p", is_number(1)), _A, _B), bound("a")),
    AlgebraRule("R92b", "select(false, a, b) = b", m.op("select", constant("p", is_number(0)), _A, _B), bound("b")),
    AlgebraRule("R93", "select(p, a, a) = a", m.op("select", _P, _A, _A), bound("a")),
    AlgebraRule("R94", "select(not(p), a, b) = select(p, b, a)",
                m.op("select", m.op("not", _P), _A, _B), make("select", "p", "b", "a")),
    AlgebraRule("R95", "select(p, true, false) = p",
                m.op("select", _P, _ONE, _ZERO).where(lambda i: is_pred(i) and _is_as_large(i)), bound("p")),
    AlgebraRule("R95b", "select(p, false, true) = not(p)",
                m.op("select", _P, _ZERO, _ONE).where(lambda i: is_pred(i) and _is_as_large(i)), make("not", "p")),
    AlgebraRule("R95c", "select(p, 1, 0) = convert(p)",
                m.op("select", _P, _ONE, _ZERO).where(lambda i: is_real(i) and _is_as_large(i)), converted("p")),
    AlgebraRule("R96", "select(p, select(p, a, b), c) = select(p, a, c)",
                m.op("select", _P, m.op("select", m.any("p"), _A, m.any()), m.any("c")), make("select", "p", "a", "c")),
    AlgebraRule("R96b", "select(p, a, select(p, b, c)) = select(p, a, c)",
                m.op("select", _P, _A, m.op("select", m.any("p"), m.any(), m.any("c"))), make("select", "p", "a", "c")),
    AlgebraRule("R97", "select(compare(a, b, EQ), a, b) = b", _COMPARED.where(is_discrete), _of_equality),
    AlgebraRule("R97r", "select(compare(a, b, EQ), a, b) = b of floats",
                _COMPARED.where(is_float), _of_equality, _REAL),
    AlgebraRule("N30", "select(compare(a, b, GT), a, b) = or(a, b) of booleans", _COMPARED.where(is_pred), _of_truths),
    AlgebraRule("R98", "select(compare(a, b, GT), a, b) = maximum(a, b)", _COMPARED.where(is_integer), _of_order),
    AlgebraRule("R98r", "select(compare(a, b, GT), a, b) = maximum(a, b) of floats",
                _COMPARED.where(is_float), _of_order, _REAL),
)  # fmt: skip
