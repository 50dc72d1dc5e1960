"""Inverse of an indexing map that is a bijection by construction: permutations, offsets, reversals, reshapes."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from xjit.affine.affine_map import AffineMap
from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.map_variables import DimVar
from xjit.affine.pool import dim
from xjit.affine.rules import linear_combination
from xjit.affine.simplify import RangeContext, range_context

if TYPE_CHECKING:
    from xjit.affine.indexing_map import IndexingMap

__all__ = ["connected_results", "inverse_map", "solve_group"]

_DIM = AffineExprKind.DIM
_MAX_PERMUTED = 4


def inverse_map(source: IndexingMap) -> IndexingMap | None:
    """See `IndexingMap.inverse`.

    Results that share dims form a group. A group is a bijection if its results, linearised by their extents in some
    order, are a mixed-radix number of the group's dims; the dims are then digits of the same number.
    """
    source = source.simplify()
    if source.is_unknown or source.is_known_empty or source.num_symbols or source.constraints:
        return None
    context = range_context(source.dim_bounds)
    extents = [context.interval(e) for e in source.results]
    inverses: dict[int, AffineExpr] = {}
    for dims, results in connected_results(source):
        solved = solve_group(source, context, dims, results)
        if solved is None:
            return None
        inverses.update(solved)
    for i, bounds in enumerate(source.dim_bounds):
        if i not in inverses:
            if not bounds.is_point:
                return None
            inverses[i] = linear_combination([], bounds.lower)
    inverted = AffineMap(len(source.results), 0, tuple([inverses[i] for i in range(source.num_dims)]))
    return source.replace(map=inverted, dim_vars=tuple([DimVar(i) for i in extents])).simplify()


def connected_results(source: IndexingMap) -> list[tuple[int, list[int]]]:
    """Connected components as (bit set of dims, result positions)."""
    groups: list[tuple[int, list[int]]] = []
    for position, expr in enumerate(source.results):
        mask, members = expr.dim_mask, [position]
        for group in [g for g in groups if g[0] & mask]:
            groups.remove(group)
            mask |= group[0]
            members = sorted(members + group[1])
        groups.append((mask, members))
    return groups


def solve_group(
    source: IndexingMap, context: RangeContext, dims: int, results: list[int]
) -> dict[int, AffineExpr] | None:
    """Returns dim -> expression of the results, for one group."""
    orders = permutations(results) if len(results) <= _MAX_PERMUTED else [tuple(results)]
    for order in orders:
        stride = 1
        forward: list[tuple[AffineExpr, int]] = []
        backward: list[tuple[AffineExpr, int]] = []
        base = 0
        for position in reversed(order):
            extent = context.interval(source.results[position])
            forward.append((source.results[position], stride))
            backward.append((dim(position), stride))
            base -= extent.lower * stride
            stride *= extent.size
        number = context.simplify(linear_combination(forward, base))
        solved = _digits(source, number, linear_combination(backward, base), stride, dims)
        if solved is not None:
            return solved
    return None


def _digits(
    source: IndexingMap, number: AffineExpr, value: AffineExpr, total: int, dims: int
) -> dict[int, AffineExpr] | None:
    """Returns each dim as a digit of `value` if `number` is a mixed-radix number below `total` of exactly `dims`."""
    stride = 1
    solved: dict[int, AffineExpr] = {}
    base = number.constant_term
    for term, k in sorted(number.terms, key=lambda t: abs(t[1])):
        if term.kind is not _DIM or abs(k) != stride:
            return None
        bounds = source.dim_bounds[term.rhs]
        digit = (value // stride) % bounds.size
        solved[term.rhs] = digit + bounds.lower if k > 0 else -digit + bounds.upper
        base += k * (bounds.lower if k > 0 else bounds.upper)
        stride *= bounds.size
    missing = [i for i in range(source.num_dims) if dims >> i & 1 and i not in solved]
    if base or stride != total or missing:
        return None
    return solved
