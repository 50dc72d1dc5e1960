"""Sums, differences and negations."""

from __future__ import annotations

from xjit.hlo import HloInstruction, Literal
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import (
    are_binary_powers,
    compute,
    constant,
    folded,
    has_several_values,
    is_constant_like,
    is_number,
    is_zero,
    splat,
    value_of,
)
from xjit.passes.simplify.algebra.kinds import (
    is_discrete,
    is_float,
    is_inexact,
    is_integer,
    is_pred,
    is_real,
    is_real_or_pred,
)
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness, bound, filled, make


@m.of_shapes
def constant_on_the_left(instruction: HloInstruction) -> bool:
    """Whether the first of two operands is constant, and the second is not."""
    lhs, rhs = instruction.operands
    return is_constant_like(lhs) and not is_constant_like(rhs)


def swapped(match: Match, into: Expansion) -> HloInstruction:
    """The same instruction with its two operands swapped."""
    return into.make(match.root.opcode, match.root.operand(1), match.root.operand(0))


def _shared_factor(match: Match, into: Expansion) -> HloInstruction | None:
    """a*c + b*c = (a + b)*c, whichever operands are the shared one."""
    left, right = match["left"].operands, match["right"].operands
    for i, factor in enumerate(left):
        if factor in right:
            others = left[1 - i], right[1 - right.index(factor)]
            values = [value_of(o) for o in others]
            if any(v is None for v in values):
                return into.make("multiply", into.make("add", *others), factor)
            return into.make("multiply", factor, splat(into, compute("add", *values), others[0].shape))
    return None


def _is_shared_factor_exact(match: Match) -> bool:
    """Whether the factor is a constant, or a broadcast of one, whose elements are powers of two."""
    factor = next((o for o in match["left"].operands if o in match["right"].operands), None)
    if factor is None or not is_constant_like(factor):
        return False
    constant_ = factor.operand(0) if factor.opcode == "broadcast" else factor
    elements = constant_.attributes_as(at.ConstantAttributes).literal.array
    return elements.size > 0 and are_binary_powers(elements)


def _shared_power(match: Match, into: Expansion) -> HloInstruction | None:
    return _shared_factor(match, into) if _is_shared_factor_exact(match) else None


_X, _Y = m.any("x"), m.any("y")
_ZERO, _MINUS_ZERO = constant("zero", is_number(0.0)), constant("zero", is_number(-0.0))
_ANY_ZERO = constant("zero", is_zero)
_C1, _C2 = constant("c1"), constant("c2")
_PRODUCTS = (m.op("multiply", name="left").one_use(), m.op("multiply", name="right").one_use())
_XLA, _REAL = Exactness.XLA, Exactness.REAL


def _bias(name: str) -> m.Pattern:
    """A broadcast of a constant that is no scalar."""
    return m.op("broadcast", m.op("constant").where(lambda i: i.shape.rank > 0), name=name)


def _merged_bias(match: Match, into: Expansion) -> HloInstruction | None:
    first, second = match["first"], match["second"]
    if first.attributes != second.attributes:
        return None
    total = into.make("add", first.operand(0), second.operand(0))
    return into.make("add", match["x"], into.make("broadcast", total, shape=first.shape, attributes=first.attributes))


_ARRAYS = m.op("constant").where(lambda i: i.shape.rank > 0)
"""Constants of several values."""


def _with_arrays(match: Match, into: Expansion) -> HloInstruction | None:
    """op(op(x, c1), c2) of two arrays of constants, which op combines."""
    if match["inner"].opcode != match.root.opcode or match["x"].opcode == "constant":
        return None
    return into.make(match.root.opcode, match["x"], into.make(match.root.opcode, match["c1"], match["c2"]))


def _minus_array(match: Match, into: Expansion) -> HloInstruction | None:
    c, x = match["c"], match["x"]
    if is_constant_like(x):
        return None
    values = (c if c.opcode == "constant" else c.operand(0)).attributes_as(at.ConstantAttributes).literal.array
    negated = into.constant(Literal.from_array(compute("negate", values)))
    if c.opcode == "broadcast":
        negated = into.make("broadcast", negated, shape=c.shape, attributes=c.attributes)
    return into.make("add", x, negated)


_OF_ARRAYS = m.op("add|multiply", m.op("add|multiply", _X, _ARRAYS.named("c1"), name="inner"), _ARRAYS.named("c2"))
_BIASED = m.op("add", _X, _bias("first")).one_use()

ADDITION = (
    AlgebraRule("R3", "add(c, x) = add(x, c)", m.op("add").where(constant_on_the_left), swapped),
    AlgebraRule("R1", "add(x, 0) = x", m.op("add", _X, _ANY_ZERO).where(is_discrete), bound("x")),
    AlgebraRule("R1f", "add(x, -0.0) = x", m.op("add", _X, _MINUS_ZERO).where(is_float), bound("x")),
    AlgebraRule("R1x", "add(x, +0.0) = x", m.op("add", _X, _ZERO).where(is_inexact), bound("x"), _XLA),
    AlgebraRule("R6", "add(add(x, c1), c2) = add(x, c1 + c2)",
                m.op("add", m.op("add", _X, _C1), _C2).where(is_discrete), make("add", "x", folded("add", "c1", "c2"))),
    AlgebraRule("R6x", "add(add(x, c1), c2) = add(x, c1 + c2) of floats",
                m.op("add", m.op("add", _X, _C1), _C2).where(is_inexact),
                make("add", "x", folded("add", "c1", "c2")), _XLA),
    AlgebraRule("R7,R9", "add(x, negate(y)) = subtract(x, y)",
                m.op("add", _X, m.op("negate", _Y)), make("subtract", "x", "y")),
    AlgebraRule("R12,R13", "add(multiply(x, c), multiply(y, c)) = multiply(add(x, y), c)",
                m.op("add", *_PRODUCTS).where(is_discrete), _shared_factor),
    AlgebraRule("R12x", "add(multiply(x, 2**k), multiply(y, 2**k)) = multiply(add(x, y), 2**k)",
                m.op("add", *_PRODUCTS).where(is_float), _shared_power, _XLA),
    AlgebraRule("R13r", "add(multiply(x, c), multiply(y, c)) = multiply(add(x, y), c) of floats",
                m.op("add", *_PRODUCTS).where(is_float), _shared_factor, _REAL),
    AlgebraRule("R16", "add(subtract(c2, x), c1) = subtract(c1 + c2, x)",
                m.op("add", m.op("subtract", _C2, _X), _C1).where(is_integer),
                make("subtract", folded("add", "c1", "c2"), "x")),
    AlgebraRule("R16r", "add(subtract(c2, x), c1) = subtract(c1 + c2, x) of floats",
                m.op("add", m.op("subtract", _C2, _X), _C1).where(is_float),
                make("subtract", folded("add", "c1", "c2"), "x"), _XLA),
    AlgebraRule("N33", "add(add(x, broadcast(c1)), broadcast(c2)) = add(x, broadcast(c1 + c2))",
                m.op("add", _BIASED, _bias("second")).where(is_integer), _merged_bias),
    AlgebraRule("N33x", "add(add(x, broadcast(c1)), broadcast(c2)) = add(x, broadcast(c1 + c2)) of floats",
                m.op("add", _BIASED, _bias("second")).where(is_float), _merged_bias, _XLA),
    AlgebraRule("N85", "op(op(x, c1), c2) = op(x, op(c1, c2)) of arrays c1 and c2, op being add or multiply",
                _OF_ARRAYS.where(is_discrete), _with_arrays),
    AlgebraRule("N85x", "op(op(x, c1), c2) = op(x, op(c1, c2)) of floats", _OF_ARRAYS.where(is_inexact), _with_arrays,
                _XLA),
    AlgebraRule("N34", "add(subtract(x, y), y) = x", m.op("add", m.op("subtract", _X, _Y), _Y).where(is_integer),
                bound("x")),
    AlgebraRule("N34r", "add(subtract(x, y), y) = x of floats",
                m.op("add", m.op("subtract", _X, _Y), _Y).where(is_float), bound("x"), _REAL),
    AlgebraRule("R15", "add(x, x) = multiply(x, 2)",
                m.op("add", _X, _X).where(is_real), make("multiply", "x", filled(2))),
)  # fmt: skip

SUBTRACTION = (
    AlgebraRule("R2", "subtract(x, 0) = x", m.op("subtract", _X, _ZERO).where(is_real_or_pred),
                bound("x")),
    AlgebraRule("R2r", "subtract(x, -0.0) = x", m.op("subtract", _X, _MINUS_ZERO).where(is_float), bound("x"), _REAL),
    AlgebraRule("R5", "subtract(x, x) = 0", m.op("subtract", _X, _X).where(is_discrete), filled(0)),
    AlgebraRule("R5x", "subtract(x, x) = 0 of floats", m.op("subtract", _X, _X).where(is_float), filled(0), _XLA),
    AlgebraRule("R8", "subtract(x, negate(y)) = add(x, y)",
                m.op("subtract", _X, m.op("negate", _Y)), make("add", "x", "y")),
    AlgebraRule("R14", "subtract(add(x, y), y) = x",
                m.op("subtract", m.op("add", _X, _Y), _Y).where(is_integer), bound("x")),
    AlgebraRule("R14r", "subtract(add(x, y), y) = x of floats",
                m.op("subtract", m.op("add", _X, _Y), _Y).where(is_float), bound("x"), _REAL),
    AlgebraRule("N35", "subtract(x, add(x, y)) = negate(y)",
                m.op("subtract", _X, m.op("add", m.any("x"), _Y)).where(is_integer), make("negate", "y")),
    AlgebraRule("N35r", "subtract(x, add(x, y)) = negate(y) of floats",
                m.op("subtract", _X, m.op("add", m.any("x"), _Y)).where(is_float), make("negate", "y"), _REAL),
    AlgebraRule("N59", "subtract(x, subtract(x, y)) = y",
                m.op("subtract", _X, m.op("subtract", m.any("x"), _Y)).where(is_integer), bound("y")),
    AlgebraRule("N59r", "subtract(x, subtract(x, y)) = y of floats",
                m.op("subtract", _X, m.op("subtract", m.any("x"), _Y)).where(is_float), bound("y"), _REAL),
    AlgebraRule("R4", "subtract(x, c) = add(x, -c)",
                m.op("subtract", _X.where(lambda i: not is_constant_like(i)), constant("c"))
                .where(lambda i: not is_pred(i)), make("add", "x", folded("negate", "c"))),
    AlgebraRule("N86", "subtract(x, c) = add(x, negate(c)) of an array c",
                m.op("subtract", _X, m.op("constant|broadcast", name="c").where(has_several_values))
                .where(lambda i: not is_pred(i)), _minus_array),
    AlgebraRule("R10", "negate(negate(x)) = x", m.op("negate", m.op("negate", _X)), bound("x")),
    AlgebraRule("R11", "negate(subtract(x, y)) = subtract(y, x)",
                m.op("negate", m.op("subtract", _X, _Y)).where(is_integer), make("subtract", "y", "x")),
    AlgebraRule("R11r", "negate(subtract(x, y)) = subtract(y, x) of floats",
                m.op("negate", m.op("subtract", _X, _Y)).where(is_float), make("subtract", "y", "x"), _REAL),
)  # fmt: skip
