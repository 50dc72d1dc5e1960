"""Where scores are masked: half-planes of rows and columns, by the ranges of values that masks leave there.

A causal mask compares positions, which are affine in the row and the column: so it is constant where row * r + column *
c + offset >= 0, for some integers. What is selected there has a known range, whatever the mask is made of (iotas, sums
and conversions of them, several masks and'ed), and so has what is computed of it by monotone arithmetic.

NaN and infinities that scores are multiplied with are left out of account where the other factor is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xjit.affine import AffineExpr
from xjit.affine import constant as affine_constant
from xjit.hlo import PrimitiveType
from xjit.hlo import attributes as at
from xjit.passes.analysis.attention.places import MOVES, Place, Space

MAX_PLANES = 2
"""A band of scores, as that of a window of positions, is what two half-planes leave."""
EXPONENT = 104.0
"""exp(-x) of f32 is 0 for all x above this."""
MAX_STEPS = 400
MAX_DEPTH = 64
"""Instructions that are followed one behind the other: each is a few of Python's frames."""
MAX_CANDIDATES = 32
"""Half-planes that are tried, at `MAX_STEPS` each."""
_PASSED = MOVES | {"convert"}


@dataclass(frozen=True, slots=True)
class HalfPlane:
    """The scores with row * `row` + column * `column` + `offset` >= 0."""

    row: int
    column: int
    offset: int

    def contains(self, other: HalfPlane) -> bool:
        """Whether all of another half-plane with a parallel edge is in this one."""
        return (self.row, self.column) == (other.row, other.column) and self.offset >= other.offset


@dataclass(frozen=True, slots=True)
class RowBound:
    """That the elements of an array, one for each row or one for each column, are above `least`."""

    place: Place
    least: float


@dataclass(frozen=True, slots=True)
class Masked:
    """Half-planes of scores. `bound`: what no score there exceeds; `condition`: when all are 0 there."""

    planes: tuple[HalfPlane, ...]
    bound: float = -math.inf
    condition: RowBound | None = None

    def facts(self) -> dict[str, str]:
        """What is worth reading about it, by name."""
        texts = [f"{p.row} * row + {p.column} * column + {p.offset} >= 0" for p in self.planes]
        return {"masked": f"where {', or where '.join(texts)}: blocks of that are left out"} if texts else {}


NOTHING_MASKED = Masked(())


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `low` to `high`, and NaN if one of them is infinite."""

    low: float
    high: float

    @property
    def value(self) -> float | None:
        """The value, if there is just one."""
        return self.low if self.low == self.high else None


ANY = Range(-math.inf, math.inf)
LOGICAL = Range(0.0, 1.0)


class MaskFinder:
    """What is masked, of scores at places over the variables of a space, two of which are the row and the column."""

    def __init__(self, space: Space, row: AffineExpr, column: AffineExpr) -> None:
        self._space = space
        self._row = row
        self._column = column
        self._exprs: dict[Place, AffineExpr | None] = {}

    def bounded(self, logits: Place) -> Masked:
        """Returns where logits have an upper bound."""
        found = [(plane, _Values(self, plane).range(logits).high) for plane in self._candidates([logits])]
        planes = _largest([plane for plane, high in found if high < math.inf])
        return Masked(planes, max((high for plane, high in found if plane in planes), default=-math.inf))

    def zero(self, scores: Sequence[Place]) -> Masked:
        """Returns where all of several scores are 0, at least on a condition, which is one for all half-planes."""
        found: dict[HalfPlane, frozenset[RowBound]] = {}
        for plane in self._candidates(scores):
            values = _Values(self, plane)
            if all(values.range(place).value == 0 for place in scores):
                found[plane] = frozenset(values.conditions)
        planes = _largest(found)
        conditions = {condition for plane in planes for condition in found[plane]}
        if len({condition.place for condition in conditions}) > 1:
            return NOTHING_MASKED
        return Masked(planes, 0.0, max(conditions, key=lambda c: c.least, default=None))

    def operands(self, place: Place) -> list[Place] | None:
        """Returns what an element is computed from; None if that is not one element of each operand."""
        if place.instruction.opcode in ("dot", "reduce", "fusion"):
            return None
        found = [self._space.operand(place, n) for n in range(place.instruction.operand_count)]
        kept = [p for p in found if p is not None]
        return kept if len(kept) == len(found) else None

    def varies_with_one(self, place: Place) -> bool:
        """Whether an element differs from row to row or from column to column, but not both."""
        return sum(any(e.uses_dim(v.position) for e in place.index) for v in (self._row, self._column)) == 1

    def difference(self, compare: Place) -> tuple[int, int, int] | None:
        """Returns r, c and k of row * r + column * c + k, what the operands of a compare differ by."""
        operands = self.operands(compare)
        if operands is None or not compare.instruction.operand(0).shape.element_type.is_integer:
            return None
        a, b = (self._affine(operand) for operand in operands)
        if a is None or b is None:
            return None
        expr = self._space.simplify(a - b)
        factors = {self._row: 0, self._column: 0}
        for term, factor in expr.terms:
            if term not in factors:
                return None
            factors[term] = factor
        rest = expr - self._row * factors[self._row] - self._column * factors[self._column]
        row, column = factors.values()
        return (row, column, rest.value) if rest.is_constant and (row or column) else None

    def _affine(self, place: Place, depth: int = MAX_DEPTH) -> AffineExpr | None:
        """Returns an integer as an expression over the variables; one that could wrap around has none."""
        place = self._space.behind(place, MOVES)
        if place not in self._exprs:
            expr = self._make_affine(place, depth) if depth else None
            kind = place.instruction.shape.element_type
            self._exprs[place] = expr if expr is not None and _holds(kind, *self._space.range_of(expr)) else None
        return self._exprs[place]

    def _make_affine(self, place: Place, depth: int) -> AffineExpr | None:
        if not place.instruction.shape.element_type.is_signed:
            return None
        if place.opcode == "iota":
            return place.index[place.instruction.attributes_as(at.IotaAttributes).iota_dimension]
        if place.opcode == "constant":
            value = _splat(place)
            return None if value is None else affine_constant(int(value))
        operands = self.operands(place)
        if operands is None or place.opcode not in ("add", "subtract", "convert", "negate"):
            return None
        found = [self._affine(operand, depth - 1) for operand in operands]
        kept = [expr for expr in found if expr is not None]
        if len(kept) < len(found):
            return None
        if place.opcode == "add":
            return kept[0] + kept[1]
        if place.opcode == "subtract":
            return kept[0] - kept[1]
        return kept[0] if place.opcode == "convert" else kept[0] * -1

    def _candidates(self, places: Iterable[Place]) -> list[HalfPlane]:
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


def _largest(planes: Iterable[HalfPlane]) -> tuple[HalfPlane, ...]:
    planes = list(planes)
    kept = [p for p in planes if not any(other is not p and other.contains(p) for other in planes)]
    return tuple(kept[:MAX_PLANES])


class _Values:
    """The ranges of values on one half-plane, and the `conditions` that they are known on."""

    def __init__(self, finder: MaskFinder, plane: HalfPlane) -> None:
        self._finder = finder
        self._plane = plane
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
        opcode = place.opcode
        if opcode == "constant":
            value = _splat(place)
            return ANY if value is None or math.isnan(value) else Range(value, value)
        if opcode == "compare":
            return self._compare(place)
        operands = self._finder.operands(place)
        if operands is None or not operands:
            return LOGICAL if _is_pred(place) else ANY
        if opcode == "select":
            return self._select(*operands)
        if opcode == "exponential":
            return self._exponential(operands[0])
        if opcode in MOVES:
            return self.range(operands[0])
        rule = _RULES.get(opcode)
        if rule is None:
            return LOGICAL if _is_pred(place) else ANY
        if opcode in ("and", "or", "not") and not _is_pred(place):
            return ANY
        ranges = [self.range(operand) for operand in operands]
        result = rule(*ranges)
        kind = place.instruction.shape.element_type
        if opcode == "convert" or kind.is_float:
            return _rounded(result, place)
        wraps = kind.is_integer and (opcode == "divide" or not _holds(kind, result.low, result.high))
        return ANY if wraps else result

    def _select(self, test: Place, a: Place, b: Place) -> Range:
        known = self.range(test).value
        if known is not None:
            return self.range(a if known else b)
        x, y = self.range(a), self.range(b)
        return Range(min(x.low, y.low), max(x.high, y.high))

    def _exponential(self, exponent: Place) -> Range:
        """exp(a - b) is 0 where a is bounded, on the condition that each b of a row or column is far above that."""
        direct = self.range(exponent)
        if direct.high < -EXPONENT:
            return Range(0.0, 0.0)
        difference = self._behind(exponent)
        operands = self._finder.operands(difference) if difference.opcode == "subtract" else None
        if operands is None:
            return Range(0.0, math.inf)
        high, subtracted = self.range(operands[0]).high, self._behind(operands[1])
        is_f32 = subtracted.instruction.shape.element_type is PrimitiveType.F32
        if high == math.inf or not is_f32 or not self._finder.varies_with_one(subtracted):
            return Range(0.0, math.inf)
        self.conditions.append(RowBound(subtracted, high + EXPONENT))
        return Range(0.0, 0.0)

    def _behind(self, place: Place) -> Place:
        while place.opcode in _PASSED:
            operands = self._finder.operands(place)
            if not operands:
                break
            place = operands[0]
        return place

    def _compare(self, place: Place) -> Range:
        """A pred as 0 or 1."""
        direction = place.instruction.attributes_as(at.CompareAttributes).direction
        difference = self._finder.difference(place)
        if difference is not None:
            x = self._difference(*difference)
        else:
            operands = self._finder.operands(place)
            if operands is None:
                return LOGICAL
            a, b = (self.range(operand) for operand in operands)
            if not all(map(math.isfinite, (a.low, a.high, b.low, b.high))):
                return LOGICAL
            x = Range(a.low - b.high, a.high - b.low)
        true, false = {
            "GE": (x.low >= 0, x.high < 0),
            "GT": (x.low > 0, x.high <= 0),
            "LE": (x.high <= 0, x.low > 0),
            "LT": (x.high < 0, x.low >= 0),
            "EQ": (x.value == 0, x.low > 0 or x.high < 0),
            "NE": (x.low > 0 or x.high < 0, x.value == 0),
        }[direction]
        return Range(float(true), float(not false))

    def _difference(self, row: int, column: int, k: int) -> Range:
        """The range of row * r + column * c + k on the half-plane: where their edges are parallel."""
        plane = self._plane
        if (row, column) == (plane.row, plane.column):
            return Range(k - plane.offset, math.inf)
        if (row, column) == (-plane.row, -plane.column):
            return Range(-math.inf, k + plane.offset)
        return ANY


def _add(a: Range, b: Range) -> Range:
    return Range(_sum(a.low, b.low, -math.inf), _sum(a.high, b.high, math.inf))


def _sum(a: float, b: float, unknown: float) -> float:
    total = a + b
    return unknown if math.isnan(total) else total


def _negate(a: Range) -> Range:
    return Range(-a.high, -a.low)


def _multiply(a: Range, b: Range) -> Range:
    products = [0.0 if 0 in (x, y) else x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Range(min(products), max(products))


def _divide(a: Range, b: Range) -> Range:
    if a.value == 0:
        return a
    return _multiply(a, Range(1 / b.high, 1 / b.low)) if b.low > 0 else ANY


def _rounded(a: Range, place: Place) -> Range:
    """Rounding is monotone."""
    dtype = place.instruction.shape.dtype
    if not place.instruction.shape.element_type.is_float:
        whole = a.value is not None and a.value in (0.0, 1.0)
        return a if whole else ANY
    with np.errstate(over="ignore"):
        return Range(float(np.asarray(a.low).astype(dtype)), float(np.asarray(a.high).astype(dtype)))


_RULES: Mapping[str, Callable[..., Range]] = {
    "add": _add,
    "subtract": lambda a, b: _add(a, _negate(b)),
    "negate": _negate,
    "multiply": _multiply,
    "divide": _divide,
    "maximum": lambda a, b: Range(max(a.low, b.low), max(a.high, b.high)),
    "minimum": lambda a, b: Range(min(a.low, b.low), min(a.high, b.high)),
    "convert": lambda a: a,
    "and": lambda a, b: _logical(min, a, b),
    "or": lambda a, b: _logical(max, a, b),
    "not": lambda a: Range(1 - a.high, 1 - a.low),
}
"""By opcode; those of logic are for preds, from 0 to 1."""


def _logical(choose: Callable[[float, float], float], a: Range, b: Range) -> Range:
    return Range(choose(a.low, b.low), choose(a.high, b.high))


def _holds(kind: PrimitiveType, low: float, high: float) -> bool:
    """Whether integers from `low` to `high` are all of a type."""
    bits = kind.bit_width - kind.is_signed
    return -(1 << bits) * kind.is_signed <= low and high < 1 << bits


def _is_pred(place: Place) -> bool:
    return place.instruction.shape.element_type is PrimitiveType.PRED


def _splat(place: Place) -> float | None:
    """The value of a constant, if it has one for all elements."""
    literal = place.instruction.attributes_as(at.ConstantAttributes).literal
    value = literal.splat_value()
    return None if value is None or np.iscomplexobj(value) else float(value)
