"""Simplifies affine expressions under the bounds of their variables.

`RangeContext` holds one box of bounds (and facts: intervals of sub-expressions that constraints give) with its memo;
contexts are shared between callers through a bounded cache. Every rule is exact for all points of the box that satisfy
the facts. Rules that need no bounds have been applied already when an expression is born (see `expr`).

The rules, for a divisor c:
- x floordiv c and x mod c with x inside one block [q*c, q*c + c - 1]: q, and x - q*c;
- x = g*h + r with g dividing c and r in [0, g): x floordiv c = h floordiv (c/g), x mod c = g*(h mod (c/g)) + r;
- facts: a known value replaces the expression; if x mod m = a is known, k*m*(x floordiv m) = k*(x - a).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, TypeAlias

from xjit.affine.errors import IndexingBudgetError
from xjit.affine.expr import AffineExpr, AffineExprKind, Terms
from xjit.affine.interval import Interval
from xjit.affine.pool import constant
from xjit.affine.rules import floordiv, linear_combination, mod
from xjit.affine.walks import division_range

__all__ = ["RangeContext", "range_context", "simplify_expr"]

_CONSTANT = AffineExprKind.CONSTANT
_DIM = AffineExprKind.DIM
_SYMBOL = AffineExprKind.SYMBOL
_FLOORDIV = AffineExprKind.FLOORDIV
_MOD = AffineExprKind.MOD

WORK_BUDGET: Final = 20_000  # nodes rewritten in one call; beyond it the rest stays as it is
_ROUNDS: Final = 16
_MEMO_LIMIT: Final = 50_000
_CONTEXT_LIMIT: Final = 1_024

Bounds: TypeAlias = tuple[int, int]
Facts: TypeAlias = Mapping[AffineExpr, Interval]


class RangeContext:
    """Bounds of variables, and the expressions simplified under them so far.

    `facts` maps an expression without constant term to an interval that holds wherever the results matter.
    """

    __slots__ = ("_dims", "_facts", "_ranges", "_replace_points", "_simplified", "_symbols", "_work")

    def __init__(
        self,
        dims: Sequence[Interval],
        symbols: Sequence[Interval],
        facts: Facts | None = None,
        *,
        replace_points: bool = False,
    ) -> None:
        self._dims: list[Bounds] = [(i.lower, i.upper) for i in dims]
        self._symbols: list[Bounds] = [(i.lower, i.upper) for i in symbols]
        self._facts: dict[AffineExpr, Bounds] = {e: (i.lower, i.upper) for e, i in (facts or {}).items()}
        self._replace_points = replace_points
        self._ranges: dict[AffineExpr, Bounds] = {}
        self._simplified: dict[AffineExpr, AffineExpr] = {}
        self._work = 0

    def add_dim(self, bounds: Interval) -> None:
        """Adds the next dimension; what is known about the others stays valid."""
        self._dims.append((bounds.lower, bounds.upper))

    def interval(self, expr: AffineExpr) -> Interval:
        """Returns an interval that holds every value of `expr`; the box must not be empty."""
        return Interval(*self.range_of(expr))

    def range_of(self, expr: AffineExpr) -> Bounds:
        """`interval` as plain ints that do not saturate."""
        kind = expr.kind
        if kind is _DIM:
            return self._dims[expr.rhs]
        if kind is _SYMBOL:
            return self._symbols[expr.rhs]
        found = self._ranges.get(expr)
        if found is not None:
            return found
        if kind is _FLOORDIV or kind is _MOD:
            low, high = self.range_of(expr.lhs)
            low, high = division_range(kind is _MOD, low, high, expr.rhs)
            low, high = self._with_fact(expr, low, high)
        elif kind is _CONSTANT:
            low = high = expr.constant_term
        else:
            low, high = self._range_of_terms(expr.linear)
            if self._facts:
                low, high = self._with_fact(expr - expr.constant_term, low, high)
            low += expr.constant_term
            high += expr.constant_term
        self._ranges[expr] = (low, high)
        return low, high

    def _range_of_terms(self, terms: Terms | list[tuple[AffineExpr, int]]) -> Bounds:
        low = high = 0
        for term, k in terms:
            a, b = self.range_of(term)
            if k > 0:
                low += k * a
                high += k * b
            else:
                low += k * b
                high += k * a
        return low, high

    def _with_fact(self, expr: AffineExpr, low: int, high: int) -> Bounds:
        fact = self._facts.get(expr)
        if fact is None:
            return low, high
        return max(low, fact[0]), min(high, fact[1])

    def simplify(self, expr: AffineExpr) -> AffineExpr:
        """Returns an expression equal to `expr` everywhere in the box; simplifying it again changes nothing."""
        done = self._simplified.get(expr)
        if done is not None:
            return done
        if len(self._simplified) > _MEMO_LIMIT:
            self._simplified.clear()
            self._ranges.clear()
        self._work = 0
        try:
            return self._fixpoint(expr)
        except IndexingBudgetError:  # an intermediate form outgrew its budget: the expression as it was is still right
            self._simplified[expr] = expr
            return expr

    def _fixpoint(self, expr: AffineExpr) -> AffineExpr:
        done = self._simplified.get(expr)
        if done is not None:
            return done
        current = expr
        for _ in range(_ROUNDS):
            new = self._step(current)
            if new is current:
                break
            current = new
        self._simplified[expr] = current
        self._simplified[current] = current
        return current

    def _step(self, expr: AffineExpr) -> AffineExpr:
        kind = expr.kind
        if kind is _DIM or kind is _SYMBOL:
            if self._replace_points:
                low, high = (self._dims if kind is _DIM else self._symbols)[expr.rhs]
                return constant(low) if low == high else expr
            return expr
        if kind is _CONSTANT:
            return expr
        self._work += 1
        if self._work > WORK_BUDGET:
            return expr
        if kind is _FLOORDIV or kind is _MOD:
            low, high = self.range_of(expr)
            if low == high:
                return constant(low)
            return self._divide(kind is _MOD, self._fixpoint(expr.lhs), expr.rhs)
        return self._step_sum(expr)

    def _step_sum(self, expr: AffineExpr) -> AffineExpr:
        if not expr.depth and not self._replace_points:
            return expr
        parts: list[tuple[AffineExpr, int]] = []
        offset = expr.constant_term
        changed = False
        for term, k in expr.linear:
            new = self._fixpoint(term)
            if self._facts and new.kind is _FLOORDIV and k % new.rhs == 0:
                known = self._known_remainder(new.lhs, new.rhs)
                if known is not None:
                    k //= new.rhs
                    offset -= k * known
                    new = new.lhs
            changed = changed or new is not term
            parts.append((new, k))
        if changed:
            expr = linear_combination(parts, offset)
        return self._recombine(expr) if expr.depth and len(expr.linear) > 1 else expr

    def _recombine(self, expr: AffineExpr) -> AffineExpr:
        """Joins quotients and remainders that bounds have made look different; the sum must become smaller.

        With F = x floordiv m simplified and M = x mod m, k*(x - M - m*F) is 0 and may cancel terms;
        k*m*(y mod n) + k*M = k*((m*y + M) mod (m*n)) is worth it if m*y + M simplifies.
        """
        for remainder, k in expr.linear:
            if remainder.kind is not _MOD:
                continue
            x, m = remainder.lhs, remainder.rhs
            for other, factor in expr.linear:
                if other.kind is _MOD and factor == k * m and other is not remainder:
                    merged = linear_combination([(other.lhs, m), (remainder, 1)])
                    simpler = self._fixpoint(merged)
                    if simpler.size < merged.size:
                        whole = mod(simpler, m * other.rhs)
                        joined = linear_combination([(expr, 1), (whole, k), (remainder, -k), (other, -factor)])
                        if self._is_better(joined, expr):
                            return joined
            quotient = self._fixpoint(floordiv(x, m))
            if quotient.kind is not _CONSTANT:
                joined = linear_combination([(expr, 1), (x, k), (remainder, -k), (quotient, -k * m)])
                if self._is_better(joined, expr) and not _shares_division(joined, quotient):
                    return joined
        return expr

    def _is_better(self, new: AffineExpr, old: AffineExpr) -> bool:
        """Smaller, and its range is as well known."""
        if new.size >= old.size:
            return False
        (low, high), (old_low, old_high) = self.range_of(new), self.range_of(old)
        return old_low <= low and high <= old_high

    def _known_remainder(self, x: AffineExpr, m: int) -> int | None:
        remainder = mod(x, m)
        low, high = self.range_of(remainder)
        return low if low == high else None

    def _divide(self, is_mod: bool, x: AffineExpr, c: int) -> AffineExpr:
        """Simplifies x floordiv c or x mod c for a simplified x."""
        low, high = self.range_of(x)
        first = low // c
        if first == high // c:
            return x - first * c if is_mod else constant(first)
        terms = x.linear
        if len(terms) + (x.constant_term != 0) > 1:
            split = self._split(x, c)
            if split is not None:
                g, quotient, rest = split
                if is_mod:
                    return linear_combination([(mod(quotient, c // g), g), (rest, 1)])
                return floordiv(quotient, c // g)
        return mod(x, c) if is_mod else floordiv(x, c)

    def _split(self, x: AffineExpr, c: int) -> tuple[int, AffineExpr, AffineExpr] | None:
        """Returns (g, h, r) with x = g*h + r, g a divisor of c above 1 and r in [0, g); largest g first."""
        for g in _common_factors(x.linear, c):
            rest = [(t, k) for t, k in x.linear if k % g]
            low, high = self._range_of_terms(rest)
            q = (low + x.constant_term) // g
            if (high + x.constant_term) // g == q:
                whole = [(t, k // g) for t, k in x.linear if k % g == 0]
                return g, linear_combination(whole, q), linear_combination(rest, x.constant_term - g * q)
        return None


def _shares_division(expr: AffineExpr, quotient: AffineExpr) -> bool:
    """True if a floordiv or mod of `quotient` is left in `expr`: nothing cancelled, a mod only changed its form."""
    left = {t for t, _ in expr.terms}
    return any(t.depth and t in left for t, _ in quotient.terms)


def _common_factors(terms: Terms, c: int) -> list[int]:
    """Divisors of c that some coefficients share, above 1, descending."""
    factors = {gcd(k, c) for _, k in terms}
    for g in sorted(factors, reverse=True):
        factors |= {gcd(g, other) for other in tuple(factors)} if len(factors) < 64 else set()
    return sorted([g for g in factors if g > 1], reverse=True)


_contexts: dict[tuple[tuple[Interval, ...], tuple[Interval, ...], bool], RangeContext] = {}


def range_context(
    dims: Sequence[Interval], symbols: Sequence[Interval] = (), *, replace_points: bool = False
) -> RangeContext:
    """Returns the shared context of a box without facts."""
    key = (tuple(dims), tuple(symbols), replace_points)
    found = _contexts.get(key)
    if found is None:
        if len(_contexts) >= _CONTEXT_LIMIT:
            _contexts.clear()
        found = _contexts[key] = RangeContext(dims, symbols, replace_points=replace_points)
    return found


def simplify_expr(
    expr: AffineExpr,
    dim_intervals: Sequence[Interval],
    symbol_intervals: Sequence[Interval] = (),
    *,
    replace_points: bool = False,
) -> AffineExpr:
    """Returns an expression with the value of `expr` wherever variables lie in their intervals; memoised.

    Variables that `expr` does not use may have any interval; if one that it uses is empty, any result is right.
    `replace_points` also replaces variables of one value by that value.
    """
    return range_context(dim_intervals, symbol_intervals, replace_points=replace_points).simplify(expr)
