"""Walks over affine expressions: substitution, evaluation, interval arithmetic. Each visits a shared node once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.interval import EMPTY_INTERVAL, Interval, saturate
from xjit.affine.pool import constant
from xjit.affine.rules import floordiv, from_terms, mod
from xjit.affine.semi import SEMI_AFFINE, SEMI_VALUES

__all__ = ["Substitution", "evaluate", "interval_of", "nodes_of", "substitute", "substitute_all"]

Substitution: TypeAlias = "Sequence[AffineExpr | int] | Mapping[int, AffineExpr | int] | None"
Value = TypeVar("Value")

_CONSTANT = AffineExprKind.CONSTANT
_DIM = AffineExprKind.DIM
_SYMBOL = AffineExprKind.SYMBOL
_FLOORDIV = AffineExprKind.FLOORDIV
_MOD = AffineExprKind.MOD


def _mask_of(new: Substitution) -> int:
    """Returns the variables that are replaced, as a bit mask."""
    if not new:
        return 0
    if type(new) is tuple or isinstance(new, Sequence):  # the type of nearly all is found out without the ABC
        return (1 << len(new)) - 1
    mask = 0
    for i in new:
        mask |= 1 << i
    return mask


def substitute(expr: AffineExpr, dim_map: Substitution = None, symbol_map: Substitution = None) -> AffineExpr:
    """Returns `expr` with d<i> replaced by dim_map[i] and s<i> by symbol_map[i], at once; missing ones stay."""
    return substitute_all((expr,), dim_map, symbol_map)[0]


def substitute_all(
    exprs: Sequence[AffineExpr], dim_map: Substitution = None, symbol_map: Substitution = None
) -> tuple[AffineExpr, ...]:
    """Returns each of `exprs` substituted, sharing the work between them; see `substitute`."""
    dims, symbols = dim_map or (), symbol_map or ()
    dim_mask, symbol_mask = _mask_of(dims), _mask_of(symbols)
    memo: dict[AffineExpr, AffineExpr] = {}

    def visit(e: AffineExpr) -> AffineExpr:
        if not (e.dim_mask & dim_mask or e.symbol_mask & symbol_mask):
            return e
        kind = e.kind
        if kind is _DIM or kind is _SYMBOL:
            new = (dims if kind is _DIM else symbols)[e.rhs]
            return new if isinstance(new, AffineExpr) else constant(new)
        result = memo.get(e)
        if result is None:
            if kind is _FLOORDIV:
                result = floordiv(visit(e.lhs), e.rhs)
            elif kind is _MOD:
                result = mod(visit(e.lhs), e.rhs)
            elif kind > _MOD:
                result = SEMI_AFFINE[kind](visit(e.lhs), visit(e.second))
            else:
                result = _substitute_sum(e, visit)
            memo[e] = result
        return result

    return tuple([visit(e) for e in exprs])


def _substitute_sum(expr: AffineExpr, visit: Any) -> AffineExpr:
    total = expr.constant_term
    terms: dict[AffineExpr, int] = {}
    for term, k in expr.linear:
        new: AffineExpr = visit(term)
        if new.linear:
            for t, f in new.linear:
                terms[t] = terms.get(t, 0) + f * k
            total += new.constant_term * k
        elif new.kind is _CONSTANT:
            total += new.constant_term * k
        else:
            terms[new] = terms.get(new, 0) + k
    return from_terms(terms, total)


def evaluate(expr: AffineExpr, dims: Sequence[Any] = (), symbols: Sequence[Any] = ()) -> Any:
    """Returns the value of `expr`; `dims` and `symbols` hold ints or broadcastable NumPy int64 arrays.

    floordiv and mod round towards minus infinity, as Python's and NumPy's operators do. IndexError if a variable has
    no value.
    """
    memo: dict[AffineExpr, Any] = {}

    def visit(e: AffineExpr) -> Any:
        kind = e.kind
        if kind is _DIM:
            return dims[e.rhs]
        if kind is _SYMBOL:
            return symbols[e.rhs]
        if kind is _CONSTANT:
            return e.constant_term
        if e in memo:
            return memo[e]
        if kind is _FLOORDIV:
            result = visit(e.lhs) // e.rhs
        elif kind is _MOD:
            result = visit(e.lhs) % e.rhs
        elif kind > _MOD:
            result = SEMI_VALUES[kind](visit(e.lhs), visit(e.second))
        else:
            result = e.constant_term
            for term, k in e.linear:
                result = result + visit(term) * k
        memo[e] = result
        return result

    return visit(expr)


def interval_of(
    expr: AffineExpr, dim_intervals: Sequence[Interval], symbol_intervals: Sequence[Interval] = ()
) -> Interval:
    """Returns an interval that holds every value of `expr` over the box; empty if a used variable's interval is."""
    memo: dict[AffineExpr, tuple[int, int]] = {}

    def visit(e: AffineExpr) -> tuple[int, int]:
        kind = e.kind
        if kind is _DIM or kind is _SYMBOL:
            bounds = (dim_intervals if kind is _DIM else symbol_intervals)[e.rhs]
            if bounds.is_empty:
                raise _EmptyBoxError
            return bounds.lower, bounds.upper
        if e in memo:
            return memo[e]
        if kind is _FLOORDIV or kind is _MOD:
            low, high = visit(e.lhs)
            low, high = division_range(kind is _MOD, low, high, e.rhs)
        elif kind > _MOD:
            low, high = _semi_range(kind, visit(e.lhs), visit(e.second))
        else:
            low = high = e.constant_term
            for term, k in e.linear:
                a, b = visit(term)
                low += k * (a if k > 0 else b)
                high += k * (b if k > 0 else a)
        memo[e] = (low, high)
        return low, high

    try:
        low, high = visit(expr)
    except _EmptyBoxError:
        return EMPTY_INTERVAL
    return Interval(saturate(low), saturate(high))


class _EmptyBoxError(Exception):
    pass


def division_range(is_mod: bool, low: int, high: int, divisor: int) -> tuple[int, int]:
    """Bounds of x floordiv divisor, or x mod divisor, for x in [low, high]."""
    first, last = low // divisor, high // divisor
    if not is_mod:
        return first, last
    return (low - first * divisor, high - first * divisor) if first == last else (0, divisor - 1)


def _semi_range(kind: AffineExprKind, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Bounds of a semi-affine term: products and quotients are extreme at corners; divisors are positive."""
    if kind is AffineExprKind.REMAINDER:
        return 0, max(right[1] - 1, 0)
    if kind is not AffineExprKind.PRODUCT:
        right = (max(right[0], 1), max(right[1], 1))
    corners = [SEMI_VALUES[kind](a, b) for a in left for b in right]
    return min(corners), max(corners)


def nodes_of(exprs: Sequence[AffineExpr]) -> list[AffineExpr]:
    """Returns every node below `exprs` (terms, not addends with their factors), once, users before operands."""
    seen: dict[AffineExpr, None] = {}
    stack = list(reversed(exprs))
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen[e] = None
        if e.linear:
            stack.extend([t for t, _ in e.linear])
        elif e.depth:
            stack.append(e.lhs)
        elif e.kind > _MOD:
            stack += (e.second, e.lhs)
    return list(seen)
