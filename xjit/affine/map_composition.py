"""Composition of indexing maps: the second after the first, as one map."""

from __future__ import annotations

from typing import Final

from xjit.affine.affine_map import AffineMap
from xjit.affine.errors import IndexingBudgetError, IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.indexing_map import UNKNOWN, Constraint, IndexingMap, RTVar
from xjit.affine.pool import dim, symbol
from xjit.affine.simplify import RangeContext, range_context
from xjit.affine.walks import substitute_all

__all__ = ["compose_indexing_maps"]

MAX_COMPOSED_SIZE: Final = 1_000
"""Nodes of all results with nested divisions: reshapes that do not cancel multiply them."""


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
