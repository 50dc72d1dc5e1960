"""Sets of indexing maps between one pair of arrays, kept small by widening.

A set says which elements may be read: the union of its maps. Widening gives up precision, never an element: a result
that maps disagree on becomes a range variable over all that it can be. UNKNOWN stays what opcodes say of which nothing
is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from xjit.affine import (
    UNKNOWN,
    AffineExpr,
    AffineExprKind,
    AffineMap,
    DimVar,
    IndexingMap,
    Interval,
    RangeContext,
    RangeVar,
    constant,
    range_context,
    symbol,
)
from xjit.hlo.types.shape import Shape
from xjit.indexing.runtime_values import replace_known_values

__all__ = [
    "MAX_MAPS",
    "MapSet",
    "add",
    "add_all",
    "box_map",
    "finished",
    "full_map",
    "hull",
    "reads_everything",
    "without_runtime_values",
]

MAX_MAPS: Final = 32
MapSet: TypeAlias = "dict[IndexingMap, None]"


def add(maps: MapSet, new: IndexingMap, keep_empty: bool = False, limit: int = MAX_MAPS) -> bool:
    """Adds a map to a set; returns False if the set had to be widened because it would have more than `limit` maps.

    A map that relates nothing is left out (`keep_empty`: unless it is the only one); an unknown one stays alone.
    """
    if UNKNOWN in maps or (new.is_known_empty and (maps or not keep_empty)):
        return True
    if keep_empty and len(maps) == 1 and next(iter(maps)).is_known_empty:
        maps.clear()
    full = len(maps) >= limit and new not in maps and not new.is_unknown
    if full:
        new = hull([*maps, new])
    if new.is_unknown or full:
        maps.clear()
    maps.setdefault(new)
    return not full


def add_all(maps: Iterable[IndexingMap], into: MapSet, limit: int = MAX_MAPS) -> bool:
    """Adds maps to a set; returns whether it was not widened."""
    exact = True
    for m in maps:
        exact = add(into, m, limit=limit) and exact
    return exact


def finished(maps: Collection[IndexingMap]) -> MapSet:
    """Returns the set with known run-time values replaced."""
    result: MapSet = {}
    if not any(m.rt_vars or m.is_known_empty for m in maps):
        return dict.fromkeys(maps)
    for m in maps:
        add(result, replace_known_values(m), keep_empty=True)
    return result


def hull(maps: Sequence[IndexingMap]) -> IndexingMap:
    """Returns one map that relates all that `maps` do. They relate something each, and share dims and results.

    What they agree on of the dims is kept, as long as it stays within the results' bounds on the larger domain.
    """
    first = maps[0]
    dims = [_around([m.dim_bounds[i] for m in maps]) for i in range(first.num_dims)]
    bounds = [_around(column) for column in zip(*[_image_bounds(m) for m in maps], strict=True)]
    context = range_context(dims)
    results: list[AffineExpr | None] = []
    for position, (e, interval) in enumerate(zip(first.results, bounds, strict=True)):
        same = not e.symbol_mask and all(m.results[position] is e for m in maps)
        results.append(e if same and _within(context, e, interval) else None)
    names = [v.name for v in first.dim_vars]
    return _boxed([DimVar(b, name) for b, name in zip(dims, names, strict=True)], results, bounds)


def full_map(m: IndexingMap, sizes: Sequence[int], operand_sizes: Sequence[int]) -> IndexingMap:
    """Returns a hull on all of `sizes`, its range variables taken over all of the operand's dimensions."""
    dims = [DimVar(Interval(0, n - 1)) for n in sizes]
    bounds = [Interval(0, n - 1) for n in operand_sizes]
    context = range_context([v.bounds for v in dims])
    kept = [None if e.symbol_mask or not _within(context, e, b) else e for e, b in zip(m.results, bounds, strict=True)]
    return _boxed(dims, kept, bounds)


def box_map(source: IndexingMap, target: IndexingMap) -> IndexingMap:
    """Returns the map from every point of `source`'s domain to everything that `target` may read: a cheap composition.

    What `target` may read is a box around its image. Neither map is unknown.
    """
    if source.is_known_empty or target.is_known_empty:
        zeros = AffineMap(source.num_dims, 0, (constant(0),) * len(target.results))
        return IndexingMap(zeros, source.dim_vars, is_known_empty=True)
    return _boxed(source.dim_vars, [None] * len(target.results), _image_bounds(target))


def reads_everything(maps: MapSet, shape: Shape) -> bool:
    """Whether the set is the one map that reads all of an array, whatever the point."""
    if len(maps) != 1:
        return False
    m = next(iter(maps))
    if m.is_unknown or m.constraints or m.rt_vars or len(m.range_vars) != len(set(m.results)):
        return False
    for e, n in zip(m.results, shape.dimensions, strict=True):
        if e.kind is not AffineExprKind.SYMBOL or m.range_vars[e.position].bounds != Interval(0, n - 1):
            return False
    return True


def without_runtime_values(m: IndexingMap) -> IndexingMap:
    """Returns the map with run-time variables taken as range variables: any feasible value, another one every time."""
    if not m.rt_vars or m.is_unknown:
        return m
    ranges = (*m.range_vars, *[RangeVar(v.feasible_values) for v in m.rt_vars])
    return m.replace(range_vars=ranges, rt_vars=()).simplify()


def _boxed(dim_vars: Iterable[DimVar], results: Sequence[AffineExpr | None], bounds: Sequence[Interval]) -> IndexingMap:
    """Results that are None become range variables over their bounds."""
    dim_vars = tuple(dim_vars)
    ranges: list[RangeVar] = []
    exprs: list[AffineExpr] = []
    for e, interval in zip(results, bounds, strict=True):
        if e is None and interval.is_point:
            e = constant(interval.lower)
        elif e is None:
            e = symbol(len(ranges))
            ranges.append(RangeVar(interval))
        exprs.append(e)
    return IndexingMap(AffineMap(len(dim_vars), len(ranges), tuple(exprs)), dim_vars, tuple(ranges)).simplify()


def _image_bounds(m: IndexingMap) -> list[Interval]:
    """Intervals around the results; those of a lone variable are exact."""
    if not m.constraints:
        context = range_context(m.dim_bounds, m.symbol_bounds)
    else:
        context = RangeContext(m.dim_bounds, m.symbol_bounds, dict(m.constraints))
    return [m.dim_bounds[e.position] if e.kind is AffineExprKind.DIM else context.interval(e) for e in m.results]


def _around(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(i.lower for i in intervals), max(i.upper for i in intervals))


def _within(context: RangeContext, e: AffineExpr, interval: Interval) -> bool:
    low, high = context.range_of(e)
    return interval.lower <= low and high <= interval.upper
