"""Indices whose variables are digits: of heads that are numbered through, the number of the group and that in it."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, constant, dim, evaluate
from xjit.dataclass import dataclass
from xjit.passes.analysis.attention.places import Place


@dataclass(frozen=True, slots=True)
class Digit:
    """That dimension `number` of an array is read at (variable floordiv divisor) mod the dimension's size."""

    variable: int
    divisor: int
    number: int


def in_terms_of(place: Place, sizes: Sequence[int]) -> dict[int, AffineExpr] | None:
    """Returns variables, of those `sizes`, as expressions over the dimensions of the array that a place is in.

    None if they do not tell all of its elements apart, each by one variable, or by several as the digits of a number;
    or if they do not read all of them. Of what is not read there are only zeros: those that have one value.
    """
    found: dict[int, AffineExpr] = dict.fromkeys(range(len(sizes)), constant(0))
    read: set[int] = set()
    for number, (expr, size) in enumerate(zip(place.index, place.instruction.shape.dimensions, strict=True)):
        rest, below = expr, 1
        digits = sorted(expr.dims, key=lambda d: _factor(expr, d))
        for position in digits:
            if position in read or _factor(expr, position) != below:
                return None
            read.add(position)
            rest = rest - dim(position) * below
            quotient = dim(number).floordiv(below)
            found[position] = quotient if position == digits[-1] else quotient % sizes[position]
            below *= sizes[position]
        if below != size or (digits and rest is not constant(0)):
            return None
    return found


def _factor(expr: AffineExpr, position: int) -> int:
    """What a variable is multiplied with in a sum; 0 if it is inside something else."""
    return next((factor for term, factor in expr.terms if term is dim(position)), 0)


def is_plain(place: Place) -> bool:
    """Whether each index is a variable or a number."""
    return all(e.is_constant or e is dim(min(e.dims)) for e in place.index)


def digits_of(place: Place, sizes: Sequence[int]) -> list[Digit] | None:
    """Returns how each dimension is read that has more than one element, by variable, the highest digits first.

    None if one is read at anything else, at a digit that does not divide its variable's size, or not as a whole.
    """
    found: list[Digit] = []
    for number, (expr, size) in enumerate(zip(place.index, place.instruction.shape.dimensions, strict=True)):
        if size == 1:
            continue
        digit = _digit(expr, size, number, sizes)
        if digit is None:
            return None
        found.append(digit)
    return sorted(found, key=lambda digit: (digit.variable, -digit.divisor))


def _digit(expr: AffineExpr, size: int, number: int, sizes: Sequence[int]) -> Digit | None:
    if len(expr.dims) != 1:
        return None
    (variable,) = expr.dims
    if expr is dim(variable):
        return Digit(variable, 1, number) if size == sizes[variable] else None
    values = [evaluate(expr, [n] * len(sizes)) for n in range(sizes[variable])]
    divisor = next((n for n, value in enumerate(values) if value), 0)
    if not divisor or sizes[variable] % (divisor * size) or values != [n // divisor % size for n in range(len(values))]:
        return None
    return Digit(variable, divisor, number)
