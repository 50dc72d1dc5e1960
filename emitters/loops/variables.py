"""The variables of one kernel: `d0, d1, ...` of affine expressions, with the bounds of each.

Planners and emitters share this table. It knows integers only: where a variable gets its value is the emitter's matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from xjit.affine import AffineExpr, AffineExprKind, Interval, RangeContext, dim


class VariableTable:
    """Bounds of variables, and what follows from them for expressions."""

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self.intervals: list[Interval] = []
        self._ranges = RangeContext((), (), replace_points=True)
        self.simplify = self._ranges.simplify  # with the bounds of the variables
        self.interval = self._ranges.interval
        for bounds in intervals:
            self._add(bounds)

    def _add(self, bounds: Interval) -> None:
        self.intervals.append(bounds)
        self._ranges.add_dim(bounds)

    def new_variable(self, size: int, lower: int = 0) -> int:
        """Returns the position of a new variable with values lower .. lower + size - 1."""
        self._add(Interval(lower, lower + size - 1))
        return len(self.intervals) - 1

    def size(self, position: int) -> int:
        """Returns how many values a variable has."""
        bounds = self.intervals[position]
        return bounds.upper - bounds.lower + 1


def factor_of(offset: AffineExpr, position: int) -> int | None:
    """Returns the coefficient of a variable; None if it also occurs inside a division."""
    factor = 0
    for term, k in offset.terms:
        if term is dim(position):
            factor = k
        elif term.uses_dim(position):
            return None
    return factor


def known_divisor(table: VariableTable, expr: AffineExpr, steps: Mapping[int, int]) -> int:
    """Returns a number that divides all values of an expression, where variable v is lower bound + a multiple of
    steps[v].

    0 for an expression that is always 0.
    """
    if expr.kind is AffineExprKind.DIM:
        step = steps.get(expr.position, 1)
        return math.gcd(step, table.intervals[expr.position].lower)
    if expr.kind is AffineExprKind.MOD:
        return math.gcd(known_divisor(table, expr.lhs, steps), expr.rhs)
    if expr.kind is AffineExprKind.FLOORDIV:
        inner = known_divisor(table, expr.lhs, steps)
        return inner // expr.rhs if inner % expr.rhs == 0 else 1
    parts = (factor * known_divisor(table, term, steps) for term, factor in expr.terms)
    return math.gcd(expr.constant_term, *parts)
