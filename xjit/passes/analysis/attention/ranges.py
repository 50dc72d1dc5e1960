"""Ranges of values, and what operations make of them: monotone arithmetic, rounding, comparisons, logic.

Scores themselves have no range that is known before they are computed. Kernels know one for a block of them, from its
operands: so ranges may be given up to a multiple of a number that is known there.

NaN and infinities that something is multiplied with are left out of account where the other factor is known to be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType

MAX_SCORE = 1e30
"""The largest bound of scores that ranges hold for: beyond it, something computed from them might overflow."""
MAX_SLOPE = 1e6
_MAX_HIGH = 1e37
_LEAST_FINITE = -3e38
ROUNDING = 2.0**-7
"""What sums and roundings change, of a value of a type with at least the digits of bf16."""
_SLOPED_TYPES = (PrimitiveType.F32, PrimitiveType.BF16)

UNDERFLOW: Mapping[PrimitiveType, float] = {
    PrimitiveType.F16: 18.0,
    PrimitiveType.BF16: 94.0,
    PrimitiveType.F32: 104.0,
    PrimitiveType.F64: 746.0,
}
"""exp(-x) of a type is 0 for all x above this. What has no row is not known to become 0."""


@dataclass(frozen=True, slots=True)
class Range:
    """Values from low - slope * t to high + slope * t, where t is what no score exceeds in magnitude; maybe NaN."""

    low: float
    high: float
    slope: float = 0.0
    may_be_nan: bool = False

    @property
    def value(self) -> float | None:
        """The value, if there is just one."""
        return self.low if self.low == self.high and not self.slope and not self.may_be_nan else None

    @property
    def is_bounded(self) -> bool:
        """Whether no value is above `high`, and what scores add to it; nor NaN."""
        return self.high < math.inf and not self.may_be_nan

    @property
    def is_low(self) -> bool:
        """Whether values are bounded, and far below 0 if that depends on scores: else all scores would be."""
        return self.is_bounded and (not self.slope or self.high < -UNDERFLOW[PrimitiveType.F32])

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite, and lie between the ends."""
        return math.isfinite(self.low) and math.isfinite(self.high) and not self.slope and not self.may_be_nan


ANY = Range(-math.inf, math.inf, may_be_nan=True)
LOGICAL = Range(0.0, 1.0)
SCORES = Range(0.0, 0.0, 1 + ROUNDING)


def union(a: Range, b: Range) -> Range:
    """Values of either."""
    return Range(min(a.low, b.low), max(a.high, b.high), max(a.slope, b.slope), a.may_be_nan or b.may_be_nan)


def exponential(exponent: Range, kind: PrimitiveType) -> Range:
    """e to the power of a value, in a type."""
    if exponent.is_bounded and not exponent.slope and exponent.high < -UNDERFLOW.get(kind, math.inf):
        return Range(0.0, 0.0)
    return Range(0.0, math.inf, may_be_nan=exponent.may_be_nan)


def compared(a: Range, b: Range, direction: str, is_total_order: bool) -> Range:
    """What a compare is, as 0 or 1. In total order 0 and -0 differ, and ranges do not know which one a value is."""
    if not (a.is_finite and b.is_finite):
        return LOGICAL
    return sign(Range(a.low - b.high, a.high - b.low), direction, knows_zero=not is_total_order)


def sign(x: Range, direction: str, knows_zero: bool = True) -> Range:
    """What a compare of a difference with 0 is, as 0 or 1; if not `knows_zero`, of one that is 0 nothing is known."""
    above, below = x.low > 0, x.high < 0
    not_below, not_above = (x.low >= 0, x.high <= 0) if knows_zero else (above, below)
    is_zero = knows_zero and x.value == 0
    true, false = {
        "GE": (not_below, below),
        "GT": (above, not_above),
        "LE": (not_above, above),
        "LT": (below, not_below),
        "EQ": (is_zero, above or below),
        "NE": (above or below, is_zero),
    }[direction]
    return Range(float(true), float(not false))


def rounded(a: Range, kind: PrimitiveType, dtype: np.dtype) -> Range:
    """Values of a type that is not a logical one. Rounding to a floating-point type is monotone."""
    if not kind.is_float:
        return a if a.value in (0.0, 1.0) else ANY
    if a.slope:
        return _rounded_scores(a, kind)
    with np.errstate(over="ignore"):
        low, high = (float(np.asarray(end).astype(dtype)) for end in (a.low, a.high))
    return replace(a, low=low, high=high)


def _rounded_scores(a: Range, kind: PrimitiveType) -> Range:
    """The ends are moved by more than any rounding; what may overflow is infinite."""
    if kind not in _SLOPED_TYPES or a.slope > MAX_SLOPE or a.high > _MAX_HIGH:
        return ANY
    low = a.low - ROUNDING * abs(a.low) if math.isfinite(a.low) else a.low
    high = a.high + ROUNDING * abs(a.high) if math.isfinite(a.high) else a.high
    if low - MAX_SLOPE * MAX_SCORE < _LEAST_FINITE:
        low = -math.inf
    return Range(low, high, a.slope * (1 + ROUNDING), a.may_be_nan)


def holds(kind: PrimitiveType, low: float, high: float) -> bool:
    """Whether integers from `low` to `high` are all of a type."""
    bits = kind.bit_width - kind.is_signed
    return -(1 << bits) * kind.is_signed <= low and high < 1 << bits


def is_pred(instruction: HloInstruction) -> bool:
    """Whether an instruction has logical values, of which ranges are from 0 to 1."""
    return instruction.shape.element_type is PrimitiveType.PRED


def computed(instruction: HloInstruction, operands: list[Range]) -> Range:
    """What an instruction with a rule makes of ranges; anything if it has none."""
    kind, opcode = instruction.shape.element_type, instruction.opcode
    rule = _RULES.get(opcode)
    if rule is None or (opcode in ("and", "or", "not") and not is_pred(instruction)):
        return LOGICAL if is_pred(instruction) else ANY
    if opcode == "add" and is_pred(instruction):
        return _RULES["or"](*operands)
    result = rule(*operands)
    if opcode == "convert" or kind.is_float:
        return rounded(result, kind, instruction.shape.dtype)
    wraps = kind.is_integer and (opcode == "divide" or not holds(kind, result.low, result.high))
    return ANY if wraps else result


def _add(a: Range, b: Range) -> Range:
    low, high = _sum(a.low, b.low, -math.inf), _sum(a.high, b.high, math.inf)
    meets = (a.high == math.inf and b.low == -math.inf) or (a.low == -math.inf and b.high == math.inf)
    return Range(low, high, a.slope + b.slope, a.may_be_nan or b.may_be_nan or meets)


def _sum(a: float, b: float, unknown: float) -> float:
    total = a + b
    return unknown if math.isnan(total) else total


def _negate(a: Range) -> Range:
    return replace(a, low=-a.high, high=-a.low)


def _multiply(a: Range, b: Range) -> Range:
    if a.value == 0 or b.value == 0:
        return Range(0.0, 0.0)
    if a.slope and b.slope:
        return ANY
    if b.slope:
        a, b = b, a
    slope = a.slope and a.slope * max(abs(b.low), abs(b.high))
    if slope == math.inf:
        return ANY
    products = [0.0 if 0 in (x, y) else x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    meets = any(math.inf in (-x.low, x.high) and y.low <= 0 <= y.high for x, y in ((a, b), (b, a)))
    return Range(min(products), max(products), slope, a.may_be_nan or b.may_be_nan or meets)


def _divide(a: Range, b: Range) -> Range:
    if a.value == 0:
        return a
    return _multiply(a, Range(1 / b.high, 1 / b.low, 0.0, b.may_be_nan)) if b.low > 0 and not b.slope else ANY


def _maximum(a: Range, b: Range) -> Range:
    return replace(union(a, b), low=max(a.low, b.low))


def _minimum(a: Range, b: Range) -> Range:
    return replace(union(a, b), high=min(a.high, b.high))


def _logical(choose: Callable[[float, float], float], a: Range, b: Range) -> Range:
    return Range(choose(a.low, b.low), choose(a.high, b.high))


_RULES: Mapping[str, Callable[..., Range]] = {
    "add": _add,
    "subtract": lambda a, b: _add(a, _negate(b)),
    "negate": _negate,
    "multiply": _multiply,
    "divide": _divide,
    "maximum": _maximum,
    "minimum": _minimum,
    "convert": lambda a: a,
    "and": lambda a, b: _logical(min, a, b),
    "or": lambda a, b: _logical(max, a, b),
    "not": lambda a: Range(1 - a.high, 1 - a.low),
}
"""By opcode; those of logic are for preds, from 0 to 1."""
