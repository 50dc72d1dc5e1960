"""Products."""

from __future__ import annotations

from typing import Any

from xjit.hlo import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.addition import constant_on_the_left, swapped
from xjit.passes.simplify.algebra.constants import (
    constant,
    folded,
    is_number,
    is_zero,
    like,
    power_of_two,
    splat,
    value_of,
)
from xjit.passes.simplify.algebra.kinds import (
    is_complex,
    is_discrete,
    is_float,
    is_inexact,
    is_integer,
    is_pred,
    is_real,
    is_real_or_pred,
    is_signed_or_float,
)
from xjit.passes.simplify.algebra.kinds import is_number as is_any_number
from xjit.passes.simplify.algebra.ranges import is_not_negative
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, Term, bound, filled, make


def is_shift(value: Any, kind: PrimitiveType) -> bool:
    """A power of two above one."""
    return bool(power_of_two(value, kind))


def shift_amount(name: str = "c") -> Term:
    """The exponent of a bound constant that is a power of two, as a constant of its shape."""

    def exponent(match: Match) -> int:
        found = power_of_two(value_of(match[name]), match[name].shape.element_type)
        assert found is not None
        return found

    return like(exponent, name)


_X, _Y = m.any("x"), m.any("y")
_ONE, _MINUS_ONE, _ZERO = constant("one", is_number(1)), constant("one", is_number(-1)), constant("zero", is_zero)
_C1, _C2 = constant("c1"), constant("c2")
_P = m.op("convert", m.any("p").where(is_pred))
_XLA, _REAL = Exactness.XLA, Exactness.REAL


def _both(opcode: str) -> tuple[m.Pattern, m.Pattern]:
    return m.op(opcode, _X), m.op(opcode, _Y)


_SCALED = (m.op("multiply", _X, _C1).one_use(), m.op("multiply", _Y, _C2).one_use())
_SCALED_PRODUCT = make("multiply", make("multiply", "x", "y"), folded("multiply", "c1", "c2"))


def _square(opcode: str, condition: m.Condition = is_real) -> tuple[m.Pattern, m.Pattern]:
    return m.op(opcode, _X.where(condition)), m.op(opcode, _X)


def _scaled_before(match: Match, into: Expansion) -> HloInstruction | None:
    """multiply(multiply(x, c), broadcast(y)): what is smaller takes the constant."""
    y, wide = match["y"], match["wide"]
    if y.opcode == "constant" or y.shape.num_elements >= wide.shape.num_elements:
        return None
    scaled = into.make("multiply", y, splat(into, value_of(match["c"]), y.shape))
    return into.make("multiply", match["x"], into.like_source("broadcast", [scaled], wide.attributes))


_SCALED_TWICE = m.op("multiply", m.op("multiply", _X, constant("c")).one_use(), m.op("broadcast", _Y, name="wide"))

MULTIPLICATION = (
    AlgebraRule("R21", "multiply(c, x) = multiply(x, c)", m.op("multiply").where(constant_on_the_left), swapped),
    AlgebraRule("R18", "multiply(x, 1) = x",
                m.op("multiply", _X, _ONE).where(is_real_or_pred), bound("x")),
    AlgebraRule("R18c", "multiply(x, 1) = x of complex numbers",
                m.op("multiply", _X, _ONE).where(is_complex), bound("x"), _XLA),
    AlgebraRule("R19", "multiply(x, 0) = 0", m.op("multiply", _X, _ZERO).where(is_discrete), bound("zero")),
    AlgebraRule("R19r", "multiply(x, 0) = 0 of floats", m.op("multiply", _X, _ZERO).where(is_float), filled(0), _REAL),
    AlgebraRule("R20", "multiply(x, -1) = negate(x)",
                m.op("multiply", _X, _MINUS_ONE).where(is_signed_or_float), make("negate", "x")),
    AlgebraRule("R22", "multiply(multiply(x, c1), c2) = multiply(x, c1 * c2)",
                m.op("multiply", m.op("multiply", _X, _C1), _C2).where(is_discrete),
                make("multiply", "x", folded("multiply", "c1", "c2"))),
    AlgebraRule("R22x", "multiply(multiply(x, c1), c2) = multiply(x, c1 * c2) of floats",
                m.op("multiply", m.op("multiply", _X, _C1), _C2).where(is_inexact),
                make("multiply", "x", folded("multiply", "c1", "c2")), _XLA),
    AlgebraRule("N36", "multiply(multiply(x, c1), multiply(y, c2)) = multiply(multiply(x, y), c1 * c2)",
                m.op("multiply", *_SCALED).where(is_integer), _SCALED_PRODUCT),
    AlgebraRule("N36x", "multiply(multiply(x, c1), multiply(y, c2)) = multiply(multiply(x, y), c1 * c2) of floats",
                m.op("multiply", *_SCALED).where(is_float), _SCALED_PRODUCT, _XLA),
    AlgebraRule("N67", "multiply(multiply(x, c), broadcast(y)) = multiply(x, broadcast(multiply(y, c)))",
                _SCALED_TWICE.where(is_integer), _scaled_before),
    AlgebraRule("N67x", "multiply(multiply(x, c), broadcast(y)) = multiply(x, broadcast(multiply(y, c))) of floats",
                _SCALED_TWICE.where(is_float), _scaled_before, _XLA),
    AlgebraRule("R47", "multiply(x, 2**k) = shift-left(x, k)",
                m.op("multiply", _X, constant("c", is_shift)).where(is_integer),
                make("shift-left", "x", shift_amount())),
    AlgebraRule("R23", "multiply(negate(x), negate(y)) = multiply(x, y)",
                m.op("multiply", *_both("negate")).where(is_any_number), make("multiply", "x", "y")),
    AlgebraRule("R24", "multiply(abs(x), abs(x)) = multiply(x, x)",
                m.op("multiply", *_square("abs")), make("multiply", "x", "x")),
    AlgebraRule("R25", "multiply(sqrt(x), sqrt(x)) = x for 0 <= x",
                m.op("multiply", *_square("sqrt", is_not_negative)).where(is_float), bound("x"), _XLA),
    AlgebraRule("R25r", "multiply(sqrt(x), sqrt(x)) = x",
                m.op("multiply", *_square("sqrt")).where(is_float), bound("x"), _REAL),
    AlgebraRule("R26", "multiply(exponential(x), exponential(y)) = exponential(x + y)",
                m.op("multiply", *_both("exponential")).where(is_inexact),
                make("exponential", make("add", "x", "y")), _XLA),
    AlgebraRule("R27", "multiply(rsqrt(x), rsqrt(x)) = divide(1, x) for 0 <= x",
                m.op("multiply", *_square("rsqrt", is_not_negative)).where(is_float), make("divide", filled(1), "x"),
                _XLA),
    AlgebraRule("R27r", "multiply(rsqrt(x), rsqrt(x)) = divide(1, x)",
                m.op("multiply", *_square("rsqrt")).where(is_float), make("divide", filled(1), "x"), _REAL),
    AlgebraRule("R28", "multiply(convert(p), x) = select(p, x, 0)",
                m.op("multiply", _P, _X).where(is_integer), make("select", "p", "x", filled(0))),
    AlgebraRule("R28r", "multiply(convert(p), x) = select(p, x, 0) of floats",
                m.op("multiply", _P, _X).where(is_float), make("select", "p", "x", filled(0)), _XLA),
)  # fmt: skip
