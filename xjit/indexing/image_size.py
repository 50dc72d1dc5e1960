"""Counts the elements that index maps really read: the exact size of a map's image.

Variables that share a result or a constraint form a group; groups are independent, so their counts multiply. A group
is counted in closed form when its results are lone variables or mixed-radix or dense sums, else by enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any, Final

import numpy as np

from xjit.affine.errors import IndexingBudgetError, IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.indexing_map import Constraint, IndexingMap
from xjit.affine.walks import evaluate
from xjit.dataclass import dataclass

__all__ = ["Utilization", "image_size", "operand_utilization"]

ENUMERATION_LIMIT: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Utilization:
    """Elements of an operand that are read, of all its elements; `exact` is False for an upper bound."""

    elements_read: int
    elements_total: int
    element_bytes: int
    exact: bool = True

    @property
    def fraction(self) -> float:
        return self.elements_read / self.elements_total if self.elements_total else 0.0

    @property
    def bytes_read(self) -> int:
        return self.elements_read * self.element_bytes


def image_size(m: IndexingMap, limit: int = ENUMERATION_LIMIT) -> int:
    """Returns the number of distinct results over the domain, run-time variables ranging over all feasible values.

    IndexingBudgetError if a group needs the enumeration of more than `limit` points; IndexingError if m is unknown.
    """
    m = m.simplify()
    if m.is_unknown:
        raise IndexingError("image_size: the indexing map is unknown")
    if m.is_known_empty:
        return 0
    total = 1
    for variables, results, constraints in _groups(m):
        count = _count_group(m, variables, results, constraints, limit)
        if not count:
            return 0
        total *= count
    return total


def _mask(m: IndexingMap, expr: AffineExpr) -> int:
    return expr.dim_mask | expr.symbol_mask << m.num_dims


def _groups(m: IndexingMap) -> list[tuple[int, list[AffineExpr], list[Constraint]]]:
    groups: list[tuple[int, list[AffineExpr], list[Constraint]]] = []
    items: list[tuple[int, list[AffineExpr], list[Constraint]]] = [(_mask(m, e), [e], []) for e in m.results]
    items += [(_mask(m, c[0]), [], [c]) for c in m.constraints]
    for mask, results, constraints in items:
        for group in [g for g in groups if g[0] & mask]:
            groups.remove(group)
            mask |= group[0]
            results, constraints = group[1] + results, group[2] + constraints
        groups.append((mask, results, constraints))
    return groups


def _count_group(
    m: IndexingMap, variables: int, results: list[AffineExpr], constraints: list[Constraint], limit: int
) -> int:
    bounds = [*m.dim_bounds, *m.symbol_bounds]
    results = list(dict.fromkeys(results))
    if not constraints:
        if len(results) == 1 and not results[0].depth:
            count = _count_sum([(abs(k), bounds[_mask(m, t).bit_length() - 1].size) for t, k in results[0].terms])
            if count is not None:
                return count
        if all(not e.depth and len(e.terms) == 1 for e in results):
            return prod(bounds[i].size for i in range(len(bounds)) if variables >> i & 1)
    values, inside = _evaluate_group(m, variables, results, constraints, limit)
    if not results:
        return int(inside.any())
    columns = [np.broadcast_to(v, inside.shape)[inside] for v in values]
    return _count_distinct(columns)


def _count_sum(terms: list[tuple[int, int]]) -> int | None:
    """Distinct values of sum of k * v, v in [0, size); None unless the sum is mixed-radix or dense."""
    terms = sorted((k, n) for k, n in terms if n > 1)
    if not terms:
        return 1
    step = gcd(*[k for k, _ in terms])
    span = 0
    unique = dense = True
    for k, n in terms:
        unique = unique and k > span
        dense = dense and k <= span + step
        span += k * (n - 1)
    if unique:
        return prod(n for _, n in terms)
    return span // step + 1 if dense else None


def _evaluate_group(
    m: IndexingMap, variables: int, results: list[AffineExpr], constraints: list[Constraint], limit: int
) -> tuple[list[Any], Any]:
    """Returns the results, and whether the constraints hold, over the box of the group's variables."""
    bounds = [*m.dim_bounds, *m.symbol_bounds]
    axes = [i for i in range(len(bounds)) if variables >> i & 1]
    shape = tuple(bounds[i].size for i in axes)
    if prod(shape) > limit:
        raise IndexingBudgetError(f"counting an image needs {prod(shape)} points, over the limit of {limit}")
    values: list[Any] = [b.lower for b in bounds]
    for axis, i in enumerate(axes):
        extent = np.arange(bounds[i].lower, bounds[i].upper + 1, dtype=np.int64)
        values[i] = extent.reshape([-1 if a == axis else 1 for a in range(len(axes))])
    dims, symbols = values[: m.num_dims], values[m.num_dims :]
    inside = np.ones(shape, dtype=bool)
    for expr, interval in constraints:
        value = evaluate(expr, dims, symbols)
        inside = inside & (value >= interval.lower) & (value <= interval.upper)
    return [evaluate(e, dims, symbols) for e in results], inside


def _count_distinct(columns: list[Any]) -> int:
    if not columns[0].size:
        return 0
    code = np.zeros(columns[0].shape, dtype=np.int64)
    for column in columns:
        low, extent = int(column.min()), int(column.max()) - int(column.min()) + 1
        if int(code.max()) * extent + extent >= 2**63:
            return len(np.unique(np.stack(columns), axis=1).T)
        code = code * extent + (column - low)
    return len(np.unique(code))


def operand_utilization(
    maps: Sequence[IndexingMap], shape: Sequence[int], element_bytes: int, limit: int = ENUMERATION_LIMIT
) -> Utilization:
    """Returns what a set of output-to-input maps reads of an operand of `shape`, elements read twice counted once.

    A run-time offset that is the same for all points is taken as one (unknown) value; one that differs from point to
    point gives an upper bound. So do maps that move with different run-time offsets, as what they share is not known,
    unknown maps, and sets that would need more than `limit` points.
    """
    total = prod(shape)
    known = [m.simplify() for m in maps]
    if any(m.is_unknown for m in known):
        return Utilization(total, total, element_bytes, exact=False)
    if any(_reads_everything(m, shape) for m in known):
        return Utilization(total, total, element_bytes)
    moving: dict[object, list[IndexingMap]] = {}
    for m in known:
        if not m.is_known_empty:
            moving.setdefault(_shift(m) if _is_uniform(m) else m, []).append(m)
    try:
        counts = [_count_together(group, shape, limit) for group in moving.values()]
    except IndexingBudgetError:
        return Utilization(total, total, element_bytes, exact=False)
    exact = not counts or (len(counts) == 1 and all(_is_uniform(m) for m in known))
    return Utilization(min(sum(counts), total), total, element_bytes, exact)


def _shift(m: IndexingMap) -> tuple[object, ...]:
    """What the run-time variables of a uniform map add to its results, in a form that can be compared."""
    first = len(m.range_vars)
    return tuple(
        [
            tuple(
                [
                    (k, id(v.source), v.feasible_values, v.map.results)
                    for t, k in e.terms
                    if t.symbol_mask >> first
                    for v in [m.rt_vars[t.position - first]]
                ]
            )
            for e in m.results
        ]
        if m.rt_vars
        else ()
    )


def _count_together(maps: Sequence[IndexingMap], shape: Sequence[int], limit: int) -> int:
    """Elements that maps read together: uniform ones with one shift, which does not change the count, or any one."""
    fixed = list(dict.fromkeys(_fix_uniform(m) for m in maps))
    if len(fixed) > 1:
        return _union_size(fixed, shape, limit)
    count = image_size(fixed[0], limit)
    if _is_uniform(maps[0]):
        return count
    return min(count, prod(b.size for b in maps[0].dim_bounds) * prod(v.bounds.size for v in maps[0].range_vars))


def _reads_everything(m: IndexingMap, shape: Sequence[int]) -> bool:
    """True for the identity on all of the operand."""
    return m.is_identity and not m.num_symbols and [b.size for b in m.dim_bounds] == list(shape)


def _is_uniform(m: IndexingMap) -> bool:
    """True if every run-time variable reads one element whatever the point, and only shifts the results."""
    first = len(m.range_vars)
    constraints_fixed = not any(e.symbol_mask >> first for e, _ in m.constraints)
    shifts = all(not (t.symbol_mask >> first) or not t.depth for e in m.results for t, _ in e.terms)
    return shifts and (not m.rt_vars or constraints_fixed) and all(v.map.is_constant for v in m.rt_vars)


def _fix_uniform(m: IndexingMap) -> IndexingMap:
    """Fixes the run-time variables that read one element at their lower bounds: the count does not depend on it."""
    first = len(m.range_vars)
    fixed = {first + i: v.bounds.lower for i, v in enumerate(m.rt_vars) if v.map.is_constant}
    return m.substitute({}, fixed).simplify() if fixed and _is_uniform(m) else m


def _union_size(maps: Sequence[IndexingMap], shape: Sequence[int], limit: int) -> int:
    if prod(shape) > limit:
        raise IndexingBudgetError(f"a union of images in {prod(shape)} elements is over the limit of {limit}")
    seen = np.zeros(shape, dtype=bool)
    for m in maps:
        if m.is_known_empty:
            continue
        everything = (1 << (m.num_dims + m.num_symbols)) - 1
        values, inside = _evaluate_group(m, everything, list(m.results), list(m.constraints), limit)
        seen[tuple([np.broadcast_to(v, inside.shape)[inside] for v in values])] = True
    return int(np.count_nonzero(seen))
