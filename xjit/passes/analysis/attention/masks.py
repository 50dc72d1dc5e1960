"""Where scores are masked: half-planes of rows and columns, by the ranges of values that masks leave there.

What is selected by a comparison of positions has a known range on a half-plane, whatever the mask is made of (iotas,
sums and conversions of them, several masks and'ed), and so has what is computed of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr
from xjit.hlo import PrimitiveType
from xjit.hlo import attributes as at
from xjit.passes.analysis.attention.half_planes import MAX_DEPTH, MAX_STEPS, HalfPlane, Positions, largest, splat_of
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.ranges import (
    ANY,
    LOGICAL,
    SCORES,
    UNDERFLOW,
    Range,
    compared,
    computed,
    exponential,
    is_pred,
    rounded,
    sign,
    union,
)

_PASSED = MOVES | {"convert"}


@dataclass(frozen=True, slots=True)
class RowBound:
    """That the elements of an array, one for each row or one for each column, are above `least`, and above `slope`
    times what scores do not exceed.
    """

    place: Place
    least: float
    slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Masked:
    """Half-planes of scores. `bound`: what no score there exceeds, but for `slope` times what no product that scores
    are made from exceeds; `condition`: when all are 0 there.
    """

    planes: tuple[HalfPlane, ...]
    bound: float = -math.inf
    condition: RowBound | None = None
    slope: float = 0.0

    @property
    def needs_score_bound(self) -> bool:
        """Whether something is known only in terms of what scores do not exceed."""
        return self.slope > 0 or (self.condition is not None and self.condition.slope > 0)

    def facts(self) -> dict[str, str]:
        """What is worth reading about it, by name."""
        texts = [f"{p.row} * row + {p.column} * column + {p.offset} >= 0" for p in self.planes]
        if not texts:
            return {}
        where = ", if the scores are small beside that" if self.needs_score_bound else ""
        return {"masked": f"where {', or where '.join(texts)}: blocks of that are left out{where}"}


NOTHING_MASKED = Masked(())


class MaskFinder:
    """What is masked, of scores at places over the variables of a space, two of which are the row and the column.

    `products` are what scores are made from: elements that kernels have a bound for.
    """

    def __init__(self, space: Space, row: AffineExpr, column: AffineExpr, products: Iterable[Place] = ()) -> None:
        self._positions = Positions(space, row, column)
        self._products = frozenset(products)

    def bounded(self, logits: Place) -> Masked:
        """Returns where logits have an upper bound."""
        found = {plane: self._values(plane).range(logits) for plane in self._positions.half_planes([logits])}
        bounded = {plane: values for plane, values in found.items() if values.is_low}
        planes = largest(bounded)
        if not planes:
            return NOTHING_MASKED
        kept = [bounded[plane] for plane in planes]
        return Masked(planes, max(r.high for r in kept), slope=max(r.slope for r in kept))

    def zero(self, scores: Sequence[Place]) -> Masked:
        """Returns where all of several scores are 0, at least on a condition, which is one for all half-planes."""
        found: dict[HalfPlane, frozenset[RowBound]] = {}
        for plane in self._positions.half_planes(scores):
            values = self._values(plane)
            if all(values.range(place).value == 0 for place in scores):
                found[plane] = frozenset(values.conditions)
        planes = largest(found)
        conditions = {condition for plane in planes for condition in found[plane]}
        places = {condition.place for condition in conditions}
        if not places:
            return Masked(planes, 0.0)
        if len(places) > 1:
            return NOTHING_MASKED
        least, slope = max(c.least for c in conditions), max(c.slope for c in conditions)
        return Masked(planes, 0.0, RowBound(places.pop(), least, slope))

    def _values(self, plane: HalfPlane) -> _Values:
        return _Values(self._positions, plane, self._products)


class _Values:
    """The ranges of values on one half-plane, and the `conditions` that they are known on."""

    def __init__(self, positions: Positions, plane: HalfPlane, products: frozenset[Place]) -> None:
        self._positions = positions
        self._plane = plane
        self._products = products
        self._known: dict[Place, Range] = {}
        self._depth = 0
        self.conditions: list[RowBound] = []

    def range(self, place: Place) -> Range:
        """The values that an element takes."""
        if place not in self._known:
            self._known[place] = ANY  # if there are too many steps
            if len(self._known) < MAX_STEPS and self._depth < MAX_DEPTH:
                self._depth += 1
                self._known[place] = self._compute(place)
                self._depth -= 1
        return self._known[place]

    def _compute(self, place: Place) -> Range:
        opcode, shape = place.opcode, place.instruction.shape
        if place in self._products:
            return rounded(SCORES, shape.element_type, shape.dtype)
        if opcode == "constant":
            value = splat_of(place)
            return ANY if value is None or math.isnan(value) else Range(value, value)
        operands = self._positions.operands(place)
        if opcode == "compare":
            return self._compare(place, operands)
        if not operands:
            return LOGICAL if is_pred(place.instruction) else ANY
        if opcode == "select":
            return self._select(*operands)
        if opcode == "exponential":
            return self._exponential(place, operands[0])
        if opcode in MOVES:
            return self.range(operands[0])
        return computed(place.instruction, [self.range(operand) for operand in operands])

    def _select(self, test: Place, a: Place, b: Place) -> Range:
        known = self.range(test).value
        return union(self.range(a), self.range(b)) if known is None else self.range(a if known else b)

    def _exponential(self, place: Place, exponent: Place) -> Range:
        """exp(c (a - b)) is 0 where a is bounded, on the condition that each b of a row or column is far above that."""
        kind = place.instruction.shape.element_type
        direct = exponential(self.range(exponent), kind)
        difference, factor = self._without_factor(self._behind(exponent))
        operands = self._positions.operands(difference) if difference.opcode == "subtract" else None
        if direct.value == 0 or operands is None or kind not in UNDERFLOW:
            return direct
        high, subtracted = self.range(operands[0]), self._behind(operands[1])
        is_f32 = subtracted.instruction.shape.element_type is PrimitiveType.F32
        if not high.is_low or not is_f32 or not self._positions.varies_with_one(subtracted):
            return direct
        self.conditions.append(RowBound(subtracted, high.high + UNDERFLOW[kind] / factor, high.slope))
        return Range(0.0, 0.0)

    def _without_factor(self, place: Place) -> tuple[Place, float]:
        """Returns a and c of a c, c a number above 0: 1 if there is no other."""
        operands = self._positions.operands(place) if place.opcode == "multiply" else None
        number = self.range(operands[1]).value if operands else None
        if not operands or number is None or not 0 < number < math.inf:
            return place, 1.0
        return self._behind(operands[0]), float(number)

    def _behind(self, place: Place) -> Place:
        while place.opcode in _PASSED:
            operands = self._positions.operands(place)
            if not operands:
                break
            place = operands[0]
        return place

    def _compare(self, place: Place, operands: Sequence[Place] | None) -> Range:
        """A pred as 0 or 1."""
        attributes = place.instruction.attributes_as(at.CompareAttributes)
        difference = self._positions.difference(place)
        if difference is not None:
            return sign(self._difference(*difference), attributes.direction)
        if operands is None:
            return LOGICAL
        a, b = (self.range(operand) for operand in operands)
        return compared(a, b, attributes.direction, attributes.type == "TOTALORDER")

    def _difference(self, row: int, column: int, k: int) -> Range:
        """The range of row * r + column * c + k on the half-plane: where their edges are parallel."""
        plane = self._plane
        if (row, column) == (plane.row, plane.column):
            return Range(k - plane.offset, math.inf)
        if (row, column) == (-plane.row, -plane.column):
            return Range(-math.inf, k + plane.offset)
        return ANY
