"""Index maps of reshapes, split where prefixes of both shapes have equal products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from xjit.affine.affine_map import AffineMap
from xjit.affine.errors import IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.indexing_map import IndexingMap
from xjit.affine.pool import constant, dim
from xjit.affine.rules import linear_combination
from xjit.affine.simplify import range_context

__all__ = ["common_factors", "delinearize", "linearize", "reshape_map"]


def linearize(indices: Sequence[AffineExpr], sizes: Sequence[int]) -> AffineExpr:
    """Returns the row-major linear index of `indices` in an array of `sizes`."""
    stride = 1
    parts: list[tuple[AffineExpr, int]] = []
    for index, size in zip(reversed(indices), reversed(sizes)):
        parts.append((index, stride))
        stride *= size
    return linear_combination(parts)


def delinearize(linear: AffineExpr, sizes: Sequence[int]) -> list[AffineExpr]:
    """Returns the row-major indices of element `linear`, which is in [0, product of sizes), in an array of `sizes`."""
    if not sizes:
        return []
    indices: list[AffineExpr] = []
    for size in reversed(sizes[1:]):
        indices.append(linear % size)
        linear = linear // size
    return [linear, *reversed(indices)]


def common_factors(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the finest cuts (i, j) with prod(left[:i]) == prod(right[:j]), from (0, 0) to both ranks.

    Sizes are at least 1 and both products are equal. Sizes of 1 stay with the group before them.
    """
    cuts = [(0, 0)]
    i = j = 0
    while i < len(left) or j < len(right):
        a = b = 1
        while True:
            if a == b and a > 1:
                break
            if a <= b and i < len(left):
                a *= left[i]
                i += 1
            elif j < len(right):
                b *= right[j]
                j += 1
            elif i < len(left):
                a *= left[i]
                i += 1
            else:
                break
        while i < len(left) and left[i] == 1:
            i += 1
        while j < len(right) and right[j] == 1:
            j += 1
        cuts.append((i, j))
    return cuts


def reshape_map(from_dims: Sequence[int], to_dims: Sequence[int]) -> IndexingMap:
    """Returns the map from an index of the reshaped array (to_dims) to the index of the operand (from_dims).

    IndexingError unless both have the same number of elements; no elements give a known-empty map.
    """
    if prod(from_dims) != prod(to_dims) or any(n < 0 for n in (*from_dims, *to_dims)):
        raise IndexingError(f"reshape: element counts of {tuple(from_dims)} and {tuple(to_dims)} must be equal")
    if 0 in to_dims:
        zeros = AffineMap(len(to_dims), 0, (constant(0),) * len(from_dims))
        return IndexingMap.from_tensor_sizes(zeros, to_dims)
    results: list[AffineExpr] = []
    cuts = common_factors(from_dims, to_dims)
    for (i0, j0), (i1, j1) in pairwise(cuts):
        group = range(j0, j1)
        kept = [j for j in group if to_dims[j] > 1]
        sizes = [n for n in from_dims[i0:i1] if n > 1]
        digits = iter(delinearize(linearize([dim(j) for j in kept], [to_dims[j] for j in kept]), sizes))
        results += [next(digits) if n > 1 else constant(0) for n in from_dims[i0:i1]]
    reshaped = IndexingMap.from_tensor_sizes(AffineMap(len(to_dims), 0, ()), to_dims)
    context = range_context(reshaped.dim_bounds)
    simplified = tuple([context.simplify(e) for e in results])
    return reshaped.replace(map=AffineMap(len(to_dims), 0, simplified))
