"""Rewrites of constraints `lower <= expr <= upper` on integers. Exact: the set of points stays the same."""

from __future__ import annotations

from math import gcd

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.interval import EMPTY_INTERVAL, INT64_MAX, INT64_MIN, Interval
from xjit.affine.rules import linear_combination, mod

__all__ = ["merge_mod_constraints", "normalize_constraint", "tighten_by_mod"]

_FLOORDIV = AffineExprKind.FLOORDIV
_MOD = AffineExprKind.MOD


def _shifted(bound: int, by: int) -> int:
    """Moves a finite bound; the ends of int64 stand for no bound."""
    return bound if bound in (INT64_MIN, INT64_MAX) else bound + by


def normalize_constraint(expr: AffineExpr, interval: Interval) -> tuple[AffineExpr, Interval]:
    """Returns an equivalent constraint without constant term, outer floordiv, common factor or leading minus."""
    lower, upper = interval.lower, interval.upper
    while lower <= upper:
        if expr.constant_term and not expr.is_constant:
            offset = expr.constant_term
            expr = expr - offset
            lower, upper = _shifted(lower, -offset), _shifted(upper, -offset)
        elif expr.linear:
            factor = gcd(*[k for _, k in expr.linear])
            if expr.linear[0][1] < 0:
                factor = -factor
                lower, upper = upper, lower
            if factor == 1:
                break
            expr = linear_combination([(t, k // factor) for t, k in expr.linear])
            lower, upper = _divided_up(lower, factor), _divided_down(upper, factor)
        elif expr.kind is _FLOORDIV:
            lower = lower if lower == INT64_MIN else lower * expr.rhs
            upper = upper if upper == INT64_MAX else upper * expr.rhs + expr.rhs - 1
            expr = expr.lhs
        else:
            break
    return expr, Interval(lower, upper) if lower <= upper else EMPTY_INTERVAL


def _divided_up(bound: int, factor: int) -> int:
    if bound in (INT64_MIN, INT64_MAX):
        return INT64_MIN
    return -(bound // -factor)


def _divided_down(bound: int, factor: int) -> int:
    if bound in (INT64_MIN, INT64_MAX):
        return INT64_MAX
    return bound // factor


def tighten_by_mod(bounds: Interval, constraint: AffineExpr, interval: Interval) -> Interval:
    """Returns the bounds of v cut to the first and last value that satisfy (+-v + c) mod m in `interval`.

    `constraint` is that mod, of a single variable with coefficient 1 or -1.
    """
    (_, sign), offset, m = constraint.lhs.terms[0], constraint.lhs.constant_term, constraint.rhs
    low, high = (bounds.lower, bounds.upper) if sign > 0 else (-bounds.upper, -bounds.lower)
    first, last = max(interval.lower, 0), min(interval.upper, m - 1)
    if first > last or bounds.lower == INT64_MIN or bounds.upper == INT64_MAX:
        return EMPTY_INTERVAL if first > last else bounds
    value = (low + offset) % m
    low += 0 if first <= value <= last else first - value if value < first else m - value + first
    value = (high + offset) % m
    high -= 0 if first <= value <= last else value - last if value > last else value + m - last
    return Interval(low, high) if sign > 0 else Interval(-high, -low)


def merge_mod_constraints(constraints: dict[AffineExpr, Interval]) -> dict[AffineExpr, Interval] | None:
    """Returns constraints with all `x mod m_i = a_i` on one x merged (Chinese remainders); None on contradiction."""
    residues: dict[AffineExpr, tuple[int, int]] = {}
    merged: dict[AffineExpr, Interval] = {}
    for expr, interval in constraints.items():
        if expr.kind is not _MOD or not interval.is_point:
            merged[expr] = interval
            continue
        value, modulus = residues.get(expr.lhs, (0, 1))
        common = gcd(modulus, expr.rhs)
        if (interval.lower - value) % common:
            return None
        step = expr.rhs // common
        multiple = (interval.lower - value) // common * pow(modulus // common, -1, step) % step if step > 1 else 0
        if modulus * step > INT64_MAX:
            merged[expr] = interval
            continue
        residues[expr.lhs] = ((value + modulus * multiple) % (modulus * step), modulus * step)
    for lhs, (value, modulus) in residues.items():
        if modulus > 1:
            merged[mod(lhs, modulus)] = Interval(value, value)
    return merged
