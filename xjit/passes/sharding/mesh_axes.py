"""Shardings as the axes of a mesh that split each dimension, which is how Shardy sees them.

Axes are cut into prime factors, so that a part of an axis is a list of these, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding, Grid, tiled
from xjit.hlo.annotations.mesh import Mesh
from xjit.passes.sharding.sharding_slots import Slot

Axes = tuple[int, ...]
"""Factors of axes, major to minor."""


class MeshAxes:
    """The prime factors of a mesh's axes, major to minor, and what shardings are by them."""

    def __init__(self, mesh: Mesh) -> None:
        self.sizes = [prime for _, size in mesh.axes for prime in _primes(size)]
        self._names = [name for name, size in mesh.axes for _ in _primes(size)]
        self._devices = mesh.devices().reshape(self.sizes)
        self._sorted = sorted(int(device) for device in self._devices.flat)
        self._known: dict[DeviceSharding, tuple[Axes, ...] | None] = {}
        self._manual: dict[DeviceSharding, Axes | None] = {}

    def of(self, sharding: DeviceSharding | None, rank: int) -> tuple[Axes, ...] | None:
        """Returns the axes of each dimension; None for a sharding that axes of this mesh do not say.

        Those of which devices have arrays of their own are `manual`'s.
        """
        if sharding is None or sharding.kind == "replicated":
            return ((),) * rank
        if sharding not in self._known:
            self._known[sharding] = self._read(sharding)
        found = self._known[sharding]
        return found if found is None or len(found) == rank else None

    def _read(self, sharding: DeviceSharding) -> tuple[Axes, ...] | None:
        if self.manual(sharding) is None:
            return None
        coordinates = self._coordinates(sharding)
        found = [self._axes(coordinates[..., d]) for d in range(sharding.rank)]
        return None if any(axes is None for axes in found) else tuple(axes for axes in found if axes is not None)

    def _coordinates(self, sharding: DeviceSharding) -> Grid:
        """The place of each device in the grid of a sharding, [*sizes, len(tiles)]."""
        cells = np.stack(np.unravel_index(np.argsort(np.array(sharding.devices)), sharding.tiles), axis=-1)
        return cells[np.searchsorted(self._sorted, self._devices)]

    def manual(self, sharding: DeviceSharding | None) -> Axes | None:
        """Returns the axes on which devices have arrays of their own, in the order of the mesh.

        None for a sharding of other devices, or whose groups of devices are numbered in another order.
        """
        if sharding is None or sharding.kind == "replicated":
            return ()
        if sharding not in self._manual:
            self._manual[sharding] = self._read_manual(sharding)
        return self._manual[sharding]

    def _read_manual(self, sharding: DeviceSharding) -> Axes | None:
        if not sharding.is_tiled or sorted(sharding.devices) != self._sorted:
            return None
        if "manual" not in sharding.subgroups:
            return ()
        axes = self._axes(self._coordinates(sharding)[..., sharding.rank + sharding.subgroups.index("manual")])
        return axes if axes is not None and list(axes) == sorted(axes) else None

    def _axes(self, tiles: Grid) -> Axes | None:
        """The axes that split a dimension, from the tile along it of each device."""
        steps = {a: int(tiles[tuple(int(i == a) for i in range(tiles.ndim))]) for a in range(tiles.ndim)}
        axes = tuple(sorted((a for a, step in steps.items() if step), key=lambda a: -steps[a]))
        return axes if np.array_equal(tiles, self._numbers(axes)) else None

    def _numbers(self, axes: Axes) -> Grid:
        """The number of each device's tile of a dimension that axes split."""
        numbers = np.zeros(self.sizes, dtype=np.int64)
        for axis in axes:
            shape = [1] * len(self.sizes)
            shape[axis] = self.sizes[axis]
            numbers = numbers * self.sizes[axis] + np.arange(self.sizes[axis]).reshape(shape)
        return numbers

    def count(self, axes: Sequence[int]) -> int:
        """Into how many tiles axes split a dimension."""
        return math.prod(self.sizes[axis] for axis in axes)

    def sharding(self, dimensions: Sequence[Axes], manual: Axes = ()) -> DeviceSharding:
        """Returns the sharding of an array whose dimensions are split by axes; devices along `manual` share nothing."""
        split = [*(axis for axes in dimensions for axis in axes), *manual]
        if not split:
            return REPLICATED
        rest = [axis for axis in range(len(self.sizes)) if axis not in split]
        grid = self._devices.transpose([*split, *rest]).reshape(*map(self.count, dimensions), self.count(manual), -1)
        return tiled(grid, ("manual", "replicated"))

    def set_axes(self, slot: Slot, dimensions: Sequence[Axes]) -> None:
        """Gives an array a sharding by axes; those on which devices have arrays of their own stay."""
        slot.sharding = self.sharding(dimensions, self.manual(slot.sharding) or ())

    def named(self, names: Collection[str]) -> Axes:
        """Returns the factors of the mesh's axes of some names."""
        return tuple(factor for factor, name in enumerate(self._names) if name in names)

    def fitting(self, sharding: DeviceSharding, sizes: Sequence[int]) -> DeviceSharding:
        """The sharding without axes that split a dimension into more tiles than it has elements."""
        dimensions = self.of(sharding, len(sizes))
        if dimensions is None or all(t <= n for t, n in zip(sharding.data_tiles, sizes)):
            return sharding
        lengths = (range(len(axes), -1, -1) for axes in dimensions)
        fits = [
            next(axes[:n] for n in counts if self.count(axes[:n]) <= max(size, 1))
            for axes, size, counts in zip(dimensions, sizes, lengths, strict=True)
        ]
        return self.sharding(fits, self.manual(sharding) or ())

    def extended(self, slot: Slot, wanted: Sequence[tuple[int, Axes]]) -> tuple[Axes, ...] | None:
        """Returns the axes of an array after more of them are asked for, by dimension, the preferred ones first.

        Dimensions take what continues what they have, up to the first axis that splits another one. None if nothing
        changes.
        """
        own = self.of(slot.sharding, slot.shape.rank)
        if own is None or slot.fixed:
            return None
        dimensions = list(own)
        for d, axes in wanted:
            has = dimensions[d]
            if slot.shape.dimensions[d] == 1 or len(axes) <= len(has) or axes[: len(has)] != has:
                continue
            if slot.free_dimensions is None or d in slot.free_dimensions:
                dimensions[d] = self._compatible(slot, d, axes, dimensions)
        return None if tuple(dimensions) == own else tuple(dimensions)

    def _compatible(self, slot: Slot, d: int, axes: Axes, dimensions: Sequence[Axes]) -> Axes:
        others = {axis for other, taken in enumerate(dimensions) if other != d for axis in taken}
        count = next((i for i, axis in enumerate(axes) if axis in others), len(axes))
        while slot.is_even and slot.shape.dimensions[d] % self.count(axes[:count]):
            count -= 1
        return max(axes[:count], dimensions[d], key=len)


def _primes(size: int) -> list[int]:
    found: list[int] = []
    divisor = 2
    while size > 1:
        while size % divisor == 0:
            found.append(divisor)
            size //= divisor
        divisor += 1
    return found
