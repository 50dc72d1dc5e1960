"""Simplification and composition of indexing maps.

A constraint on one dim or range variable alone becomes that variable's bounds. A constraint on a run-time variable
stays one: its feasible interval is a promise about the value, not a condition to be checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xjit.affine.affine_map import AffineMap
from xjit.affine.constraints import merge_mod_constraints, normalize_constraint, tighten_by_mod
from xjit.affine.errors import IndexingBudgetError, IndexingError
from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.indexing_map import UNKNOWN, Constraint, DimVar, IndexingMap, RangeVar, RTVar
from xjit.affine.interval import Interval
from xjit.affine.pool import constant, dim, symbol
from xjit.affine.simplify import RangeContext, range_context
from xjit.affine.walks import substitute_all

__all__ = ["compose_indexing_maps", "ranges_from_zero", "rescale_symbols", "simplify_map"]

_DIM = AffineExprKind.DIM
_SYMBOL = AffineExprKind.SYMBOL
_MOD = AffineExprKind.MOD
_ROUNDS: Final = 8
MAX_COMPOSED_SIZE: Final = (
    1_000  # nodes of all results with nested divisions: reshapes that do not cancel multiply them
)


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
    rt_bounds = domain.symbols[domain.first_rt :]
    simplified = IndexingMap(
        _simplify_affine(source.map, context),
        tuple([DimVar(b, v.name) if b is not v.bounds else v for b, v in zip(domain.dims, source.dim_vars)]),
        tuple([RangeVar(b) if b is not v.bounds else v for b, v in zip(domain.symbols, source.range_vars)]),
        tuple([RTVar(b, v.source, _simplify_affine(v.map, context)) for b, v in zip(rt_bounds, source.rt_vars)]),
        tuple(domain.constraints.items()),
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
    return IndexingMap(zeros, source.dim_vars, is_known_empty=True)


def compose_indexing_maps(first: IndexingMap, second: IndexingMap) -> IndexingMap:
    """Returns second after first: from the domain of `first` to the results of `second`, not simplified.

    Shapes: `first` has as many results as `second` has dims; IndexingError otherwise. Range variables are those of
    `first`, then of `second`; run-time variables likewise. Points where a result of `first` falls outside the bounds
    or constraints of `second` are outside the domain. UNKNOWN if either is, or if the result outgrows its budget.
    """
    if first.is_unknown or second.is_unknown:
        return UNKNOWN
    if len(first.results) != second.num_dims:
        raise IndexingError(f"compose: first map has {len(first.results)} results, second takes {second.num_dims}")
    try:
        return _compose(first, second)
    except IndexingBudgetError:
        return UNKNOWN


def _compose(first: IndexingMap, second: IndexingMap) -> IndexingMap:
    ranges1, ranges2 = len(first.range_vars), len(second.range_vars)
    rts1, rts2 = len(first.rt_vars), len(second.rt_vars)
    num_symbols = ranges1 + ranges2 + rts1 + rts2
    dims = first.num_dims
    first_rt = ranges1 + ranges2
    symbols1 = [symbol(i) for i in (*range(ranges1), *range(first_rt, first_rt + rts1))]
    symbols2 = [symbol(i) for i in (*range(ranges1, first_rt), *range(first_rt + rts1, num_symbols))]
    moved = rts1 > 0 and ranges2 > 0
    inputs = substitute_all(first.results, None, symbols1) if moved else first.results
    inner = {dim(i): e for i, e in enumerate(inputs)}

    def through(exprs: tuple[AffineExpr, ...]) -> tuple[AffineExpr, ...]:
        return tuple([inner[e] if e in inner else substitute_all((e,), inputs, symbols2)[0] for e in exprs])

    context = range_context(first.dim_bounds, first.symbol_bounds)
    if first.constraints:
        context = RangeContext(first.dim_bounds, first.symbol_bounds, dict(first.constraints))
    constraints: list[Constraint] = []
    if first.constraints:
        exprs = tuple([e for e, _ in first.constraints])
        exprs = substitute_all(exprs, None, symbols1) if moved else exprs
        constraints += zip(exprs, [i for _, i in first.constraints])
    if second.constraints:
        constraints += zip(through(tuple([e for e, _ in second.constraints])), [i for _, i in second.constraints])
    empty = first.is_known_empty or second.is_known_empty
    for result, expr, bounds in zip(first.results, inputs, second.dim_bounds):
        low, high = (0, 0) if empty else context.range_of(result)
        if not (bounds.lower <= low and high <= bounds.upper):
            constraints.append((expr, bounds))

    def rt_map(m: AffineMap, results: tuple[AffineExpr, ...]) -> AffineMap:
        return AffineMap(dims, num_symbols if any(e.symbol_mask for e in results) else 0, results)

    rt_vars = [
        RTVar(v.feasible_values, v.source, rt_map(v.map, substitute_all(v.map.results, None, symbols1)))
        for v in first.rt_vars
    ]
    rt_vars += [RTVar(v.feasible_values, v.source, rt_map(v.map, through(v.map.results))) for v in second.rt_vars]
    results = through(second.results)
    size = sum([e.size for e in results if e.depth > 1])
    if size > MAX_COMPOSED_SIZE:
        raise IndexingBudgetError(f"composition has {size} nodes, over the budget of {MAX_COMPOSED_SIZE}")
    return IndexingMap(
        AffineMap(dims, num_symbols, results),
        first.dim_vars,
        first.range_vars + second.range_vars,
        tuple(rt_vars),
        tuple(constraints),
        is_known_empty=empty,
    )


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
