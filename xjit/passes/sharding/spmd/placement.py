"""`Placement`: which part of an array each device holds, in numbers. Communication is decided on these tables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from xjit.hlo import Shape
from xjit.hlo.annotations.device_sharding import DeviceSharding, tiled
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR, move
from xjit.hlo.diagnostics import HloVerifyError

Table = NDArray[np.int64]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Placement:
    """Tiles of an array of `sizes` on devices 0..P-1. Every device's tile has the same, rounded up, size.

    `coordinates[p, d]` is the tile of device p along dimension d; `subgroup[p]` numbers the manual subgroup that it
    is in: devices of different ones never exchange data.
    """

    sizes: tuple[int, ...]
    tiles: tuple[int, ...]
    coordinates: Table
    subgroup: Table

    @cached_property
    def local(self) -> tuple[int, ...]:
        """The sizes of one device's tile."""
        return tuple(-(-size // count) for size, count in zip(self.sizes, self.tiles))

    @cached_property
    def starts(self) -> Table:
        """Where each device's tile begins, [P, rank]."""
        return self.coordinates * np.array(self.local, dtype=np.int64).reshape(1, -1)

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.subgroup)

    def is_uneven(self, dimension: int) -> bool:
        """Whether some tile along a dimension reaches beyond the array."""
        return self.local[dimension] * self.tiles[dimension] != self.sizes[dimension]

    @cached_property
    def _cells(self) -> Table:
        return np.column_stack([self.coordinates, self.subgroup])

    @cached_property
    def keys(self) -> list[tuple[int, ...]]:
        """What each device holds, as a key: its coordinates and its subgroup."""
        return [tuple(int(i) for i in row) for row in self._cells]

    @cached_property
    def ranks(self) -> list[int]:
        """The place of each device among those that hold the same."""
        seen: dict[tuple[int, ...], int] = {}
        found: list[int] = []
        for key in self.keys:
            seen[key] = seen.get(key, -1) + 1
            found.append(seen[key])
        return found

    def groups_along(self, dimensions: Sequence[int]) -> Groups:
        """Returns groups of devices that differ in their tiles along some dimensions only, in the order of these."""
        keys = [
            (*(c for d, c in enumerate(key) if d not in dimensions), rank) for key, rank in zip(self.keys, self.ranks)
        ]
        order = [tuple(int(self.coordinates[p, d]) for d in dimensions) for p in range(self.devices)]
        return grouped(keys, order)


def grouped(keys: Sequence[Hashable], order: Sequence[tuple[int, ...]]) -> Groups:
    """Returns devices of equal keys, each group sorted by `order`, the groups by their least device."""
    members: dict[Hashable, list[int]] = {}
    for device, key in enumerate(keys):
        members.setdefault(key, []).append(device)
    return tuple(tuple(sorted(group, key=lambda p: (order[p], p))) for group in members.values())


@lru_cache(4096)
def place(sizes: tuple[int, ...], sharding: DeviceSharding, devices: int) -> Placement:
    """Returns the placement of an array that is tiled, or whole on every device.

    HloVerifyError if the sharding is of another rank, or not of the devices 0..P-1.
    """
    rank = len(sizes)
    if not sharding.is_tiled:
        none = np.zeros((devices, rank), dtype=np.int64)
        own = np.arange(devices) if sharding.kind == "manual" else np.zeros(devices, dtype=np.int64)
        return Placement(sizes, (1,) * rank, none, own)
    if sharding.rank != rank or sorted(sharding.devices) != list(range(devices)):
        raise HloVerifyError(f"sharding {{{sharding}}} is not one of an array of rank {rank} on {devices} devices")
    order = np.argsort(np.array(sharding.devices))
    cells = np.stack(np.unravel_index(order, sharding.tiles), axis=1)
    manual = rank + sharding.subgroups.count("manual")
    subgroup = np.zeros(devices, dtype=np.int64)
    for column in range(rank, manual):
        subgroup = subgroup * sharding.tiles[column] + cells[:, column]
    return Placement(sizes, sharding.data_tiles, cells[:, :rank], subgroup)


def sharding_of(coordinates: Table, subgroup: Table) -> DeviceSharding | None:
    """Returns the sharding that gives each device a tile, [P, rank]; None if not all tiles have as many devices."""
    tiles = [int(n) + 1 for n in coordinates.max(axis=0)]
    manual = int(subgroup.max()) + 1
    cells = np.ravel_multi_index([*coordinates.T, subgroup], [*tiles, manual])
    count, rest = divmod(len(subgroup), math.prod(tiles) * manual)
    if rest or (np.bincount(cells, minlength=math.prod(tiles) * manual) != count).any():
        return None
    grid = np.argsort(cells, kind="stable").reshape(*tiles, manual, count)
    return tiled(grid, ("manual", "replicated"))


def keep_tiles(sharding: DeviceSharding, dimensions: Sequence[int]) -> DeviceSharding:
    """Returns the sharding that splits only the given dimensions; tiles of others become replicas."""
    if not sharding.is_tiled:
        return sharding
    names = tuple(range(sharding.rank))
    kept = tuple(d if d in dimensions else NO_FACTOR for d in names)
    return move(sharding, names, kept, sharding.data_tiles)


def local_shape(shape: Shape, sharding: DeviceSharding, devices: int) -> Shape:
    """Returns the shape of one device's tile of an array; tokens and arrays that are whole keep theirs.

    HloVerifyError if the sharding does not fit.
    """
    if not shape.is_array or not sharding.is_tiled:
        return shape
    return shape.with_dimensions(place(shape.dimensions, sharding, devices).local)
