"""Half-planes of rows and columns, and the comparisons of positions that are constant there.

Positions are integers that are affine in the row and the column: so what two of them differ by is known to be positive,
or not, where row * r + column * c + offset >= 0, for some integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from xjit.affine import AffineExpr
from xjit.affine import constant as affine_constant
from xjit.hlo import attributes as at
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.ranges import holds

MAX_PLANES = 2
"""A band of scores, as that of a window of positions, is what two half-planes leave."""
MAX_STEPS = 400
"""Instructions that are looked at."""
MAX_DEPTH = 64
"""Instructions that are followed one behind the other: each is a few of Python's frames."""
MAX_CANDIDATES = 32
"""Half-planes that are tried, at `MAX_STEPS` each."""


@dataclass(frozen=True, slots=True)
class HalfPlane:
    """The scores with row * `row` + column * `column` + `offset` >= 0."""

    row: int
    column: int
    offset: int

    def contains(self, other: HalfPlane) -> bool:
        """Whether all of another half-plane with a parallel edge is in this one."""
        return (self.row, self.column) == (other.row, other.column) and self.offset >= other.offset


class Positions:
    """What comparisons of elements say of the row and the column, two of the variables of a space."""

    def __init__(self, space: Space, row: AffineExpr, column: AffineExpr) -> None:
        self.space = space
        self.row = row
        self.column = column
        self._exprs: dict[Place, AffineExpr | None] = {}

    def operands(self, place: Place) -> list[Place] | None:
        """Returns what an element is computed from; None if that is not one element of each operand."""
        if place.instruction.opcode in ("dot", "reduce", "fusion"):
            return None
        found = [self.space.operand(place, n) for n in range(place.instruction.operand_count)]
        kept = [p for p in found if p is not None]
        return kept if len(kept) == len(found) else None

    def varies_with_one(self, place: Place) -> bool:
        """Whether an element differs from row to row or from column to column, but not both."""
        return sum(any(e.uses_dim(v.position) for e in place.index) for v in (self.row, self.column)) == 1

    def difference(self, compare: Place) -> tuple[int, int, int] | None:
        """Returns r, c and k of row * r + column * c + k, what the operands of a compare differ by."""
        operands = self.operands(compare)
        if operands is None or not compare.instruction.operand(0).shape.element_type.is_integer:
            return None
        a, b = (self._affine(operand) for operand in operands)
        if a is None or b is None:
            return None
        expr = self.space.simplify(a - b)
        factors = {self.row: 0, self.column: 0}
        for term, factor in expr.terms:
            if term not in factors:
                return None
            factors[term] = factor
        rest = expr - self.row * factors[self.row] - self.column * factors[self.column]
        row, column = factors.values()
        return (row, column, rest.value) if rest.is_constant and (row or column) else None

    def _affine(self, place: Place, depth: int = MAX_DEPTH) -> AffineExpr | None:
        """Returns an integer as an expression over the variables; one that could wrap around has none."""
        place = self.space.behind(place, MOVES)
        if place not in self._exprs:
            expr = self._make_affine(place, depth) if depth else None
            kind = place.instruction.shape.element_type
            self._exprs[place] = expr if expr is not None and holds(kind, *self.space.range_of(expr)) else None
        return self._exprs[place]

    def _make_affine(self, place: Place, depth: int) -> AffineExpr | None:
        if not place.instruction.shape.element_type.is_signed:
            return None
        if place.opcode == "iota":
            return place.index[place.instruction.attributes_as(at.IotaAttributes).iota_dimension]
        if place.opcode == "constant":
            value = splat_of(place)
            return None if value is None else affine_constant(int(value))
        operands, opcode = self.operands(place), place.instruction.opcode
        if operands is None or opcode not in ("add", "subtract", "convert", "negate"):
            return None
        found = [self._affine(operand, depth - 1) for operand in operands]
        kept = [expr for expr in found if expr is not None]
        if len(kept) < len(found):
            return None
        if opcode == "add":
            return kept[0] + kept[1]
        if opcode == "subtract":
            return kept[0] - kept[1]
        return kept[0] if opcode == "convert" else kept[0] * -1

    def half_planes(self, places: Iterable[Place]) -> list[HalfPlane]:
        """Returns the half-planes that any compare on the way to some places tells apart."""
        found: dict[HalfPlane, None] = {}
        seen: set[Place] = set()
        stack = list(places)
        while stack and len(seen) < MAX_STEPS and len(found) < MAX_CANDIDATES:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            difference = self.difference(place) if place.opcode == "compare" else None
            if difference is not None:
                row, column, k = difference
                for offset in (k - 1, k):  # a > b, a >= b and their opposites
                    found[HalfPlane(row, column, offset)] = None
                    found[HalfPlane(-row, -column, -offset - 1)] = None
            stack += self.operands(place) or ()
        return list(found)


def largest(planes: Iterable[HalfPlane]) -> tuple[HalfPlane, ...]:
    """Returns the largest of half-planes: as many as a mask may have, without those that others contain."""
    planes = list(planes)
    kept = [p for p in planes if not any(other is not p and other.contains(p) for other in planes)]
    return tuple(kept[:MAX_PLANES])


def splat_of(place: Place) -> float | None:
    """The value of a constant, if it has one for all elements, and a float holds it."""
    literal = place.instruction.attributes_as(at.ConstantAttributes).literal
    value = literal.splat_value()
    if value is None or np.iscomplexobj(value):
        return None
    is_exact = not place.instruction.shape.element_type.is_integer or int(float(value)) == int(value)
    return float(value) if is_exact else None
