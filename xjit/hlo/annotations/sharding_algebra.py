"""Operations on tiled shardings: moving them between arrays, merging two, and which of two says more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from xjit.hlo.annotations.device_sharding import DeviceSharding, Grid, tiled

NO_FACTOR = -1
_REMEMBERED = 4096  # a program has few shardings, and asks for each very often


@lru_cache(_REMEMBERED)
def move(
    sharding: DeviceSharding,
    source: tuple[int, ...],
    target: tuple[int, ...],
    sizes: tuple[int, ...],
) -> DeviceSharding:
    """Returns what the sharding of one array means for another whose dimensions are named alike.

    `source` and `target` name the dimensions of both by numbers (NO_FACTOR: by none). Tiles of dimensions that the
    target does not have become replicas, and so do those of dimensions with fewer than that many elements (`sizes`).
    """
    if not sharding.is_tiled or sharding.rank != len(source):
        return sharding
    places = {f: d for d, f in reversed(list(enumerate(source))) if f != NO_FACTOR}
    atoms: list[list[int]] = []
    for factor, size in zip(target, sizes, strict=True):
        dimension = places.pop(factor, None)
        fits = dimension is not None and sharding.tiles[dimension] <= size
        atoms.append([dimension] if dimension is not None and fits else [])
    return _regroup(sharding, sharding.grid, atoms, sharding.rank)


def _regroup(sharding: DeviceSharding, grid: Grid, atoms: list[list[int]], rank: int) -> DeviceSharding:
    """Returns the sharding whose dimension i is made of `atoms[i]` of the grid; other data dimensions are replicas."""
    used = [d for dims in atoms for d in dims]
    rest = [d for d in range(rank) if d not in used]
    subgroups = list(range(rank, grid.ndim))
    tiles = [math.prod(grid.shape[d] for d in dims) for dims in atoms]
    ordered = grid.transpose([*used, *rest, *subgroups])
    replicas = math.prod(grid.shape[d] for d in rest)
    shape = (*tiles, replicas, *(grid.shape[d] for d in subgroups))
    return tiled(ordered.reshape(shape), ("replicated", *sharding.subgroups))


@dataclass(slots=True)
class _Run:
    """A factor of an old dimension's size, major to minor; `split` if each of its steps is a tile of its own."""

    size: int
    split: bool


@lru_cache(_REMEMBERED)
def reshape(sharding: DeviceSharding, old: tuple[int, ...], new: tuple[int, ...]) -> DeviceSharding:
    """Returns what a sharding of an array of sizes `old` means after a reshape to sizes `new`.

    A dimension's tiles are kept where they are whole runs of elements of new dimensions; others become replicas.
    """
    if not sharding.is_tiled or sharding.rank != len(old) or not math.prod(old):
        return sharding
    if any(size == 1 < tiles for size, tiles in zip(old, sharding.tiles)):
        sharding = move(sharding, tuple(range(len(old))), tuple(range(len(old))), old)
        if not sharding.is_tiled:
            return sharding
    shape: list[int] = []
    atoms: list[list[int]] = [[] for _ in new]
    for old_dims, new_dims in _groups(old, new):
        tiles = [sharding.tiles[d] for d in old_dims]
        if len(old_dims) == len(new_dims) == 1:
            atoms[new_dims[0]].append(len(shape))
            shape.append(tiles[0])
            continue
        sizes, kept = _regroup_runs([old[d] for d in old_dims], tiles, [new[d] for d in new_dims])
        for d, indices in zip(new_dims, kept, strict=True):
            atoms[d] = [len(shape) + i for i in indices]
        shape.extend(sizes)
    grid = sharding.grid.reshape(*shape, *sharding.tiles[sharding.rank :])
    return _regroup(sharding, grid, atoms, len(shape))


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Returns the finest pairs of dimension runs with equal numbers of elements; dimensions of one stand alone."""
    groups = [([d], list[int]()) for d, size in enumerate(old) if size == 1]
    groups += [(list[int](), [d]) for d, size in enumerate(new) if size == 1]
    olds, news = ([d for d, size in enumerate(sizes) if size != 1] for sizes in (old, new))
    while olds:
        a, b = [olds.pop(0)], [news.pop(0)]
        while (left := math.prod(old[d] for d in a)) != (right := math.prod(new[d] for d in b)):
            if left < right:
                a.append(olds.pop(0))
            else:
                b.append(news.pop(0))
        groups.append((a, b))
    return groups


def _regroup_runs(old: list[int], tiles: list[int], new: list[int]) -> tuple[list[int], list[list[int]]]:
    """Returns the sizes of the grid's parts along some old dimensions, and which of them split each new dimension."""
    runs: list[_Run] = []
    for size, count in zip(old, tiles, strict=True):
        if size % count:
            return tiles, [[] for _ in new]
        runs += [_Run(count, True), _Run(size // count, False)]
    parts: list[int] = []
    kept: list[list[int]] = []
    for size in new:
        indices: list[int] = []
        leading = True
        while size > 1:
            run = runs[0]
            take = math.gcd(run.size, size)
            if take != min(run.size, size):
                return tiles, [[] for _ in new]
            leading = leading and (run.split or run.size == 1)
            if run.split:
                parts.append(take)
                if leading:
                    indices.append(len(parts) - 1)
            size //= take
            run.size //= take
            if run.size == 1:
                runs.pop(0)
        kept.append(indices)
    return parts, kept


@lru_cache(_REMEMBERED)
def merge(a: DeviceSharding, b: DeviceSharding) -> DeviceSharding | None:
    """Returns the sharding that splits an array as both do, by use of their replicas; None if there is none."""
    if not (a.is_tiled and b.is_tiled) or a.rank != b.rank or sorted(a.devices) != sorted(b.devices):
        return None
    if [k for k in a.subgroups if k == "manual"] != [k for k in b.subgroups if k == "manual"]:
        return None
    places_a, places_b = _coordinates(a), _coordinates(b)
    manual = a.tiles[a.rank : a.rank + a.subgroups.count("manual")]
    if manual != b.tiles[b.rank : b.rank + b.subgroups.count("manual")]:
        return None
    kept = a.rank + len(manual)
    sizes: list[int] = []
    cells: list[Grid] = []
    for d in range(kept):
        fine, coarse = (a, b) if a.tiles[d] >= b.tiles[d] else (b, a)
        at_fine, at_coarse = (places_a, places_b) if fine is a else (places_b, places_a)
        if fine.tiles[d] % coarse.tiles[d]:
            return None
        if not np.array_equal(at_fine[:, d] // (fine.tiles[d] // coarse.tiles[d]), at_coarse[:, d]):
            return None
        sizes.append(fine.tiles[d])
        cells.append(at_fine[:, d])
    replicas, remainder = divmod(len(a.devices), math.prod(sizes))
    if remainder or not replicas:
        return None
    flat = np.ravel_multi_index(cells, sizes) if sizes else np.zeros(len(a.devices), dtype=np.int64)
    if (np.bincount(flat, minlength=math.prod(sizes)) != replicas).any():
        return None
    devices = np.sort(a.devices)[np.argsort(flat, kind="stable")].reshape(*sizes, replicas)
    return tiled(devices, ("manual",) * len(manual) + ("replicated",))


def _coordinates(sharding: DeviceSharding) -> Grid:
    """Returns, for each device in the order of the numbers, its place in the grid, without replicas."""
    order = np.argsort(np.array(sharding.devices))
    places = np.stack(np.unravel_index(order, sharding.tiles), axis=1)
    return places[:, : sharding.rank + sharding.subgroups.count("manual")]


def is_more_specific(a: DeviceSharding, b: DeviceSharding) -> bool:
    """Whether `a` says more than `b`: manual over replicated, tiles over none, more tiles over fewer."""
    if a.kind == "manual":
        return not b.is_tiled and b.kind != "manual"
    if b.kind == "manual" or not a.is_tiled:
        return False
    return not b.is_tiled or a.tile_count > b.tile_count


def refines(fine: DeviceSharding, coarse: DeviceSharding) -> bool:
    """Whether each device's tile under `fine` lies within its tile under `coarse`."""
    if not coarse.is_tiled:
        return True
    merged = merge(fine, coarse)
    return merged is not None and merged.data_tiles == fine.data_tiles
