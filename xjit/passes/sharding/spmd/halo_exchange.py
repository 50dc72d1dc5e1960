"""`Halo`: what the windows of a tile read beyond its edges, and how it gets that from the tiles around it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import WindowDimension
from xjit.passes.sharding.spmd.builder import INDEX, SpmdBuilder
from xjit.passes.sharding.spmd.placement import Placement, Table


@dataclass(frozen=True)
class Halo:
    """What the tiles of one dimension lack: `low` elements in front and `high` behind, at most.

    A tile's windows read `size` elements, from `starts[p]` of the whole dimension on, of which the extended tile
    leaves out `skipped[p]`. Over these they move as `window` says.
    """

    dimension: int
    placement: Placement
    low: int
    high: int
    size: int
    starts: Table
    skipped: Table
    window: WindowDimension

    @classmethod
    def of(cls, window: WindowDimension, results: int, dimension: int, placement: Placement) -> Halo | None:
        """Returns what tiles lack that compute `results` positions of a window each.

        None if tiles begin between different elements (base dilation), read none, or lack as much as there is
        elsewhere: to gather all tiles costs no more then.
        """
        count, tile = placement.tiles[dimension], placement.local[dimension]
        number = placement.coordinates[:, dimension]
        step, apart = results * window.stride, window.base_dilation
        reach = (results - 1) * window.stride + (window.size - 1) * window.window_dilation + 1
        before = window.padding_low % apart  # what padding and dilation put in front of the first element
        size = (reach - before - 1) // apart + 1
        if step % apart or size <= 0:
            return None
        starts = (number * step - window.padding_low + before) // apart
        low = max(0, int((number * tile - starts).max()))
        high = max(0, int((starts + size - (number + 1) * tile).max()))
        if low + high >= (count - 1) * tile:
            return None
        behind = reach - before - (size - 1) * apart - 1
        local = replace(window, padding_low=before, padding_high=behind)
        return cls(dimension, placement, low, high, size, starts, starts - number * tile + low, local)

    def extend(self, tile: HloInstruction, fill: HloInstruction | None, b: SpmdBuilder) -> HloInstruction:
        """The elements that the tile's windows read; `fill`, or 0, stands for what is not in the array."""
        d = self.dimension
        parts = [*self._from_beside(tile, front=True, b=b), tile, *self._from_beside(tile, front=False, b=b)]
        longer = b.concatenate(parts, d) if len(parts) > 1 else tile
        sizes = [self.size if i == d else n for i, n in enumerate(longer.shape.dimensions)]
        starts = [b.number(self.skipped if i == d else np.zeros_like(self.skipped)) for i in range(len(sizes))]
        read = b.dynamic_slice(longer, starts, sizes)
        whole = self.placement.sizes[d]
        if self.starts.min() >= 0 and self.starts.max() + self.size <= whole:
            return read
        position = b.positions(sizes, d, b.number(self.starts))
        first = b.compare("GE", position, b.broadcast(b.constant(0, INDEX), sizes))
        last = b.compare("LT", position, b.broadcast(b.constant(whole, INDEX), sizes))
        filling = b.constant(0, tile.shape.element_type) if fill is None else fill
        return b.select(b.make("and", first, last), read, filling)

    def _from_beside(self, tile: HloInstruction, front: bool, b: SpmdBuilder) -> list[HloInstruction]:
        """The elements in front of the tile (or behind it), in order, from as many tiles as have them."""
        size, lacking = tile.shape.dimensions[self.dimension], self.low if front else self.high
        parts: list[HloInstruction] = []
        for distance in range(1, -(-lacking // size) + 1):
            count = min(size, lacking - (distance - 1) * size)
            pairs: list[tuple[int, int]] = []
            for group in self.placement.groups_along([self.dimension]):
                ordered = group if front else group[::-1]
                pairs.extend(zip(ordered, ordered[distance:]))
            edge = self._cut(tile, size - count, size, b) if front else self._cut(tile, 0, count, b)
            parts.append(b.permute(edge, pairs))
        return parts[::-1] if front else parts

    def _cut(self, tile: HloInstruction, start: int, limit: int, b: SpmdBuilder) -> HloInstruction:
        sizes = tile.shape.dimensions
        starts = [start if i == self.dimension else 0 for i in range(len(sizes))]
        return b.slice(tile, starts, [limit if i == self.dimension else n for i, n in enumerate(sizes)])
