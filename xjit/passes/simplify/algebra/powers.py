"""Powers, exponentials, logarithms and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CompareAttributes
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import constant, is_number, is_zero
from xjit.passes.simplify.algebra.kinds import is_complex, is_float, is_inexact, is_integer, is_real
from xjit.passes.simplify.algebra.kinds import is_number as is_any_number
from xjit.passes.simplify.algebra.ranges import is_not_negative
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound, filled, make

_X, _Y, _Z = m.any("x"), m.any("y"), m.any("z")
_ONE = constant("one", is_number(1))
_ACCURATE, _XLA, _REAL = Exactness.ACCURATE, Exactness.XLA, Exactness.REAL


def _to(exponent: float) -> m.Pattern:
    return m.op("power", _X, constant("c", is_number(exponent)))


def _has_no_imaginary_sign(value: Any, kind: PrimitiveType) -> bool:
    """A zero whose exponential is 1: the imaginary part of a complex one keeps its sign."""
    return is_zero(value, kind) and not (kind.is_complex and np.signbit(value.imag))


def _log_of_power(match: Match, into: Expansion) -> HloInstruction:
    zero = into.full(match.root.shape, 0)
    base = match["x"] if is_complex(match["x"]) else into.make("abs", match["x"])
    product = into.make("multiply", match["y"], into.make("log", base))
    is_one = into.make("compare", match["y"], zero, attributes=CompareAttributes("EQ"))
    return into.make("select", is_one, zero, product)


POWERS = (
    AlgebraRule("R48", "power(x, 0) = 1",
                m.op("power", _X, constant("c", is_zero)).where(is_any_number), filled(1)),
    AlgebraRule("R49", "power(x, 1) = x", _to(1).where(is_real), bound("x")),
    AlgebraRule("R50i", "power(x, 2) = multiply(x, x) of integers", _to(2).where(is_integer),
                make("multiply", "x", "x")),
    AlgebraRule("R50", "power(x, 2) = multiply(x, x)", _to(2).where(is_float), make("multiply", "x", "x"), _ACCURATE),
    AlgebraRule("R51i", "power(x, 3) = multiply(x, multiply(x, x)) of integers",
                _to(3).where(is_integer), make("multiply", "x", make("multiply", "x", "x"))),
    AlgebraRule("R51", "power(x, 3) = multiply(x, multiply(x, x))",
                _to(3).where(is_float), make("multiply", "x", make("multiply", "x", "x")), _XLA),
    AlgebraRule("R52", "power(x, -1) = divide(1, x)", _to(-1).where(is_float), make("divide", filled(1), "x"),
                _ACCURATE),
    AlgebraRule("R49c", "power(x, 1) = x of complex numbers", _to(1).where(is_complex), bound("x"), _XLA),
    AlgebraRule("R50c", "power(x, 2) = multiply(x, x) of complex numbers",
                _to(2).where(is_complex), make("multiply", "x", "x"), _XLA),
    AlgebraRule("R51c", "power(x, 3) = multiply(x, multiply(x, x)) of complex numbers",
                _to(3).where(is_complex), make("multiply", "x", make("multiply", "x", "x")), _XLA),
    AlgebraRule("R52c", "power(x, -1) = divide(1, x) of complex numbers",
                _to(-1).where(is_complex), make("divide", filled(1), "x"), _XLA),
    AlgebraRule("R53", "power(x, 0.5) = sqrt(x) for 0 <= x",
                m.op("power", _X.where(is_not_negative), constant("c", is_number(0.5))).where(is_float),
                make("sqrt", "x"), _ACCURATE),
    AlgebraRule("R54", "power(x, -0.5) = rsqrt(x) for 0 <= x",
                m.op("power", _X.where(is_not_negative), constant("c", is_number(-0.5))).where(is_float),
                make("rsqrt", "x"), _ACCURATE),
    AlgebraRule("R53r", "power(x, 0.5) = sqrt(x)", _to(0.5).where(is_float), make("sqrt", "x"), _REAL),
    AlgebraRule("R54r", "power(x, -0.5) = rsqrt(x)", _to(-0.5).where(is_float), make("rsqrt", "x"), _REAL),
    AlgebraRule("R55", "power(exponential(x), y) = exponential(multiply(x, y))",
                m.op("power", m.op("exponential", _X), _Y).where(is_float),
                make("exponential", make("multiply", "x", "y")), _XLA),
    AlgebraRule("R56", "power(power(x, y), z) = power(x, multiply(y, z)) for 0 <= x",
                m.op("power", m.op("power", _X.where(is_not_negative), _Y), _Z).where(is_float),
                make("power", "x", make("multiply", "y", "z")), _XLA),
)  # fmt: skip

EXPONENTIALS = (
    AlgebraRule("R57", "log(exponential(x)) = x", m.op("log", m.op("exponential", _X)).where(is_float), bound("x"),
                _XLA),
    AlgebraRule("R58", "log(power(x, y)) = multiply(y, log(x))",
                m.op("log", m.op("power", _X.where(is_not_negative), _Y)).where(is_float),
                make("multiply", "y", make("log", "x")), _XLA),
    AlgebraRule("R58x", "log(power(x, y)) = select(y == 0, 0, multiply(y, log(abs(x))))",
                m.op("log", m.op("power", _X, _Y).one_use()).where(is_inexact), _log_of_power, _XLA),
    AlgebraRule("R59", "log(sqrt(x)) = multiply(log(x), 0.5)", m.op("log", m.op("sqrt", _X)).where(is_inexact),
                make("multiply", make("log", "x"), filled(0.5)), _XLA),
    AlgebraRule("R59b", "log(rsqrt(x)) = multiply(log(x), -0.5)", m.op("log", m.op("rsqrt", _X)).where(is_inexact),
                make("multiply", make("log", "x"), filled(-0.5)), _XLA),
    AlgebraRule("N3", "exponential(0) = 1",
                m.op("exponential", constant("c", _has_no_imaginary_sign)).where(is_inexact), filled(1)),
    AlgebraRule("R60", "exponential(log(x)) = x", m.op("exponential", m.op("log", _X)).where(is_float), bound("x"),
                _REAL),
    AlgebraRule("R64", "subtract(exponential(x), 1) = exponential-minus-one(x)",
                m.op("add", m.op("exponential", _X), constant("one", is_number(-1))).where(is_float),
                make("exponential-minus-one", "x"), _REAL),
    AlgebraRule("R64b", "log(add(x, 1)) = log-plus-one(x)",
                m.op("log", m.op("add", _X, _ONE)).where(is_float), make("log-plus-one", "x"), _REAL),
)  # fmt: skip

ROOTS = (
    AlgebraRule("R61", "sqrt(multiply(x, x)) = abs(x)", m.op("sqrt", m.op("multiply", _X, _X)).where(is_float),
                make("abs", "x"), _XLA),
    AlgebraRule("R62", "sqrt(divide(1, x)) = rsqrt(x)", m.op("sqrt", m.op("divide", _ONE, _X)).where(is_float),
                make("rsqrt", "x"), _XLA),
    AlgebraRule("R62b", "rsqrt(divide(1, x)) = sqrt(x)", m.op("rsqrt", m.op("divide", _ONE, _X)).where(is_float),
                make("sqrt", "x"), _XLA),
    AlgebraRule("R63", "rsqrt(power(x, -2)) = abs(x)",
                m.op("rsqrt", m.op("power", _X, constant("c", is_number(-2)))).where(is_float),
                make("abs", "x"), _XLA),
)  # fmt: skip
