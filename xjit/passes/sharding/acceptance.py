"""Which shardings that are offered to an array it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.hlo.annotations.device_sharding import DeviceSharding
from xjit.hlo.annotations.sharding_algebra import is_more_specific, merge, move, refines
from xjit.passes.sharding.mesh_axes import MeshAxes
from xjit.passes.sharding.sharding_slots import Slot


@dataclass(frozen=True)
class Acceptance:
    """Which shardings replace others. Only a partitioner (`is_spmd`) understands replicas within tiles.

    With the `axes` of a mesh, arrays take what continues their axes, dimension by dimension.
    """

    is_spmd: bool
    propagate_metadata: bool
    axes: MeshAxes | None = None

    def offer(self, slot: Slot, sharding: DeviceSharding | None, round_: int, *, single_use: bool = False) -> bool:
        """Gives an array a sharding if that says more than the one it has; True if so.

        Tiles replace others only where they refine them, or where a resharding has a single use to please.
        """
        if slot.fixed or sharding is None or not slot.shape.is_array:
            return False
        if sharding == slot.sharding or sharding.kind in ("opaque", "unknown", "maximal"):
            return False
        if sharding.is_tiled and (sharding.rank != slot.shape.rank or (not self.is_spmd and sharding.subgroups)):
            return False
        new = sharding.without_origin()
        if self.propagate_metadata:
            new = DeviceSharding(new.kind, new.tiles, new.devices, new.subgroups, metadata=sharding.metadata)
        better = new if slot.sharding is None else self._better(slot, slot.sharding, new, round_, single_use)
        if better is None or (slot.is_even and not _splits_evenly(better, slot.shape.dimensions)):
            return False
        if slot.sharding is not None and better.without_origin() == slot.sharding.without_origin():
            return False
        slot.sharding = better
        return True

    def _better(
        self, slot: Slot, old: DeviceSharding, new: DeviceSharding, round_: int, single_use: bool
    ) -> DeviceSharding | None:
        wanted = self.axes.of(new, slot.shape.rank) if self.axes else None
        if self.axes and wanted is not None and self.axes.of(old, slot.shape.rank) is not None:
            dimensions = self.axes.extended(slot, list(enumerate(wanted)))
            return None if dimensions is None else self.axes.sharding(dimensions, self.axes.manual(old) or ())
        if slot.free_dimensions is not None:
            new = _only(new, slot.free_dimensions)
            if not old.is_tiled:
                return new if is_more_specific(new, old) else None
            merged = merge(old, new)
            return merged if merged is not None and merged.tile_count > old.tile_count else None
        if self.is_spmd and round_ > 0:
            merged = merge(old, new)
            if merged is not None and merged.tile_count > old.tile_count:
                return merged
        if not is_more_specific(new, old):
            return None
        return new if single_use or refines(new, old) else None


def _splits_evenly(sharding: DeviceSharding, sizes: Sequence[int]) -> bool:
    return not any(size % tiles for size, tiles in zip(sizes, sharding.data_tiles))


def _only(sharding: DeviceSharding, dimensions: frozenset[int]) -> DeviceSharding:
    """Returns the sharding with the tiles of other dimensions made replicas."""
    if not sharding.is_tiled:
        return sharding
    dims = tuple(range(sharding.rank))
    kept = tuple(d if d in dimensions else -1 for d in dims)
    return move(sharding, kept, dims, sharding.data_tiles)
