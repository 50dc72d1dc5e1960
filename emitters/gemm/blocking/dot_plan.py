"""Whether and how a general dot is one strided multiplication: collapsing groups of dimensions. Pure functions of
sizes and strides.

A dot has batch, m (only lhs and out), n (only rhs and out) and k (only lhs and rhs) dimensions, any number of each in
any memory order. What does not collapse becomes a loop around the multiplication, of which there are at most three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.emitters.gemm.blocking.shapes import MAX_BATCH_DIMENSIONS, BatchDimension, GemmShape

LONG = 16
"""Elements of a dimension that fill the kernels."""


@dataclass(frozen=True, slots=True)
class DotDimension:
    """One dimension: its size, and its stride in each operand in elements (0 where it does not occur)."""

    size: int
    lhs: int = 0
    rhs: int = 0
    out: int = 0

    def continues(self, inner: DotDimension) -> bool:
        """Whether this dimension and `inner` are one dimension of `inner`'s strides."""
        return all(
            a == b * inner.size for a, b in ((self.lhs, inner.lhs), (self.rhs, inner.rhs), (self.out, inner.out))
        )


@dataclass(frozen=True, slots=True)
class DotPlan:
    """The multiplication; with `swapped`, the dot's rhs is its lhs and the other way round."""

    shape: GemmShape
    swapped: bool


def plan_dot(
    batch: Sequence[DotDimension], m: Sequence[DotDimension], n: Sequence[DotDimension], k: Sequence[DotDimension]
) -> DotPlan | None:
    """The multiplication that computes the dot, or None: then operands have to be transposed first.

    Results are written fastest along the columns of the multiplication, so operands are swapped if `out` is
    contiguous along m.
    """
    groups = [collapse(group) for group in (batch, m, n, k)]
    swapped = _prefers_swap(groups[1], groups[2])
    if swapped:
        batch_dims, columns, rows, k_dims = (
            [DotDimension(d.size, d.rhs, d.lhs, d.out) for d in group] for group in groups
        )
    else:
        batch_dims, rows, columns, k_dims = groups
    if len(k_dims) > 2:
        return None
    row, other_rows = _pick(rows)
    column, other_columns = _pick(columns)
    loops = [*batch_dims, *other_rows, *other_columns]
    if row.size < LONG < column.size:  # then the right operand is what takes time: it is read in the order of memory
        loops.sort(key=lambda d: -abs(d.rhs))
    if len(loops) > MAX_BATCH_DIMENSIONS:
        return None
    k_outer, k_inner = _order_k(k_dims)
    shape = GemmShape(
        m=row.size,
        n=column.size,
        k_inner=k_inner.size,
        lhs_row=row.lhs,
        lhs_k_inner=k_inner.lhs,
        rhs_k_inner=k_inner.rhs,
        rhs_column=column.rhs,
        out_row=row.out,
        out_column=column.out,
        k_outer=k_outer.size,
        lhs_k_outer=k_outer.lhs,
        rhs_k_outer=k_outer.rhs,
        batch=tuple(BatchDimension(d.size, d.lhs, d.rhs, d.out) for d in reversed(loops)),
    )
    return DotPlan(shape, swapped)


def collapse(dimensions: Sequence[DotDimension]) -> list[DotDimension]:
    """The dimensions without those of size 1, outermost first, merged wherever strides allow."""
    if any(d.size == 0 for d in dimensions):
        return [DotDimension(0, 1, 1, 1)]
    kept = sorted((d for d in dimensions if d.size != 1), key=lambda d: (-d.lhs, -d.rhs, -d.out))
    merged: list[DotDimension] = []
    for dimension in kept:
        if merged and merged[-1].continues(dimension):
            outer = merged.pop()
            dimension = DotDimension(outer.size * dimension.size, dimension.lhs, dimension.rhs, dimension.out)
        merged.append(dimension)
    return merged


def _prefers_swap(m: list[DotDimension], n: list[DotDimension]) -> bool:
    unit_along_m, unit_along_n = any(d.out == 1 for d in m), any(d.out == 1 for d in n)
    return unit_along_m and not unit_along_n and any(d.size > 1 for d in n)


def _pick(dimensions: list[DotDimension]) -> tuple[DotDimension, list[DotDimension]]:
    """The dimension for the kernels, and the others: one that is contiguous in the result, or in the operand and not
    short (as a loop around the multiplication it would read each line of memory again and again), else the largest.
    """
    if not dimensions:
        return DotDimension(1, 1, 1, 1), []
    best = max(dimensions, key=lambda d: (d.out == 1, 1 in (d.lhs, d.rhs) and d.size >= LONG, d.size))
    others = list(dimensions)
    others.remove(best)
    return best, others


def _order_k(dimensions: list[DotDimension]) -> tuple[DotDimension, DotDimension]:
    """(outer, inner): the inner one is contiguous in an operand if that can be."""
    once = DotDimension(1)
    if not dimensions:
        return once, DotDimension(1, 1, 1)
    if len(dimensions) == 1:
        return once, dimensions[0]
    first, second = dimensions
    return (second, first) if min(first.lhs, first.rhs) < min(second.lhs, second.rhs) else (first, second)
