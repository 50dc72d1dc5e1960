"""Simplification of indexing maps.

A constraint on one dim or range variable alone becomes that variable's bounds. A constraint on a run-time variable
stays one: its feasible interval is a promise about the value, not a condition to be checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from xjit.affine.affine_map import AffineMap
from xjit.affine.constraints import merge_mod_constraints, normalize_constraint, tighten_by_mod
from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.interval import Interval
from xjit.affine.map_variables import Constraint, DimVar, RangeVar, RTVar
from xjit.affine.pool import constant, symbol
from xjit.affine.simplify import RangeContext, range_context

if TYPE_CHECKING:
    from xjit.affine.indexing_map import IndexingMap

__all__ = ["ranges_from_zero", "rescale_symbols", "simplify_map"]

_DIM = AffineExprKind.DIM
_SYMBOL = AffineExprKind.SYMBOL
_MOD = AffineExprKind.MOD
_ROUNDS: Final = 8


class _ContradictionError(Exception):
    """The constraints admit no point."""


class _Domain:
    """Bounds and constraints under simplification."""

    def __init__(self, source: IndexingMap) -> None:
        self.dims = list(source.dim_bounds)
        self.symbols = list(source.symbol_bounds)
        self.first_rt = len(source.range_vars)
        self.constraints: dict[AffineExpr, Interval] = dict(source.constraints)
        self.context = range_context(self.dims, self.symbols)

    def simplify(self) -> None:
        """Simplifies until nothing changes; raises _ContradictionError if no point is left."""
        for _ in range(_ROUNDS):
            if any(i.upper < i.lower for i in (*self.dims, *self.symbols)):
                raise _ContradictionError
            if not self.constraints or not self._round():
                return

    def _round(self) -> bool:
        old, old_dims, old_symbols = self.constraints, list(self.dims), list(self.symbols)
        self.constraints = {}
        for expr, interval in old.items():
            self._add(expr, interval)
        merged = merge_mod_constraints(self.constraints)
        if merged is None:
            raise _ContradictionError
        self.constraints = merged
        for expr, interval in merged.items():
            if expr.kind is _MOD and len(expr.lhs.terms) == 1 and abs(expr.lhs.terms[0][1]) == 1:
                self._tighten(expr.lhs.terms[0][0], lambda b, e=expr, i=interval: tighten_by_mod(b, e, i))
        if self.dims != old_dims or self.symbols != old_symbols:
            self.context = range_context(self.dims, self.symbols)
            return True
        return merged != old

    def _add(self, expr: AffineExpr, interval: Interval) -> None:
        expr, interval = normalize_constraint(self.context.simplify(expr), interval)
        low, high = self.context.range_of(expr)
        if interval.is_empty or high < interval.lower or interval.upper < low:
            raise _ContradictionError
        if interval.lower <= low and high <= interval.upper:
            return
        interval = interval.intersect(Interval(low, high))
        if self._tighten(expr, lambda bounds: bounds.intersect(interval)):
            return
        known = self.constraints.get(expr)
        self.constraints[expr] = interval if known is None else known.intersect(interval)
        if self.constraints[expr].is_empty:
            raise _ContradictionError

    def _tighten(self, variable: AffineExpr, cut: Callable[[Interval], Interval]) -> bool:
        """Cuts the bounds of a dim or range variable; False if `variable` is neither."""
        if variable.kind is _DIM:
            bounds = self.dims
        elif variable.kind is _SYMBOL and variable.rhs < self.first_rt:
            bounds = self.symbols
        else:
            return False
        bounds[variable.rhs] = new = cut(bounds[variable.rhs])
        if new.is_empty:
            raise _ContradictionError
        return True


def simplify_map(source: IndexingMap) -> IndexingMap:
    """See `IndexingMap.simplify`."""
    if source.is_unknown:
        return source
    domain = _Domain(source)
    try:
        if source.is_known_empty:
            raise _ContradictionError
        domain.simplify()
    except _ContradictionError:
        return _empty_like(source)
    context = domain.context
    if domain.constraints:
        context = RangeContext(domain.dims, domain.symbols, domain.constraints)
    rt_bounds = zip(domain.symbols[domain.first_rt :], source.rt_vars)
    dim_bounds, range_bounds = zip(domain.dims, source.dim_vars), zip(domain.symbols, source.range_vars)
    simplified = source.replace(
        map=_simplify_affine(source.map, context),
        dim_vars=tuple([DimVar(b, v.name) if b is not v.bounds else v for b, v in dim_bounds]),
        range_vars=tuple([RangeVar(b) if b is not v.bounds else v for b, v in range_bounds]),
        rt_vars=tuple([RTVar(b, v.source, _simplify_affine(v.map, context)) for b, v in rt_bounds]),
        constraints=tuple(domain.constraints.items()),
    )
    return simplified.remove_unused_symbols()


def _simplify_affine(affine_map: AffineMap, context: RangeContext) -> AffineMap:
    results = tuple([context.simplify(e) for e in affine_map.results])
    if results == affine_map.results:
        return affine_map
    return AffineMap(affine_map.num_dims, affine_map.num_symbols, results)


def _empty_like(source: IndexingMap) -> IndexingMap:
    """One form for all maps that relate nothing between the same spaces."""
    zeros = AffineMap(source.num_dims, 0, (constant(0),) * len(source.results))
    return source.replace(map=zeros, range_vars=(), rt_vars=(), constraints=(), is_known_empty=True)


def rescale_symbols(source: IndexingMap) -> IndexingMap:
    """See `IndexingMap.rescale_symbols`."""
    source = source.simplify()
    if source.is_unknown or source.is_known_empty:
        return source
    scaled: dict[int, AffineExpr] = {}
    range_vars = list(source.range_vars)
    kept: list[Constraint] = []
    for expr, interval in source.constraints:
        position = _scalable(expr, interval, len(range_vars))
        if position is None or position in scaled:
            kept.append((expr, interval))
            continue
        variable, sign = expr.lhs.terms[0]
        remainder = (interval.lower - expr.lhs.constant_term) * sign % expr.rhs
        bounds = range_vars[position].bounds
        first, last = -((remainder - bounds.lower) // expr.rhs), (bounds.upper - remainder) // expr.rhs
        scaled[position] = variable * expr.rhs + remainder
        range_vars[position] = RangeVar(Interval(first, last))
    if not scaled:
        return source
    rescaled = source.replace(constraints=tuple(kept)).substitute({}, scaled)
    return rescaled.replace(range_vars=tuple(range_vars)).simplify()


def _scalable(expr: AffineExpr, interval: Interval, num_ranges: int) -> int | None:
    """Returns the position of s if the constraint is (+-s + c) mod k = a for a range variable s."""
    if expr.kind is not _MOD or not interval.is_point or len(expr.lhs.terms) != 1:
        return None
    variable, sign = expr.lhs.terms[0]
    if variable.kind is not _SYMBOL or variable.rhs >= num_ranges or abs(sign) != 1:
        return None
    return variable.rhs


def ranges_from_zero(source: IndexingMap) -> IndexingMap:
    """Returns the map with range variables that count from 0, as loops do."""
    lower = [v.bounds.lower for v in source.range_vars]
    if not any(lower):
        return source
    shifted = source.substitute({}, {i: symbol(i) + n for i, n in enumerate(lower)})
    counted = [RangeVar(Interval(0, v.bounds.upper - v.bounds.lower)) for v in source.range_vars]
    return shifted.replace(range_vars=tuple(counted))
