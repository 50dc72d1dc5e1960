"""Closed integer intervals with int64 saturating arithmetic.

Invariants: bounds are Python ints within int64; `upper < lower` means empty, and every operation on an empty interval
gives an empty interval. Results are sound: they contain every value that the operation can produce.
"""

from __future__ import annotations

from operator import index
from typing import Final

from xjit.dataclass import dataclass

__all__ = ["EMPTY_INTERVAL", "INT64_MAX", "INT64_MIN", "UNBOUNDED", "Interval", "saturate"]

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


def saturate(value: int) -> int:
    """Returns `value` clamped to int64."""
    return INT64_MIN if value < INT64_MIN else INT64_MAX if value > INT64_MAX else value


def _positive(divisor: int) -> int:
    if divisor <= 0:
        raise ValueError(f"divisor of an interval must be positive, found {divisor}")
    return divisor


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """The integers x with lower <= x <= upper; empty if upper < lower."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        lower, upper = self.lower, self.upper
        if type(lower) is not int or type(upper) is not int or lower < INT64_MIN or upper > INT64_MAX:
            object.__setattr__(self, "lower", saturate(index(lower)))
            object.__setattr__(self, "upper", saturate(index(upper)))

    @staticmethod
    def point(value: int) -> Interval:
        """Returns [value, value]."""
        return Interval(value, value)

    @staticmethod
    def of_size(size: int) -> Interval:
        """Returns [0, size - 1], the index range of a dimension of `size` elements."""
        return Interval(0, size - 1)

    @property
    def is_empty(self) -> bool:
        return self.upper < self.lower

    @property
    def is_point(self) -> bool:
        return self.lower == self.upper

    @property
    def size(self) -> int:
        """Number of integers inside."""
        return max(0, self.upper - self.lower + 1)

    def contains(self, other: int | Interval) -> bool:
        """True if the value, or every value of the interval, lies inside."""
        if isinstance(other, Interval):
            return other.is_empty or (self.lower <= other.lower and other.upper <= self.upper)
        return self.lower <= other <= self.upper

    __contains__ = contains

    def intersect(self, other: Interval) -> Interval:
        """Returns the common values."""
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper))

    def union(self, other: Interval) -> Interval:
        """Returns the smallest interval that contains both."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper))

    def __neg__(self) -> Interval:
        return EMPTY_INTERVAL if self.is_empty else Interval(saturate(-self.upper), saturate(-self.lower))

    def __add__(self, other: int | Interval) -> Interval:
        other = other if isinstance(other, Interval) else Interval(other, other)
        if self.is_empty or other.is_empty:
            return EMPTY_INTERVAL
        return Interval(saturate(self.lower + other.lower), saturate(self.upper + other.upper))

    __radd__ = __add__

    def __sub__(self, other: int | Interval) -> Interval:
        return self + -other

    def __rsub__(self, other: int | Interval) -> Interval:
        return -self + other

    def __mul__(self, other: int | Interval) -> Interval:
        other = other if isinstance(other, Interval) else Interval(other, other)
        if self.is_empty or other.is_empty:
            return EMPTY_INTERVAL
        corners = [a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        return Interval(saturate(min(corners)), saturate(max(corners)))

    __rmul__ = __mul__

    def floordiv(self, divisor: int) -> Interval:
        """Returns the values of x floordiv divisor; divisor must be positive."""
        _positive(divisor)
        return EMPTY_INTERVAL if self.is_empty else Interval(self.lower // divisor, self.upper // divisor)

    def mod(self, divisor: int) -> Interval:
        """Returns the values of x mod divisor (never negative); divisor must be positive."""
        _positive(divisor)
        if self.is_empty:
            return EMPTY_INTERVAL
        if self.lower // divisor == self.upper // divisor:
            return Interval(self.lower % divisor, self.upper % divisor)
        return Interval(0, divisor - 1)

    __floordiv__ = floordiv
    __mod__ = mod

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper}]"


EMPTY_INTERVAL: Final = Interval(0, -1)
UNBOUNDED: Final = Interval(INT64_MIN, INT64_MAX)
