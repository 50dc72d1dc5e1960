"""Values of the text of shardings and replica groups: devices in some order, and meshes of them.

A mesh is an array of devices with a named axis per dimension. `Iota` counts 0, 1, 2, ... through an array of some
shape whose dimensions are then put into another order: `[4,2]T(1,0)` is 0, 2, 4, 6, 1, 3, 5, 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xjit.hlo.annotations.metadata import OpMetadata

Groups = tuple[tuple[int, ...], ...]


def join_numbers(numbers: Iterable[int]) -> str:
    """Returns `0,1,2`."""
    return ",".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class Iota:
    """The numbers below the product of `reshape_dims`, in row-major order after a transposition."""

    reshape_dims: tuple[int, ...]
    transpose_perm: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return math.prod(self.reshape_dims)

    def numbers(self) -> NDArray[np.int64]:
        """Returns the numbers, of shape (count,)."""
        return np.arange(self.count, dtype=np.int64).reshape(self.reshape_dims).transpose(self.transpose_perm).ravel()

    def __str__(self) -> str:
        text = f"[{join_numbers(self.reshape_dims)}]"
        return f"{text}T({join_numbers(self.transpose_perm)})" if len(self.reshape_dims) > 1 else text


@dataclass(frozen=True, slots=True)
class AxisRef:
    """An axis of a mesh, or the factor `size` of one whose size is pre_size * size * rest; a size of 0 is all of it."""

    name: str
    pre_size: int = 1
    size: int = 0

    def __str__(self) -> str:
        return f"'{self.name}':({self.pre_size}){self.size}" if self.size else f"'{self.name}'"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes and their sizes; the devices are 0, 1, 2, ... unless they are listed or an iota."""

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | Iota | None = None

    @property
    def names(self) -> list[str]:
        """The names of the axes in order."""
        return [name for name, _ in self.axes]

    @property
    def has_all_devices(self) -> bool:
        """Whether as many devices are listed as the mesh has places."""
        ids = self.device_ids
        count = math.prod(size for _, size in self.axes)
        return ids is None or count == (ids.count if isinstance(ids, Iota) else len(ids))

    def devices(self) -> NDArray[np.int64]:
        """Returns the devices as an array with a dimension per axis."""
        shape = tuple(size for _, size in self.axes)
        ids = self.device_ids
        numbers = np.arange(math.prod(shape)) if ids is None else ids.numbers() if isinstance(ids, Iota) else ids
        return np.array(numbers, dtype=np.int64).reshape(shape)

    def has_parts(self, axes: Sequence[AxisRef]) -> bool:
        """Whether some axes are the mesh's, or factors of them, and do not overlap."""
        return self._factors(axes) is not None

    def groups(self, axes: Sequence[AxisRef]) -> NDArray[np.int64] | None:
        """Returns the groups of devices that differ along some axes only, a row each; None if it has no such parts.

        Columns count the axes, the first the slowest.
        """
        found = self._factors(axes)
        if found is None:
            return None
        factors, last = found
        order = [d for d in range(len(factors)) if d not in last] + last
        size = math.prod(factors[d] for d in last)
        return self.devices().reshape(factors).transpose(order).reshape(-1, size)

    def _factors(self, axes: Sequence[AxisRef]) -> tuple[list[int], list[int]] | None:
        """Returns the sizes of the mesh's axes cut into factors, and the place of each of `axes` among them."""
        if not {axis.name for axis in axes} <= set(self.names):
            return None
        factors: list[int] = []
        place: dict[int, int] = {}
        for name, size in self.axes:
            parts = sorted((a.pre_size, a.size or size, number) for number, a in enumerate(axes) if a.name == name)
            done = 1
            for pre, part, number in parts:
                if pre < 1 or pre % done or size % (pre * part):
                    return None
                place[number] = len(factors) + 1
                factors += [pre // done, part]
                done = pre * part
            factors.append(size // done)
        return factors, [place[number] for number in range(len(axes))]

    def __str__(self) -> str:
        axes = ",".join(f"'{name}'={size}" for name, size in self.axes)
        text = f"mesh[{axes}]"
        if self.device_ids:
            ids = self.device_ids
            text += f", device_ids=({ids if isinstance(ids, Iota) else join_numbers(ids)})"
        return text


@dataclass(frozen=True, slots=True)
class AxisList:
    """Axes of a mesh, the first the slowest; an open list (`?`) may be given more of them by propagation."""

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False

    def __str__(self) -> str:
        return "{" + ",".join([*map(str, self.axes), *["?"] * self.is_open]) + "}"


@dataclass(frozen=True, slots=True)
class MeshGroups:
    """Replica groups by the axes of a mesh: `mesh['x'=2,'y'=4] {'x'}`. A group's devices differ along these only."""

    mesh: Mesh
    axes: AxisList

    def groups(self) -> Groups | None:
        """Returns the groups as lists of devices; None if the mesh has no such parts of axes."""
        table = self.mesh.groups(self.axes.axes)
        return None if table is None else tuple(tuple(int(i) for i in row) for row in table)

    def __str__(self) -> str:
        return f"{self.mesh} {self.axes}"


@dataclass(frozen=True, slots=True)
class IotaGroups:
    """Replica groups by an order of all devices, `[2,4]<=[8]`: so many groups, of so many devices each."""

    count: int
    size: int
    order: Iota

    def groups(self) -> Groups | None:
        """Returns the groups as lists of devices; None if there are not as many devices as places."""
        if self.order.count != self.count * self.size:
            return None
        return tuple(tuple(int(i) for i in row) for row in self.order.numbers().reshape(self.count, self.size))

    def __str__(self) -> str:
        return f"[{self.count},{self.size}]<={self.order}"


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """A sharding by the axes of a mesh, `mesh['x'=2], [{'x'},{}]`, or on one device of it alone.

    A `kind` (`replicated`, `manual`, `unreduced`) stands for the dimensions where all are alike. `others` are further
    axes by what holds along them: (`replicated`, axes) and so on.
    """

    mesh: Mesh
    dimensions: tuple[AxisList, ...] = ()
    kind: str = ""
    others: tuple[tuple[str, AxisList], ...] = ()
    metadata: tuple[OpMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class OpSharding:
    """A sharding by devices: of a `kind` (`replicated`, `maximal`, `manual`, ...), or in tiles if that is empty.

    `tiles` counts them along each dimension, then those of subgroups, which `last_tile_dims` names by their kinds.
    `group` is `shard_as 3` or `shard_like 3`.
    """

    kind: str = ""
    tiles: tuple[int, ...] = ()
    devices: tuple[int, ...] | Iota = ()
    last_tile_dims: tuple[str, ...] = ()
    replicate_on_last_tile_dim: bool = False
    group: str = ""
    metadata: tuple[OpMetadata, ...] = ()

    @property
    def subgroups(self) -> tuple[str, ...]:
        """The kinds of the last dimensions of the tiles that are not the array's."""
        return self.last_tile_dims or ("replicated",) * self.replicate_on_last_tile_dim

    def grid(self) -> NDArray[np.int64] | None:
        """Returns the devices as an array of the shape `tiles`; None if there are not as many, or none."""
        count = self.devices.count if isinstance(self.devices, Iota) else len(self.devices)
        if not count or count != math.prod(self.tiles):
            return None
        numbers = self.devices.numbers() if isinstance(self.devices, Iota) else self.devices
        return np.array(numbers, dtype=np.int64).reshape(self.tiles)
