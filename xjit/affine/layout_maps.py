"""Tiled layouts as integer maths: three definitions that agree (formula, index map, pad-reshape-transpose).

A layout is `minor_to_major` (dims from minor to major) and tiles. Tiles apply in turn to the physical dims, major to
minor: the first to the last len(tile) dims, the next to what that left (tile counts, then the tile). A tile size of
-1 (printed `*`) joins its dim with the next more minor one. Bounds that a tile does not divide are padded up. A tiled
scalar is the first element of a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from xjit.affine.affine_map import AffineMap
from xjit.affine.errors import IndexingError
from xjit.affine.expr import AffineExpr
from xjit.affine.indexing_map import DimVar, IndexingMap
from xjit.affine.interval import Interval
from xjit.affine.pool import constant, dim
from xjit.affine.reshape import delinearize
from xjit.affine.simplify import range_context

__all__ = [
    "COMBINED",
    "linear_index",
    "linear_index_with_tile",
    "logical_map",
    "physical_map",
    "tile_array",
    "tiled_shape",
    "untile_array",
    "validate_layout",
]

COMBINED: Final = -1
Tiles: TypeAlias = Sequence[Sequence[int]]


def validate_layout(dims: Sequence[int], minor_to_major: Sequence[int], tiles: Tiles = ()) -> None:
    """Raises IndexingError unless the layout is valid for an array of `dims`."""
    if any(n < 0 for n in dims):
        raise IndexingError(f"layout: sizes must not be negative, found {tuple(dims)}")
    if sorted(minor_to_major) != list(range(len(dims))):
        raise IndexingError(
            f"layout: minor_to_major must name each of the {len(dims)} dims once, found {tuple(minor_to_major)}"
        )
    rank = len(_dims_to_tile(dims, tiles))
    for tile in tiles:
        rank = _validate_tile(tile, rank)


def _dims_to_tile(dims: Sequence[int], tiles: Tiles) -> list[int]:
    """Returns the dims that the tiles apply to. A scalar has as many dims of size 1 as its first tile has sizes."""
    return list(dims) if dims or not tiles else [1] * len(tiles[0])


def _validate_tile(tile: Sequence[int], rank: int) -> int:
    """Returns the rank after the tile is applied to `rank` dims."""
    text = "(" + ",".join("*" if t == COMBINED else str(t) for t in tile) + ")"
    if not tile:
        raise IndexingError("layout: a tile needs at least one size, found ()")
    if len(tile) > rank:
        raise IndexingError(f"layout: tile {text} has {len(tile)} sizes, but only {rank} dims are left to tile")
    if any(t <= 0 and t != COMBINED for t in tile):
        raise IndexingError(f"layout: tile sizes must be positive or *, found {text}")
    if tile[-1] == COMBINED:
        raise IndexingError(f"layout: * on the most minor dim has nothing to combine with, found {text}")
    combined = sum(t == COMBINED for t in tile)
    return rank - combined + len(tile) - combined


def _combine(bounds: Sequence[int], tile: Sequence[int]) -> list[list[int]]:
    """Groups the dims under the tile: runs of * with the dim that takes them in."""
    first = len(bounds) - len(tile)
    groups: list[list[int]] = [[]]
    for position, size in enumerate(tile, first):
        groups[-1].append(position)
        if size != COMBINED:
            groups.append([])
    return groups[:-1]


def _apply_tile(bounds: Sequence[int], tile: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Returns (bounds above the tile, combined bounds under it, tile sizes without *)."""
    groups = _combine(bounds, tile)
    sizes = [t for t in tile if t != COMBINED]
    return list(bounds[: len(bounds) - len(tile)]), [prod(bounds[i] for i in g) for g in groups], sizes


def _tile_indices(indices: list[Any], bounds: list[int], tile: Sequence[int]) -> tuple[list[Any], list[int]]:
    """One tiling step on indices (ints, arrays or affine expressions) and bounds."""
    first = len(bounds) - len(tile)
    outer, combined, sizes = _apply_tile(bounds, tile)
    joined = [linear_index([indices[i] for i in group], [bounds[i] for i in group]) for group in _combine(bounds, tile)]
    counts = [-(-n // t) for n, t in zip(combined, sizes)]
    new = [*indices[:first], *[e // t for e, t in zip(joined, sizes)], *[e % t for e, t in zip(joined, sizes)]]
    return new, [*outer, *counts, *sizes]


def linear_index(indices: Sequence[Any], dims: Sequence[int]) -> Any:
    """Returns the row-major position of `indices` (ints, NumPy arrays or affine expressions) in an array of `dims`."""
    total: Any = 0
    for index, size in zip(indices, dims, strict=True):
        total = total * size + index
    return total


def linear_index_with_tile(indices: Sequence[Any], dims: Sequence[int], tiles: Tiles | Sequence[int]) -> Any:
    """Returns the physical position of `indices` in a row-major array of `dims` with a tile or a list of tiles.

    Dims are physical, major to minor. `linear_index_with_tile((2, 3), (3, 5), (2, 2)) == 17`.
    """
    steps: Tiles = [tiles] if tiles and isinstance(tiles[0], int) else tiles  # type: ignore[list-item]
    validate_layout(dims, range(len(dims)), steps)
    bounds = _dims_to_tile(dims, steps)
    new = [0] * (len(bounds) - len(dims)) + list(indices)
    for tile in steps:
        new, bounds = _tile_indices(new, bounds, tile)
    return linear_index(new, bounds)


def tiled_shape(dims: Sequence[int], tiles: Tiles) -> tuple[int, ...]:
    """Returns the shape of the buffer, padding included, of an array of physical `dims` (major to minor)."""
    validate_layout(dims, range(len(dims)), tiles)
    bounds = _dims_to_tile(dims, tiles)
    for tile in tiles:
        outer, combined, sizes = _apply_tile(bounds, tile)
        bounds = [*outer, *[-(-n // t) for n, t in zip(combined, sizes)], *sizes]
    return tuple(bounds)


def _key(values: Sequence[int]) -> tuple[int, ...]:
    return tuple([int(v) for v in values])


def physical_map(dims: Sequence[int], minor_to_major: Sequence[int], tiles: Tiles = ()) -> IndexingMap:
    """Returns the map from logical index to linear physical offset, in elements; simplified."""
    return _physical_map(_key(dims), _key(minor_to_major), tuple([_key(t) for t in tiles]))


@lru_cache(maxsize=4096)
def _physical_map(dims: tuple[int, ...], minor_to_major: tuple[int, ...], tiles: Tiles) -> IndexingMap:
    validate_layout(dims, minor_to_major, tiles)
    major_to_minor = minor_to_major[::-1]
    offset = linear_index_with_tile([dim(i) for i in major_to_minor], [dims[i] for i in major_to_minor], tiles)
    offset = offset if isinstance(offset, AffineExpr) else constant(offset)
    return IndexingMap.from_tensor_sizes(AffineMap(len(dims), 0, (offset,)), dims).simplify()


def logical_map(dims: Sequence[int], minor_to_major: Sequence[int], tiles: Tiles = ()) -> IndexingMap:
    """Returns the map from physical offset to logical index; constraints exclude the offsets of padding."""
    return _logical_map(_key(dims), _key(minor_to_major), tuple([_key(t) for t in tiles]))


@lru_cache(maxsize=4096)
def _logical_map(dims: tuple[int, ...], minor_to_major: tuple[int, ...], tiles: Tiles) -> IndexingMap:
    validate_layout(dims, minor_to_major, tiles)
    major_to_minor = minor_to_major[::-1]
    shapes = [_dims_to_tile([dims[i] for i in major_to_minor], tiles)]
    for tile in tiles:
        shapes.append(list(tiled_shape(shapes[-1], [tile])))
    size = prod(shapes[-1])
    signature = IndexingMap(AffineMap(1, 0, ()), (DimVar(Interval(0, size - 1)),), is_known_empty=0 in dims)
    if 0 in dims:
        return signature.replace(map=AffineMap(1, 0, (constant(0),) * len(dims)))
    indices = delinearize(dim(0), shapes[-1])
    constraints: list[tuple[AffineExpr, Interval]] = []
    for bounds, tile in zip(reversed(shapes[:-1]), reversed(list(tiles))):
        indices = _untile_indices(indices, bounds, tile, constraints)
    context = range_context(signature.dim_bounds)
    results: list[AffineExpr] = [constant(0)] * len(dims)
    for position, index in zip(major_to_minor, indices):
        results[position] = context.simplify(index)
    mapped = signature.replace(map=AffineMap(1, 0, tuple(results)), constraints=tuple(constraints))
    return mapped.simplify()


def _untile_indices(
    indices: list[AffineExpr], bounds: list[int], tile: Sequence[int], constraints: list[tuple[AffineExpr, Interval]]
) -> list[AffineExpr]:
    """Inverse of one tiling step; appends the constraints that keep the index inside `bounds`."""
    outer, combined, sizes = _apply_tile(bounds, tile)
    counts = indices[len(outer) : len(outer) + len(sizes)]
    inside = indices[len(outer) + len(sizes) :]
    new = indices[: len(outer)]
    for count, rest, size, bound, group in zip(counts, inside, sizes, combined, _combine(bounds, tile)):
        joined = count * size + rest
        if bound % size:
            constraints.append((joined, Interval(0, bound - 1)))
        new += delinearize(joined, [bounds[i] for i in group])
    return new


def tile_array(x: Any, minor_to_major: Sequence[int], tiles: Tiles = (), fill: Any = 0) -> Any:
    """Returns the 1-D physical buffer of array `x`, padding set to `fill`: transpose, then pad-reshape-transpose."""
    x = np.asarray(x)
    validate_layout(x.shape, minor_to_major, tiles)
    x = x.transpose(tuple(minor_to_major)[::-1])
    x = x.reshape(_dims_to_tile(x.shape, tiles))
    for tile in tiles:
        outer, combined, sizes = _apply_tile(x.shape, tile)
        x = x.reshape(*outer, *combined)
        padding = [(0, 0)] * len(outer) + [(0, -n % t) for n, t in zip(combined, sizes)]
        x = np.pad(x, padding, constant_values=fill)
        x = x.reshape(*outer, *[n for pair in zip([-(-n // t) for n, t in zip(combined, sizes)], sizes) for n in pair])
        x = x.transpose(_split_order(len(outer), len(sizes)))
    return np.ascontiguousarray(x).reshape(-1)


def untile_array(buffer: Any, dims: Sequence[int], minor_to_major: Sequence[int], tiles: Tiles = ()) -> Any:
    """Returns the array of `dims` whose physical buffer is `buffer`; inverse of `tile_array`."""
    validate_layout(dims, minor_to_major, tiles)
    major_to_minor = tuple(minor_to_major)[::-1]
    shapes = [_dims_to_tile([dims[i] for i in major_to_minor], tiles)]
    for tile in tiles:
        shapes.append(list(tiled_shape(shapes[-1], [tile])))
    buffer = np.asarray(buffer)
    if buffer.size != prod(shapes[-1]):
        raise IndexingError(f"untile: buffer has {buffer.size} elements, expected {prod(shapes[-1])}")
    x = buffer.reshape(shapes[-1])
    for bounds, tile in zip(reversed(shapes[:-1]), reversed(list(tiles))):
        outer, combined, sizes = _apply_tile(bounds, tile)
        x = x.transpose(np.argsort(_split_order(len(outer), len(sizes))))
        x = x.reshape(*outer, *[-(-n // t) * t for n, t in zip(combined, sizes)])
        x = x[tuple([slice(n) for n in (*outer, *combined)])].reshape(bounds)
    return x.reshape([dims[i] for i in major_to_minor]).transpose(minor_to_major_inverse(minor_to_major))


def minor_to_major_inverse(minor_to_major: Sequence[int]) -> tuple[int, ...]:
    """Returns the permutation that brings a major-to-minor array back to logical order."""
    major_to_minor = tuple(minor_to_major)[::-1]
    return tuple([major_to_minor.index(i) for i in range(len(major_to_minor))])


def _split_order(outer: int, tiled: int) -> tuple[int, ...]:
    """Permutation from (outer, count, size, count, size, ..) to (outer, counts, sizes)."""
    counts = range(outer, outer + 2 * tiled, 2)
    return (*range(outer), *counts, *[i + 1 for i in counts])
