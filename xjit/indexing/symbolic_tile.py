"""Propagates tiles through indexing maps, with the tile's offsets and sizes as symbols.

A tile is, per dim, the indices offset + stride * j with j in [0, size). In a `SymbolicTile`, d<i> stands for offset i
of the output tile and s<i> for its size i; strides are numbers. Run-time variables follow as s<rank + i>.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeAlias

from xjit.affine.errors import IndexingError
from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.affine.indexing_map import Constraint, IndexingMap
from xjit.affine.interval import INT64_MAX, Interval
from xjit.affine.map_inverse import connected_results, solve_group
from xjit.affine.pool import constant, symbol
from xjit.affine.rules import linear_combination
from xjit.affine.simplify import range_context
from xjit.affine.walks import evaluate
from xjit.dataclass import dataclass

__all__ = ["Alternatives", "SymbolicTile", "Tile", "propagate_tile"]

Alternatives: TypeAlias = tuple[tuple[Constraint, ...], ...]  # any of these; within each, all
_ZERO = Interval(0, 0)


@dataclass(frozen=True, slots=True)
class Tile:
    """A hyper-rectangular, strided subset of a tensor."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SymbolicTile:
    """The input tile of a given output tile.

    It always covers what the output tile reads. It is exactly that if each of `constraints` has an alternative that
    holds and `exact` is True; an output tile for which they fail gets a tile that may be too large or misplaced, and
    must not be used.
    """

    rank: int
    offsets: tuple[AffineExpr, ...]
    sizes: tuple[AffineExpr, ...]
    strides: tuple[int, ...]
    constraints: tuple[Alternatives, ...] = ()
    exact: bool = True

    def is_valid(self, offsets: Sequence[int], sizes: Sequence[int], runtime: Sequence[int] = ()) -> bool:
        """True if every constraint holds for this output tile."""
        symbols = (*sizes, *runtime)
        return all(
            any(all(evaluate(e, offsets, symbols) in i for e, i in every) for every in alternatives)
            for alternatives in self.constraints
        )

    def evaluate(self, offsets: Sequence[int], sizes: Sequence[int], runtime: Sequence[int] = ()) -> Tile:
        """Returns the input tile of one output tile; IndexingError unless the tiling is valid for it."""
        if not self.is_valid(offsets, sizes, runtime):
            raise IndexingError(f"output tile of offsets {tuple(offsets)} and sizes {tuple(sizes)} is not valid here")
        symbols = (*sizes, *runtime)
        return Tile(
            tuple([evaluate(e, offsets, symbols) for e in self.offsets]),
            tuple([evaluate(e, offsets, symbols) for e in self.sizes]),
            self.strides,
        )


@dataclass(frozen=True, slots=True)
class _Span:
    """The values offset + stride * j, j in [0, size), stride >= 0; `point`: size is 1 for every tile."""

    offset: AffineExpr
    size: AffineExpr
    stride: int

    @property
    def is_point(self) -> bool:
        return self.size is constant(1)


class _Propagation:
    """State of one propagation."""

    def __init__(self, m: IndexingMap, strides: Sequence[int]) -> None:
        self.m = m
        self.strides = strides
        self.constraints: list[Alternatives] = []
        self.exact = not m.constraints and not m.is_known_empty

    def span(self, expr: AffineExpr) -> _Span:
        kind = expr.kind
        if kind is AffineExprKind.CONSTANT:
            return _Span(expr, constant(1), 0)
        if kind is AffineExprKind.DIM:
            return _Span(expr, symbol(expr.rhs), self.strides[expr.rhs])
        if kind is AffineExprKind.SYMBOL:
            return self._symbol(expr.rhs)
        if kind is AffineExprKind.FLOORDIV:
            return self._floordiv(self.span(expr.lhs), expr.rhs)
        if kind is AffineExprKind.MOD:
            return self._mod(self.span(expr.lhs), expr.rhs)
        return self._sum(expr)

    def _symbol(self, position: int) -> _Span:
        if position >= len(self.m.range_vars):
            rt = position - len(self.m.range_vars)
            return _Span(symbol(self.m.num_dims + rt), constant(1), 0)
        bounds = self.m.range_vars[position].bounds
        return _Span(constant(bounds.lower), constant(bounds.size), 1)

    def _sum(self, expr: AffineExpr) -> _Span:
        """Terms of several elements make one span of the common stride; dense if each step fits the span below it."""
        offset: list[tuple[AffineExpr, int]] = []
        moving: list[tuple[int, AffineExpr]] = []
        seen = 0
        for term, k in expr.linear:
            span = self.span(term)
            offset.append((span.offset, k))
            if span.is_point:
                continue
            mask = term.dim_mask | term.symbol_mask << self.m.num_dims
            self.exact = self.exact and not seen & mask
            seen |= mask
            if k < 0:  # counted from the last element, so that strides stay positive
                offset.append((span.size - 1, k * span.stride))
            moving.append((abs(k) * span.stride, span.size))
        total = linear_combination(offset, expr.constant_term)
        if not moving:
            return _Span(total, constant(1), 0)
        moving.sort(key=lambda step: step[0])
        stride = gcd(*[step for step, _ in moving])
        self.exact = self.exact and moving[0][0] == stride  # steps of 2 and 3 leave holes in a span of step 1
        covered = linear_combination([])
        for i, (step, size) in enumerate(moving):
            if i and step > stride:
                self._require_dense(moving[i:], covered, step // stride)
            covered = covered + (size - 1) * (step // stride)
        return _Span(total, covered + 1, stride)

    def _require_dense(self, larger: list[tuple[int, AffineExpr]], covered: AffineExpr, step: int) -> None:
        """The steps below must reach `step`, or only one element of all larger ones may be taken."""
        dense = (covered, Interval(step - 1, INT64_MAX))
        single = tuple([(size, Interval(1, 1)) for _, size in larger])
        self._require((dense,), single)

    def _floordiv(self, x: _Span, c: int) -> _Span:
        if x.is_point:
            return _Span(x.offset // c, x.size, 0)
        if x.stride % c == 0:
            return _Span(x.offset // c, x.size, x.stride // c)
        extent = x.size * x.stride
        self.exact = self.exact and c % x.stride == 0
        self._require(((x.offset % c, _ZERO), (extent % c, _ZERO)), (self._in_block(x, c),))
        return _Span(x.offset // c, extent.ceildiv(c), 1)

    def _mod(self, x: _Span, c: int) -> _Span:
        if x.is_point or x.stride % c == 0:
            return _Span(x.offset % c, constant(1), 0)
        block = self._in_block(x, c)
        if c % x.stride:
            self._require((block,))
            return _Span(x.offset % c, x.size, x.stride)
        self._require(((x.offset % c, _ZERO), (x.size * x.stride % c, _ZERO)), (block,))
        return _Span(x.offset % c, (x.size - 1) % (c // x.stride) + 1, x.stride)

    def _in_block(self, x: _Span, c: int) -> Constraint:
        """All of the span lies in one block of c."""
        return x.offset % c + (x.size - 1) * x.stride, Interval(0, c - 1)

    def _require(self, *alternatives: tuple[Constraint, ...]) -> None:
        """Adds a constraint unless one of its alternatives holds always."""
        kept = tuple([tuple([c for c in every if not _always(c)]) for every in alternatives if not _never(every)])
        if not any(not every for every in kept) and kept not in self.constraints:
            self.constraints.append(kept)


def _always(constraint: Constraint) -> bool:
    expr, interval = constraint
    return expr.is_constant and expr.value in interval


def _never(every: tuple[Constraint, ...]) -> bool:
    return any(e.is_constant and e.value not in i for e, i in every)


def propagate_tile(m: IndexingMap, strides: Sequence[int] | None = None) -> SymbolicTile:
    """Returns the tile that an output tile reads through `m`, symbolic in the output tile's offsets and sizes.

    `strides` are the output tile's (all 1 by default, positive). Range variables are read in full. The map's own
    constraints make the tile inexact (it covers more than is read). IndexingError if m is unknown.
    """
    m = m.simplify()
    if m.is_unknown:
        raise IndexingError("propagate_tile: the indexing map is unknown")
    strides = tuple(strides) if strides is not None else (1,) * m.num_dims
    if len(strides) != m.num_dims or any(s <= 0 for s in strides):
        raise IndexingError(f"propagate_tile: expected {m.num_dims} positive strides, found {strides}")
    state = _Propagation(m, strides)
    spans = [state.span(e) for e in m.results]
    exact = state.exact and _shared_dims_are_digits(m)
    return SymbolicTile(
        m.num_dims,
        tuple([s.offset for s in spans]),
        tuple([s.size for s in spans]),
        tuple([s.stride or 1 for s in spans]),
        tuple(state.constraints),
        exact,
    )


def _shared_dims_are_digits(m: IndexingMap) -> bool:
    """Results that share a variable are independent only if they are digits of one number; a diagonal is not a tile."""
    context = range_context(m.dim_bounds, m.symbol_bounds)
    for dims, results in connected_results(m):
        if len(results) > 1 and dims and solve_group(m, context, dims, results) is None:
            return False
    shared = seen = 0
    for e in m.results:
        shared |= seen & e.symbol_mask
        seen |= e.symbol_mask
    return not shared & (1 << len(m.range_vars)) - 1
