"""Constants with one value: matching them, computing with them, making them.

Such a constant is a scalar or the broadcast of one. Its value is a NumPy scalar of the element type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction, Literal, Shape
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops import build
from xjit.ops.evaluation.convert import convert
from xjit.ops.evaluation.elementwise import apply
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.ops.reducers import integer_limits
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match, Pattern
from xjit.passes.simplify.algebra.rule import Term, term

Test = Callable[[Any, PrimitiveType], bool]
"""Asked of a value, as a NumPy scalar, and its element type."""


def value_of(instruction: HloInstruction) -> Any:
    """Returns the one value of a constant or of the broadcast of a scalar constant; None for anything else."""
    if instruction.opcode == "broadcast":
        instruction = instruction.operand(0)
    if instruction.opcode != "constant" or not instruction.shape.is_scalar:
        return None
    return instruction.attributes_as(at.ConstantAttributes).literal.array[()]


def constant(name: str = "c", test: Test | None = None) -> Pattern:
    """A constant of one value, which passes a test if one is given."""

    def condition(instruction: HloInstruction) -> bool:
        value = value_of(instruction)
        return value is not None and (test is None or test(value, instruction.shape.element_type))

    return m.op(f"constant|{m.SPLAT}", name=name).where(condition)


def is_number(number: float) -> Test:
    """That the value is exactly this number: 0.0 is not -0.0."""
    sign = math.copysign(1.0, number)

    def test(value: Any, kind: PrimitiveType) -> bool:
        if kind is PrimitiveType.PRED or kind.is_integer:
            return int(value) == number
        if kind.is_complex:
            same = complex(value) == number
            return same and math.copysign(1.0, value.imag) > 0 and math.copysign(1.0, value.real) == sign
        found = float(value)
        return found == number and math.copysign(1.0, found) == sign

    return test


def is_zero(value: Any, kind: PrimitiveType) -> bool:
    """Zero of any sign."""
    return bool(value == np.zeros((), kind.dtype)[()])


def is_finite(value: Any, kind: PrimitiveType) -> bool:
    """No infinity and no NaN."""
    return kind.is_integer or bool(np.isfinite(complex(value) if kind.is_complex else float(value)))


def are_binary_powers(elements: Any) -> bool:
    """Whether all floats of an array are powers of two, of any sign."""
    fractions, _ = np.frexp(np.abs(elements.astype(np.float64)))
    return bool((fractions == 0.5).all())


def power_of_two(value: Any, kind: PrimitiveType) -> int | None:
    """Returns k if a positive integer, taken as unsigned, is 2**k."""
    if not kind.is_integer:
        return None
    bits = int(value) & ((1 << kind.bit_width) - 1)
    return bits.bit_length() - 1 if bits and not bits & (bits - 1) else None


def is_least(value: Any, kind: PrimitiveType) -> bool:
    """The least value of the type; of floats, minus infinity."""
    return _is_limit(value, kind, 0)


def is_greatest(value: Any, kind: PrimitiveType) -> bool:
    """The greatest value of the type; of floats, infinity."""
    return _is_limit(value, kind, 1)


def _is_limit(value: Any, kind: PrimitiveType, which: int) -> bool:
    if kind is PrimitiveType.PRED:
        return bool(value) == bool(which)
    if kind.is_integer:
        return int(value) == integer_limits(kind)[which]
    return kind.is_float and float(value) == (-np.inf, np.inf)[which]


def compute(opcode: str, *values: Any) -> Any:
    """Returns what an elementwise instruction gives for scalars of one type."""
    arrays = [np.asarray(v) for v in values]
    with np.errstate(all="ignore"):
        return apply(Interpreter(), opcode, arrays[0].dtype, *arrays)[()]


def converted_array(array: np.ndarray[Any, Any], kind: PrimitiveType) -> np.ndarray[Any, Any]:
    """Returns an array, or a NumPy scalar, in another element type, as `convert` gives it."""
    with np.errstate(all="ignore"):
        return convert(Interpreter(), np.asarray(array), kind)


def splat(into: Expansion, value: Any, shape: Shape) -> HloInstruction:
    """Returns an array of that shape whose elements are a NumPy scalar, whose type it has."""
    scalar = into.constant(Literal.from_array(np.asarray(value)))
    return into.add(build.broadcast_scalar(scalar, shape)) if shape.rank else scalar


def like(value: Any, name: str = "c") -> Term:
    """A constant of the shape of a bound one; the value, or a function of the match."""

    def build_it(match: Match, into: Expansion) -> HloInstruction:
        shape = match[name].shape
        number = value(match) if callable(value) else value
        return splat(into, np.asarray(number).astype(shape.dtype)[()], shape)

    return build_it


def folded(opcode: str, *names: str) -> Term:
    """The constant that an elementwise opcode makes of bound constants."""

    def build_it(match: Match, into: Expansion) -> HloInstruction:
        constants = [match[name] for name in names]
        value = compute(opcode, *[value_of(c) for c in constants])
        return splat(into, value, max((c.shape for c in constants), key=lambda s: s.rank))

    return build_it


def is_constant_like(instruction: HloInstruction) -> bool:
    """Whether an instruction is a constant, or the broadcast of one."""
    return m.kind_of(instruction) in ("constant", m.SPLAT)


def has_several_values(instruction: HloInstruction) -> bool:
    """Whether an instruction is an array of constants, or the broadcast of one."""
    source = instruction.operand(0) if instruction.opcode == "broadcast" else instruction
    return source.opcode == "constant" and source.shape.rank > 0


__all__ = [
    "are_binary_powers",
    "compute",
    "constant",
    "converted_array",
    "folded",
    "has_several_values",
    "is_constant_like",
    "is_finite",
    "is_greatest",
    "is_least",
    "is_number",
    "is_zero",
    "like",
    "power_of_two",
    "splat",
    "term",
    "value_of",
]
