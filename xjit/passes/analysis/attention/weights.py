"""Weights that are multiples of the exponentials of a softmax: times what is masked, dropped, or divided by later.

A product with them needs only the exponentials to be those of a softmax, exp(x - max(x)): whatever else rows are
multiplied or divided by is done to the product, and what differs from column to column is done to each block of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from xjit.affine import AffineExpr
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.softmax import (
    Softmax,
    exponent_of,
    is_constant,
    masked_by,
    reduces,
    shifted_maximum,
)

_PASSED = MOVES | {"convert"}
MAX_STEPS = 64
"""Instructions on the way from weights to exponentials."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What weights are multiplied with. By its `role`: `place` ("multiply"), its reciprocal ("divide"), 1 where it is
    true ("select"), or where it is false ("select-not"), and 0 elsewhere.
    """

    place: Place
    role: str


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction on the way from weights to exponentials, which come through its operand `number`."""

    instruction: HloInstruction
    number: int
    factor: Factor | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """Exponentials, and the way from the weights to them, the weights first."""

    exponential: Place
    path: tuple[Step, ...]

    @property
    def factors(self) -> tuple[Factor, ...]:
        """All that the exponentials are multiplied with, but for signs."""
        return tuple(step.factor for step in self.path if step.factor is not None)

    @property
    def negative(self) -> bool:
        """Whether the signs on the way make a difference."""
        return sum(step.instruction.opcode == "negate" for step in self.path) % 2 > 0

    def over(self, column: AffineExpr) -> tuple[Factor, ...]:
        """The factors that differ from column to column."""
        return tuple(f for f in self.factors if any(e.uses_dim(column.position) for e in f.place.index))


IsExponential: TypeAlias = Callable[[Place], bool]


def find_weights(space: Space, place: Place, is_wanted: IsExponential) -> Weights | None:
    """Returns an element as a multiple of an exponential that is wanted; None if it is none."""
    return _Finder(space, is_wanted).find(place, ())


class _Finder:
    """The search; `steps` are those that may still be done."""

    def __init__(self, space: Space, is_wanted: IsExponential) -> None:
        self.space = space
        self.is_wanted = is_wanted
        self.steps = MAX_STEPS

    def find(self, place: Place, path: tuple[Step, ...]) -> Weights | None:
        """Returns what an element is, which the way so far leads to."""
        self.steps -= 1
        if self.steps < 0:
            return None
        if place.opcode == "exponential":
            return Weights(place, path) if self.is_wanted(place) else None
        if place.opcode in _PASSED:
            inner = self.space.operand(place, 0)
            return None if inner is None else self.find(inner, (*path, Step(place.instruction, 0)))
        for number, other, role in _ROLES.get(place.opcode, ()):
            found = self._through(place, number, other, role, path)
            if found is not None:
                return found
        return None

    def _through(
        self, place: Place, number: int, other: int | None, role: str, path: tuple[Step, ...]
    ) -> Weights | None:
        inner = self.space.operand(place, number)
        if role.startswith("select"):
            zero = self.space.operand(place, 3 - number)
            if zero is None or not is_constant(self.space, zero, 0.0):
                return None
        factor = None if other is None else self.space.operand(place, other)
        if inner is None or (factor is None and other is not None):
            return None
        factor = None if factor is None else Factor(self.space.behind(factor, MOVES), role)
        return self.find(inner, (*path, Step(place.instruction, number, factor)))


_ROLES: dict[str, tuple[tuple[int, int | None, str], ...]] = {
    "multiply": ((0, 1, "multiply"), (1, 0, "multiply")),
    "divide": ((0, 1, "divide"),),
    "negate": ((0, None, "negate"),),
    "select": ((1, 0, "select"), (2, 0, "select-not")),
}
"""By opcode: which operand may be the weights, which the factor, and its role."""


def softmax_of(space: Space, exponential: Place, column: AffineExpr) -> Softmax | None:
    """Returns the softmax that an element is an exponential of, with its sum, whoever uses that; None if of none."""
    exponent = exponent_of(space, exponential)
    if exponent is None:
        return None
    maximum = shifted_maximum(space, exponent.shift)
    if not reduces(space, maximum, "maximum", exponent.value, (column,)):
        return None
    for total in sums_of(space, exponential, column):
        return Softmax(exponent.value, exponential, maximum, total, exponent.factor)
    return None


def sums_of(space: Space, exponential: Place, column: AffineExpr) -> list[Place]:
    """Returns the sums of an array of exponentials along the dimension whose index is a column."""
    array = exponential.instruction
    found = [e is column for e in exponential.index]
    if found.count(True) != 1:
        return []
    dimension = found.index(True)
    index = exponential.index[:dimension] + exponential.index[dimension + 1 :]
    sums = [Place(user, index) for user in array.users if _is_along(user, dimension)]
    return [total for total in sums if reduces(space, total, "add", exponential, (column,))]


def _is_along(user: HloInstruction, dimension: int) -> bool:
    return (
        user.opcode == "reduce"
        and user.operand_count == 2
        and user.attributes_as(at.DimensionsAttributes).dimensions == (dimension,)
    )


def is_implied(space: Space, factor: Factor, logits: Place) -> bool:
    """Whether a factor is 0 only where logits are -inf, and so exponentials are 0 anyway."""
    return factor.role == "select" and masked_by(space, logits, factor.place)
