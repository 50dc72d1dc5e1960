"""Operations on bits: and, or, xor, not, shifts."""

from __future__ import annotations

from typing import Any

from xjit.hlo import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import constant, is_zero, splat, value_of
from xjit.passes.simplify.algebra.rule import AlgebraRule, bound, filled, make


def _is_ones(value: Any, kind: PrimitiveType) -> bool:
    """All bits set."""
    return (
        bool(value)
        if kind is PrimitiveType.PRED
        else int(value) == (-1 if kind.is_signed else (1 << kind.bit_width) - 1)
    )


def _all_ones(match: Match, into: Expansion) -> HloInstruction:
    return into.full(match.root.shape, 1 if match.root.shape.element_type is PrimitiveType.PRED else -1)


def _amount(value: Any, kind: PrimitiveType) -> int:
    """A shift amount as an unsigned number."""
    return int(value) & ((1 << kind.bit_width) - 1)


def _shifts_all_out(value: Any, kind: PrimitiveType) -> bool:
    return _amount(value, kind) >= kind.bit_width


def _shifts_some_out(value: Any, kind: PrimitiveType) -> bool:
    return 0 < _amount(value, kind) < kind.bit_width


def _sign_fill(match: Match, into: Expansion) -> HloInstruction:
    shape = match.root.shape
    return into.make(match.root.opcode, match["x"], into.full(shape, shape.element_type.bit_width - 1))


def _low_bits(match: Match, into: Expansion) -> HloInstruction | None:
    shape = match.root.shape
    bits = shape.element_type.bit_width
    kept = bits - _amount(value_of(match["c"]), shape.element_type)
    return into.make("and", match["x"], splat(into, shape.dtype.type((1 << kept) - 1), shape))


def _is_of_equals(xor: HloInstruction) -> bool:
    """Whether the operands do the same to the same operands; XLA looks no further, either."""
    x, y = xor.operands
    return x is not y and not x.has_side_effect() and x.identical(y)


_X, _NOT_X = m.any("x"), m.op("not", m.any("x"))
_ZERO, _ONES = constant("c", is_zero), constant("c", _is_ones)

LOGIC = (
    AlgebraRule("R99a", "and(x, ones) = x", m.op("and", _X, _ONES), bound("x")),
    AlgebraRule("R99b", "and(x, 0) = 0", m.op("and", _X, _ZERO), bound("c")),
    AlgebraRule("R99c", "or(x, 0) = x, xor(x, 0) = x", m.op("or|xor", _X, _ZERO), bound("x")),
    AlgebraRule("R99d", "or(x, ones) = ones", m.op("or", _X, _ONES), bound("c")),
    AlgebraRule("R99e", "xor(x, x) = 0", m.op("xor", _X, _X), filled(0)),
    AlgebraRule("N75", "xor(x, y) = 0 of equal expressions", m.op("xor").where(_is_of_equals), filled(0)),
    AlgebraRule("R99f", "and(x, x) = x, or(x, x) = x", m.op("and|or", _X, _X), bound("x")),
    AlgebraRule("R99g", "xor(x, ones) = not(x)", m.op("xor", _X, _ONES), make("not", "x")),
    AlgebraRule("R99h", "not(not(x)) = x", m.op("not", _NOT_X), bound("x")),
    AlgebraRule("R99i", "and(x, not(x)) = 0", m.op("and", _X, _NOT_X), filled(0)),
    AlgebraRule("R99j", "or(x, not(x)) = ones", m.op("or", _X, _NOT_X), _all_ones),
)  # fmt: skip

_SHIFT = "shift-left|shift-right-logical|shift-right-arithmetic"

SHIFTS = (
    AlgebraRule("R100", "shift(x, 0) = x", m.op(_SHIFT, _X, _ZERO), bound("x")),
    AlgebraRule("R100b", "shift(x, all bits) = 0",
                m.op("shift-left|shift-right-logical", _X, constant("c", _shifts_all_out)), filled(0)),
    AlgebraRule("R100c", "shift-right-arithmetic(x, all bits) = shift-right-arithmetic(x, bits - 1)",
                m.op("shift-right-arithmetic", _X, constant("c", _shifts_all_out)), _sign_fill),
    AlgebraRule("R101", "shift-right-logical(shift-left(x, c), c) = and(x, low bits)",
                m.op("shift-right-logical", m.op("shift-left", _X, constant("c", _shifts_some_out)), m.any("c")),
                _low_bits),
)  # fmt: skip
