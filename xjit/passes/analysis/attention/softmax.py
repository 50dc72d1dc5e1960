"""Softmax along the columns of scores, in the forms that programs write it.

exp(c (x - max(x))) / sum(exp(c (x - max(x)))), c mostly 1, where the quotient may be taken of what is computed from the
exponentials instead, the maximum be replaced where it is infinite, and anything be converted in between; or the
exponential of its logarithm, exp(x - max(x) - log(sum(exp(x - max(x))))).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from xjit.affine import AffineExpr
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.ops.reducers import reduction_identity
from xjit.passes.analysis.attention.places import MOVES, Place, Space

_PASSED = MOVES | {"convert"}


@dataclass(frozen=True, slots=True)
class Softmax:
    """The parts of a softmax: what it is taken of, its reductions, and what differences to the maximum are times."""

    logits: Place
    exponential: Place
    maximum: Place
    total: Place
    factor: float = 1.0

    @property
    def reductions(self) -> tuple[Place, Place]:
        """What rows have."""
        return self.maximum, self.total


@dataclass(frozen=True, slots=True)
class Exponent:
    """What an exponential is of: `factor` times a difference."""

    value: Place
    shift: Place
    factor: float


Columns: TypeAlias = Sequence[AffineExpr]
"""The variables that count the elements of a row: several, in their order, where it is over several dimensions."""


def find_softmax(space: Space, scores: Place, total: Place | None, columns: Columns) -> Softmax | None:
    """Returns the softmax that scores are; with a `total`, they are its exponentials, to be divided by that."""
    place = space.behind(scores, _PASSED)
    if total is None:
        quotient = _quotient(space, place) or _exponential_of_logarithm(space, place, columns)
        if quotient is None:
            return None
        place, total = quotient
    exponential = space.behind(place, _PASSED)
    total = space.behind(total, _PASSED)
    exponent = exponent_of(space, exponential)
    if exponent is None:
        return None
    maximum = shifted_maximum(space, exponent.shift)
    if not reduces(space, maximum, "maximum", exponent.value, columns):
        return None
    if not reduces(space, total, "add", exponential, columns):
        return None
    return Softmax(exponent.value, exponential, maximum, total, exponent.factor)


def find_masked_softmax(space: Space, terms: Place, total: Place, columns: Columns) -> Softmax | None:
    """Returns the softmax whose masked exponentials are summed: of elements of which the maximum takes as -inf, and the
    sum as 0, what the same mask leaves out. Its logits are the masked elements, its exponential what is masked.
    """
    masked = space.behind(terms, _PASSED)
    parts = [space.operand(masked, i) for i in range(3)] if masked.opcode == "select" else [None]
    mask, value, other = parts if len(parts) == 3 else (None, None, None)
    if mask is None or value is None or other is None or not is_constant(space, other, 0.0):
        return None
    exponential = space.behind(value, _PASSED)
    difference = _exponential_of_difference(space, exponential)
    if difference is None:
        return None
    maximum = shifted_maximum(space, difference[1])
    ranges = space.ranges(maximum) if maximum.opcode == "reduce" else None
    logits = None if ranges is None or len(ranges) != len(columns) else space.operand(maximum, 0, columns)
    if logits is None or not reduces(space, maximum, "maximum", logits, columns):
        return None
    if not reduces(space, space.behind(total, _PASSED), "add", masked, columns):
        return None
    if not _masks(space, logits, mask, difference[0]):
        return None
    return Softmax(space.behind(logits, _PASSED), exponential, maximum, total)


def _masks(space: Space, place: Place, mask: Place, value: Place) -> bool:
    """Whether a place is -inf where a mask is false, and elsewhere a value, or what that is masked from likewise."""
    inside = _masked(space, place, mask)
    return inside is not None and inside in (space.behind(value, _PASSED), _masked(space, value, mask))


def _masked(space: Space, place: Place, mask: Place) -> Place | None:
    """What a place is where a mask is true; None if it is not -inf elsewhere."""
    place = space.behind(place, _PASSED)
    parts = [space.operand(place, i) for i in range(3)] if place.opcode == "select" else [None]
    test, inside, outside = parts if len(parts) == 3 else (None, None, None)
    if test is None or inside is None or outside is None or not is_constant(space, outside, -np.inf):
        return None
    same = space.behind(test, _PASSED) == space.behind(mask, _PASSED)
    return space.behind(inside, _PASSED) if same else None


def _operand(space: Space, place: Place, opcode: str, number: int) -> Place | None:
    return space.operand(place, number) if place.opcode == opcode else None


def _quotient(space: Space, place: Place) -> tuple[Place, Place] | None:
    """Returns numerator and denominator of a / b or a * (1 / b)."""
    if place.opcode not in ("divide", "multiply"):
        return None
    a, b = space.operand(place, 0), space.operand(place, 1)
    if a is None or b is None:
        return None
    if place.opcode == "divide":
        return a, b
    for factor, other in ((a, b), (b, a)):
        factor = space.behind(factor, _PASSED)
        one = _operand(space, factor, "divide", 0)
        if one is not None and is_constant(space, one, 1.0):
            denominator = space.operand(factor, 1)
            return None if denominator is None else (other, denominator)
    return None


def exponent_of(space: Space, place: Place) -> Exponent | None:
    """Returns what an exponential is of, if that is a difference times a number above 0; None if it is not."""
    operand = _operand(space, place, "exponential", 0)
    operand = None if operand is None else space.behind(operand, _PASSED)
    factor = None if operand is None else _operand(space, operand, "multiply", 1)
    number = 1.0 if factor is None else number_of(space, factor)
    if factor is not None and operand is not None:
        operand = space.operand(operand, 0)
    difference = None if operand is None else space.behind(operand, _PASSED)
    if difference is None or difference.opcode != "subtract" or number is None or number <= 0:
        return None
    a, b = space.operand(difference, 0), space.operand(difference, 1)
    return None if a is None or b is None else Exponent(a, b, number)


def difference_of(exponential: HloInstruction) -> HloInstruction:
    """Returns what an exponential is of, without the number that it is times (see `exponent_of`)."""
    exponent = exponential.operand(0)
    if exponent.opcode != "multiply" or exponent.operand(1).opcode != "broadcast":
        return exponent
    return exponent.operand(0) if exponent.operand(1).operand(0).opcode == "constant" else exponent


def number_of(space: Space, place: Place) -> float | None:
    """Returns the number that an element is wherever it is; None if that is 0, infinite, or not to be seen."""
    place = space.behind(place, _PASSED)
    if place.opcode != "constant" or not place.instruction.shape.is_scalar:
        return None
    if not place.instruction.shape.element_type.is_float:
        return None
    value = float(place.instruction.attributes_as(at.ConstantAttributes).literal.array[()])
    return value if math.isfinite(value) and value else None


def _exponential_of_difference(space: Space, place: Place) -> tuple[Place, Place] | None:
    """Returns a and b of exp(a - b)."""
    difference = _operand(space, place, "exponential", 0)
    difference = None if difference is None else space.behind(difference, _PASSED)
    if difference is None or difference.opcode != "subtract":
        return None
    a, b = space.operand(difference, 0), space.operand(difference, 1)
    return None if a is None or b is None else (a, b)


def _exponential_of_logarithm(space: Space, place: Place, columns: Columns) -> tuple[Place, Place] | None:
    """Returns exp(y) and sum(exp(y)) of exp(y - log(sum(exp(y)))), which is their quotient."""
    difference = _exponential_of_difference(space, place)
    if difference is None:
        return None
    shifted, logarithm = difference
    total = _operand(space, space.behind(logarithm, _PASSED), "log", 0)
    total = None if total is None else space.behind(total, _PASSED)
    if total is None or total.opcode != "reduce" or space.ranges(total) != _sizes(space, columns):
        return None
    reduced = space.operand(total, 0, columns)
    exponential = None if reduced is None else space.behind(reduced, _PASSED)
    exponent = None if exponential is None else _operand(space, exponential, "exponential", 0)
    if exponential is None or exponent is None or space.behind(exponent, _PASSED) != space.behind(shifted, _PASSED):
        return None
    return exponential, total


def shifted_maximum(space: Space, shift: Place) -> Place:
    """Returns the maximum behind what replaces infinite ones by 0 and what bounds it by -inf."""
    shift = space.behind(shift, _PASSED)
    if shift.opcode == "select":
        guarded = _guarded(space, shift)
        if guarded is None:
            return shift
        shift = guarded
    if shift.opcode == "maximum":
        a, b = space.operand(shift, 0), space.operand(shift, 1)
        for bound, value in ((a, b), (b, a)):
            if bound is not None and value is not None and is_constant(space, bound, -np.inf):
                return space.behind(value, _PASSED)
    return shift


def _guarded(space: Space, selection: Place) -> Place | None:
    """Returns what a selection replaces by 0 where it is not finite, or where it is -inf; None if that is none."""
    test, *choices = [place for i in range(3) if (place := space.operand(selection, i)) is not None]
    if len(choices) < 2:
        return None
    test = space.behind(test, _PASSED)
    if test.opcode == "compare":
        is_equal = test.instruction.attributes_as(at.CompareAttributes).direction == "EQ"
        tested, least = space.operand(test, 0), space.operand(test, 1)
        if not is_equal or tested is None or least is None or not is_constant(space, least, -np.inf):
            return None
        zero, value = choices
    else:
        tested = _operand(space, test, "is-finite", 0)
        value, zero = choices
    value = space.behind(value, _PASSED)
    is_guard = tested is not None and space.behind(tested, _PASSED) == value and is_constant(space, zero, 0.0)
    return value if is_guard else None


def masked_by(space: Space, logits: Place, mask: Place) -> bool:
    """Whether logits are -inf where a mask is false."""
    return _masked(space, logits, mask) is not None


def reduces(space: Space, place: Place, opcode: str, wanted: Place, columns: Columns) -> bool:
    """Whether an element is the reduction of what is wanted over all columns."""
    if not is_reduction(place.instruction, opcode) or space.ranges(place) != _sizes(space, columns):
        return False
    reduced = space.operand(place, 0, columns)
    return reduced is not None and space.behind(reduced, _PASSED) == space.behind(wanted, _PASSED)


def _sizes(space: Space, columns: Columns) -> tuple[int, ...]:
    return tuple(space.sizes[column.position] for column in columns)


def is_reduction(instruction: HloInstruction, opcode: str) -> bool:
    """Whether an instruction is the sum (`add`), `maximum` or `minimum` of an array along dimensions, and no more."""
    if instruction.opcode != "reduce" or instruction.operand_count != 2:
        return False
    known = reduction_identity(instruction.to_apply)
    return known is not None and known[0] == opcode and _starts_with_identity(instruction.operand(1), opcode)


def _starts_with_identity(initial: HloInstruction, opcode: str) -> bool:
    """Whether what a sum, maximum or minimum starts with is the constant that changes nothing."""
    if initial.opcode != "constant" or not initial.shape.element_type.is_float:
        return False
    value = float(initial.attributes_as(at.ConstantAttributes).literal.array[()])
    return value == {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}[opcode]


def is_constant(space: Space, place: Place, value: float) -> bool:
    place = space.behind(place, _PASSED)
    if place.opcode != "constant" or not place.instruction.shape.element_type.is_float:
        return False
    array = place.instruction.attributes_as(at.ConstantAttributes).literal.array
    return place.instruction.shape.is_scalar and float(array[()]) == value
