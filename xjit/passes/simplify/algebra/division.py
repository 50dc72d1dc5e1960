"""Quotients and remainders."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CompareAttributes
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.reducers import integer_limits
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import (
    constant,
    folded,
    has_several_values,
    is_constant_like,
    is_finite,
    is_number,
    is_zero,
    like,
    power_of_two,
    splat,
    value_of,
)
from xjit.passes.simplify.algebra.kinds import (
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_pred,
    is_real,
    is_signed,
    is_signed_or_float,
    is_unsigned,
)
from xjit.passes.simplify.algebra.multiplication import is_shift, shift_amount
from xjit.passes.simplify.algebra.ranges import value_range
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound, filled, make


def _has_exact_inverse(value: Any, kind: PrimitiveType) -> bool:
    """Whether a float is a power of two whose inverse is a normal number, as it is itself."""
    number = float(value)
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    smallest, greatest = _normal_range(kind)
    return all(smallest <= abs(n) <= greatest for n in (number, 1 / number))


@cache
def _normal_range(kind: PrimitiveType) -> tuple[float, float]:
    info = ml_dtypes.finfo(kind.dtype)
    return float(info.smallest_normal), float(info.max)


def _has_inverse(value: Any, kind: PrimitiveType) -> bool:
    return is_finite(value, kind) and not is_zero(value, kind) and is_finite(_inverse(value), kind)


def _inverse(value: Any) -> Any:
    with np.errstate(all="ignore"):
        return value.dtype.type(1) / value


def _repeats(broadcast: HloInstruction) -> bool:
    y = broadcast.operand(0)
    return y.opcode != "constant" and y.shape.num_elements < broadcast.shape.num_elements


def _times_inverse(match: Match, into: Expansion) -> HloInstruction:
    """Of what is smaller, the inverses."""
    wide = match["wide"]
    y = wide.operand(0)
    inverses = into.make("divide", into.full(y.shape, 1), y)
    return into.make("multiply", match["x"], into.like_source("broadcast", [inverses], wide.attributes))


_REPEATED = m.op("broadcast", name="wide").where(_repeats)


def _product_fits(match: Match) -> bool:
    values = [int(value_of(match[name])) for name in ("c1", "c2")]
    return min(values) > 0 and math.prod(values) <= integer_limits(match.root.shape.element_type)[1]


def _divide_once(match: Match, into: Expansion) -> HloInstruction | None:
    return make("divide", "x", folded("multiply", "c1", "c2"))(match, into) if _product_fits(match) else None


def _signed_shift(match: Match, into: Expansion) -> HloInstruction | None:
    """Rounds toward zero: negative numbers get 2**k - 1 added before they are shifted."""
    x, shape = match["x"], match.root.shape
    bits = shape.element_type.bit_width
    k = power_of_two(value_of(match["c"]), shape.element_type)
    if not k or k == bits - 1:  # the sign bit alone is negative
        return None
    sign, rest, amount = (splat(into, shape.dtype.type(n), shape) for n in (bits - 1, bits - k, k))
    bias = into.make("shift-right-logical", into.make("shift-right-arithmetic", x, sign), rest)
    return into.make("shift-right-arithmetic", into.make("add", x, bias), amount)


def _signed_mask(match: Match, into: Expansion) -> HloInstruction | None:
    """The low bits of the magnitude, with the sign of x."""
    x, shape = match["x"], match.root.shape
    k = power_of_two(value_of(match["c"]), shape.element_type)
    if not k or k == shape.element_type.bit_width - 1:
        return None
    mask = splat(into, shape.dtype.type((1 << k) - 1), shape)
    is_negative = into.make("compare", x, into.full(shape, 0), attributes=LESS_THAN)
    below = into.make("negate", into.make("and", into.make("negate", x), mask))
    return into.make("select", is_negative, below, into.make("and", x, mask))


def _low_bits(match: Match, into: Expansion) -> HloInstruction:
    mask = int(value_of(match["c"])) - 1
    return make("and", "x", like(mask))(match, into)


def _is_within(match: Match, into: Expansion) -> HloInstruction | None:
    bounds = value_range(match["x"])
    return match["x"] if bounds is not None and bounds[0] >= 0 and bounds[1] < int(value_of(match["c"])) else None


def _drop_multiple(match: Match, into: Expansion) -> HloInstruction | None:
    """remainder(x + k*c, c), where nothing is negative and the sum does not overflow."""
    bounds, kind = value_range(match["x"]), match.root.shape.element_type
    added, divisor = int(value_of(match["a"])), int(value_of(match["c"]))
    if bounds is None or bounds[0] < 0 or added < 0 or divisor <= 0 or added % divisor:
        return None
    return into.make("remainder", match["x"], match["c"]) if bounds[1] + added <= integer_limits(kind)[1] else None


def _times_inverses(match: Match, into: Expansion) -> HloInstruction | None:
    x, c = match["x"], match["c"]
    if is_constant_like(x):
        return None
    source = c.operand(0) if c.opcode == "broadcast" else c
    inverses = into.make("divide", into.full(source.shape, 1), source)
    if source is not c:
        inverses = into.make("broadcast", inverses, shape=c.shape, attributes=c.attributes)
    return into.make("multiply", x, inverses)


_X, _Y, _Z, _C = m.any("x"), m.any("y"), m.any("z"), constant("c")
_XLA, _REAL = Exactness.XLA, Exactness.REAL
LESS_THAN = CompareAttributes("LT")

DIVISION = (
    AlgebraRule("R30", "divide(x, 1) = x",
                m.op("divide", _X, constant("one", is_number(1))).where(is_real),
                bound("x")),
    AlgebraRule("R30c", "divide(x, 1) = x of complex numbers",
                m.op("divide", _X, constant("one", is_number(1))).where(is_complex), bound("x"), _XLA),
    AlgebraRule("R31", "divide(x, -1) = negate(x)",
                m.op("divide", _X, constant("one", is_number(-1))).where(is_signed_or_float),
                make("negate", "x")),
    AlgebraRule("R32", "divide(x, 2**k) = multiply(x, 2**-k)",
                m.op("divide", _X, constant("c", _has_exact_inverse)).where(is_float),
                make("multiply", "x", like(lambda match: _inverse(value_of(match["c"]))))),
    AlgebraRule("R33", "divide(x, c) = multiply(x, 1/c)",
                m.op("divide", _X, constant("c", _has_inverse)).where(is_inexact),
                make("multiply", "x", like(lambda match: _inverse(value_of(match["c"])))), _XLA),
    AlgebraRule("N87", "divide(x, c) = multiply(x, divide(1, c)) of an array c",
                m.op("divide", _X, m.op("constant|broadcast", name="c").where(has_several_values)).where(is_inexact),
                _times_inverses, _XLA),
    AlgebraRule("R34", "divide(x, x) = 1", m.op("divide", _X, _X).where(is_float), filled(1), _REAL),
    AlgebraRule("R35", "divide(divide(x, c1), c2) = divide(x, c1 * c2)",
                m.op("divide", m.op("divide", _X, constant("c1")), constant("c2")).where(is_integer), _divide_once),
    AlgebraRule("N80", "divide(divide(x, y), divide(z, w)) = divide(multiply(x, w), multiply(y, z))",
                m.op("divide", m.op("divide", _X, _Y).one_use(), m.op("divide", _Z, m.any("w")).one_use())
                .where(is_inexact), make("divide", make("multiply", "x", "w"), make("multiply", "y", "z")), _XLA),
    AlgebraRule("R35x", "divide(divide(x, y), z) = divide(x, multiply(y, z)) of floats",
                m.op("divide", m.op("divide", _X, _Y).one_use(), _Z).where(is_inexact),
                make("divide", "x", make("multiply", "y", "z")), _XLA),
    AlgebraRule("R36", "divide(x, divide(y, z)) = divide(multiply(x, z), y)",
                m.op("divide", _X, m.op("divide", _Y, _Z).one_use()).where(is_inexact),
                make("divide", make("multiply", "x", "z"), "y"), _XLA),
    AlgebraRule("R37", "divide(x, exponential(y)) = multiply(x, exponential(negate(y)))",
                m.op("divide", _X, m.op("exponential", _Y).one_use()).where(is_inexact),
                make("multiply", "x", make("exponential", make("negate", "y"))), _XLA),
    AlgebraRule("N68", "divide(convert(p), broadcast(y)) = multiply(convert(p), broadcast(divide(1, y)))",
                m.op("divide", m.op("convert", m.any().where(is_pred), name="x"), _REPEATED).where(is_float),
                _times_inverse, _XLA),
    AlgebraRule("N68b", "divide(x, broadcast(y)) = multiply(x, broadcast(divide(1, y)))",
                m.op("divide", m.any("x"), _REPEATED.one_use()).where(is_float), _times_inverse, _XLA,
                "executing_on_cpu enable_sink_broadcast"),
    AlgebraRule("R38", "divide(x, rsqrt(y)) = multiply(x, sqrt(y))",
                m.op("divide", _X, m.op("rsqrt", _Y).one_use()).where(is_inexact),
                make("multiply", "x", make("sqrt", "y")), _XLA),
    AlgebraRule("R39", "divide(x, sqrt(y)) = multiply(x, rsqrt(y))",
                m.op("divide", _X, m.op("sqrt", _Y).one_use()).where(is_inexact),
                make("multiply", "x", make("rsqrt", "y")), _XLA),
    AlgebraRule("R40", "divide(x, power(y, z)) = multiply(x, power(y, negate(z)))",
                m.op("divide", _X, m.op("power", _Y, _Z)).where(is_inexact),
                make("multiply", "x", make("power", "y", make("negate", "z"))), _XLA),
    AlgebraRule("R41", "divide(x, 2**k) = shift-right-logical(x, k)",
                m.op("divide", _X, constant("c", is_shift)).where(is_unsigned),
                make("shift-right-logical", "x", shift_amount())),
    AlgebraRule("R41s", "divide(x, 2**k) = shift-right-arithmetic(x + bias, k)",
                m.op("divide", _X, constant("c", is_shift)).where(is_signed), _signed_shift),
)  # fmt: skip

REMAINDER = (
    AlgebraRule("R42", "remainder(x, 1) = 0",
                m.op("remainder", _X, constant("one", lambda v, k: is_number(1)(v, k) or is_number(-1)(v, k)))
                .where(is_integer), filled(0)),
    AlgebraRule("R44", "remainder(remainder(x, c), c) = remainder(x, c)",
                m.op("remainder", m.op("remainder", _X, _Y, name="inner"), _Y), bound("inner")),
    AlgebraRule("R45", "remainder(x, c) = x for 0 <= x < c",
                m.op("remainder", _X, _C).where(is_integer), _is_within),
    AlgebraRule("R46", "remainder(x + k*c, c) = remainder(x, c) for 0 <= x",
                m.op("remainder", m.op("add", _X, constant("a")), _C).where(is_integer), _drop_multiple),
    AlgebraRule("R43", "remainder(x, 2**k) = and(x, 2**k - 1)",
                m.op("remainder", _X, constant("c", is_shift)).where(is_unsigned), _low_bits),
    AlgebraRule("R43s", "remainder(x, 2**k) = the low bits with the sign of x",
                m.op("remainder", _X, constant("c", is_shift)).where(is_signed), _signed_mask),
)  # fmt: skip
