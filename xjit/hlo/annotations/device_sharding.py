"""`DeviceSharding`: what the text of an array's sharding means, and back.

A tiled sharding is a grid of device numbers: one grid dimension per dimension of the array, then the subgroups, whose
devices hold the same tile (`replicated`) or are on their own (`manual`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from xjit.dataclass import dataclass
from xjit.hlo.annotations.mesh import OpSharding, join_numbers
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.attributes.codecs.shardings import format_sharding_metadata, parse_array_sharding
from xjit.hlo.attributes.codecs.value_text import CodecError

Grid = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeviceSharding:
    """One array's sharding.

    `kind` is replicated, maximal, manual, unknown, tiled, malformed (not as many devices as tiles), or opaque (nothing
    is known of it).

    `tiles` are the sizes of the grid with its subgroups, `devices` its numbers in row-major order (one for maximal).
    `group` is `shard_as N` or `shard_like N`, `metadata` the text of the annotation's origin.
    """

    kind: str
    tiles: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    subgroups: tuple[str, ...] = ()
    group: str = ""
    metadata: str = ""

    @property
    def rank(self) -> int:
        """Number of dimensions of the array, where the sharding is tiled."""
        return len(self.tiles) - len(self.subgroups)

    @property
    def data_tiles(self) -> tuple[int, ...]:
        """Number of tiles along each dimension of the array."""
        return self.tiles[: self.rank]

    @property
    def tile_count(self) -> int:
        """Number of different tiles: 1 if the array is not split."""
        return math.prod(self.data_tiles)

    @property
    def is_tiled(self) -> bool:
        """Whether there is a grid of devices."""
        return self.kind == "tiled"

    @property
    def grid(self) -> Grid:
        """The device numbers, of the shape `tiles`."""
        return np.array(self.devices, dtype=np.int64).reshape(self.tiles)

    def without_origin(self) -> DeviceSharding:
        """The same without group and metadata."""
        return replace(self, group="", metadata="")

    def __str__(self) -> str:
        parts = [self.kind]
        if self.kind == "maximal":
            parts = [f"maximal device={self.devices[0]}"]
        elif self.is_tiled:
            parts = [
                f"devices=[{join_numbers(self.tiles)}]{_device_text(self.devices)}",
                *_subgroup_text(self.subgroups),
            ]
        return " ".join(filter(None, [*parts, self.group, self.metadata]))


REPLICATED = DeviceSharding("replicated")
MANUAL = DeviceSharding("manual")

_SUBGROUPS = {"unreduced": "replicated"}
"""Devices that could each have a summand of an array have the sum, but at the edges (`summing_groups`)."""


def read_sharding(sharding: HloSharding) -> DeviceSharding:
    """Returns what an array's sharding says; `opaque` if its text is of none of the other kinds."""
    found = _by_devices(sharding)
    if found is None:
        return DeviceSharding("opaque")
    read = _read_by_devices(found)
    return replace(read, group=found.group, metadata=format_sharding_metadata(found.metadata))


def _read_by_devices(found: OpSharding) -> DeviceSharding:
    if found.kind:
        devices = found.devices if found.kind == "maximal" and isinstance(found.devices, tuple) else ()
        return DeviceSharding(_SUBGROUPS.get(found.kind, found.kind), devices=devices)
    grid = found.grid()
    if grid is None:
        return DeviceSharding("malformed")
    subgroups = tuple(_SUBGROUPS.get(name, name) for name in found.subgroups)
    if len(subgroups) > grid.ndim or not set(subgroups) <= {"replicated", "manual"}:
        return DeviceSharding("opaque")
    return tiled(grid, subgroups)


def summing_groups(sharding: HloSharding, devices: int) -> tuple[tuple[int, ...], ...]:
    """The groups of devices of which each has a summand of the same tile; empty if each has the tile."""
    found = _by_devices(sharding)
    if found is None:
        return ()
    if found.kind == "unreduced":
        return (tuple(range(devices)),)
    names = found.last_tile_dims
    grid = found.grid() if "unreduced" in names else None
    if grid is None:
        return ()
    along = [grid.ndim - len(names) + i for i, name in enumerate(names) if name == "unreduced"]
    size = math.prod(grid.shape[d] for d in along)
    rows = np.moveaxis(grid, along, range(-len(along), 0)).reshape(-1, size)
    return tuple(tuple(int(i) for i in row) for row in rows) if size > 1 else ()


def _by_devices(sharding: HloSharding) -> OpSharding | None:
    """Returns what a text says by devices; None if it does so by the axes of a mesh, or is no array's sharding."""
    try:
        found = parse_array_sharding(sharding.text)
    except CodecError:
        return None
    return found if isinstance(found, OpSharding) else None


def tiled(grid: Grid, subgroups: Sequence[str] = ()) -> DeviceSharding:
    """Returns the sharding of a grid whose last dimensions are the subgroups, in its simplest form.

    Subgroups of one device go, manual ones stand before a single replicated one, and a grid that splits nothing is
    `replicated` or `manual`.
    """
    rank = grid.ndim - len(subgroups)
    data = grid.shape[:rank]
    manual = [rank + i for i, kind in enumerate(subgroups) if kind == "manual"]
    shared = [rank + i for i, kind in enumerate(subgroups) if kind == "replicated"]
    manual_count = math.prod(grid.shape[i] for i in manual)
    shared_count = math.prod(grid.shape[i] for i in shared)
    if grid.size == manual_count and manual_count > 1:
        return MANUAL
    if grid.size == shared_count:
        return REPLICATED
    sizes = [(n, kind) for n, kind in ((manual_count, "manual"), (shared_count, "replicated")) if n > 1]
    ordered = grid.transpose([*range(rank), *manual, *shared])
    tiles = (*data, *(n for n, _ in sizes))
    return DeviceSharding("tiled", tiles, tuple(int(i) for i in ordered.ravel()), tuple(kind for _, kind in sizes))


def _subgroup_text(subgroups: Sequence[str]) -> list[str]:
    if tuple(subgroups) == ("replicated",):
        return ["last_tile_dim_replicate"]
    return [f"last_tile_dims={{{', '.join(subgroups)}}}"] if subgroups else []


def _device_text(devices: Sequence[int]) -> str:
    """Returns `<=[4,2]T(1,0)` where a transposed iota gives the numbers, else the numbers."""
    steps = _steps(np.array(devices, dtype=np.int64))
    order = sorted(range(len(steps)), key=lambda i: -steps[i][1])
    sizes = [steps[i][0] for i in order]
    regular = devices[0] == 0 and all(steps[i][1] == math.prod(sizes[place + 1 :]) for place, i in enumerate(order))
    if not regular or len(devices) == 1:
        return join_numbers(devices)
    if order == sorted(order):
        return f"<=[{math.prod(sizes)}]"
    return f"<=[{join_numbers(sizes)}]T({join_numbers([order.index(i) for i in range(len(order))])})"


def _steps(numbers: Grid) -> list[tuple[int, int]]:
    """Returns (count, step) of nested loops that count through the numbers, outermost first; [(n, 0)] if none do."""
    loops: list[tuple[int, int]] = []
    while len(numbers) > 1:
        step = int(numbers[1] - numbers[0])
        differs = np.flatnonzero(np.diff(numbers) != step)
        count = int(differs[0]) + 1 if len(differs) else len(numbers)
        if len(numbers) % count or not np.array_equal(
            numbers.reshape(-1, count), numbers[::count, None] + step * np.arange(count)
        ):
            return [(len(numbers), 0)]
        loops.insert(0, (count, step))
        numbers = numbers[::count]
    return loops or [(1, 1)]
