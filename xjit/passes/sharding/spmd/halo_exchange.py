"""`Halo`: what a tile lacks of the elements that it needs, and how it gets that from the tiles around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import WindowDimension
from xjit.passes.sharding.spmd.builder import INDEX, SpmdBuilder
from xjit.passes.sharding.spmd.placement import Placement, Table


@dataclass(frozen=True)
class Halo:
    """What the tiles of one dimension lack: `low` elements in front and `high` behind, at most.

    A tile needs `size` elements, from `starts[p]` of the whole dimension on, of which the extended tile leaves out
    `skipped[p]`.
    """

    dimension: int
    placement: Placement
    low: int
    high: int
    size: int
    starts: Table
    skipped: Table

    @classmethod
    def of(cls, starts: Table, size: int, dimension: int, placement: Placement) -> Halo | None:
        """Returns what tiles lack of `size` elements from `starts[p]` on.

        None if that is as much as there is elsewhere: to gather all tiles costs no more then.
        """
        count, tile = placement.tiles[dimension], placement.local[dimension]
        number = placement.coordinates[:, dimension]
        low = max(0, int((number * tile - starts).max()))
        high = max(0, int((starts + size - (number + 1) * tile).max()))
        if low + high >= (count - 1) * tile:
            return None
        return cls(dimension, placement, low, high, size, starts, starts - number * tile + low)

    @property
    def is_beyond(self) -> bool:
        """Whether some tiles need what is not in the array."""
        return bool(self.starts.min() < 0 or self.starts.max() + self.size > self.placement.sizes[self.dimension])

    def extend(self, tile: HloInstruction, fill: HloInstruction | None, b: SpmdBuilder) -> HloInstruction:
        """The elements that the tile needs; `fill`, or 0, stands for what is not in the array."""
        d = self.dimension
        parts = [*self._from_beside(tile, front=True, b=b), tile, *self._from_beside(tile, front=False, b=b)]
        longer = b.concatenate(parts, d) if len(parts) > 1 else tile
        sizes = [self.size if i == d else n for i, n in enumerate(longer.shape.dimensions)]
        skipped = np.zeros((len(self.skipped), len(sizes)), np.int64)
        skipped[:, d] = self.skipped
        read = b.slice_at(longer, skipped, sizes)
        if not self.is_beyond:
            return read
        position = b.positions(sizes, d, b.number(self.starts))
        first = b.compare("GE", position, b.broadcast(b.constant(0, INDEX), sizes))
        last = b.compare("LT", position, b.broadcast(b.constant(self.placement.sizes[d], INDEX), sizes))
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
            parts.append(b.collective_permute(edge, pairs))
        return parts[::-1] if front else parts

    def _cut(self, tile: HloInstruction, start: int, limit: int, b: SpmdBuilder) -> HloInstruction:
        sizes = tile.shape.dimensions
        starts = [start if i == self.dimension else 0 for i in range(len(sizes))]
        return b.slice(tile, starts, [limit if i == self.dimension else n for i, n in enumerate(sizes)])


@dataclass(frozen=True)
class TileWindows:
    """The windows that tiles compute: `count` of them, from `ahead[p]` in front of a tile's own on.

    They move over the elements of `halo` as `window` says. With a base dilation, the first windows of tiles may begin
    at different places between elements: windows in front of them begin where the first tile's do.
    """

    halo: Halo
    window: WindowDimension
    count: int
    ahead: Table

    @classmethod
    def of(cls, window: WindowDimension, results: int, dimension: int, placement: Placement) -> TileWindows | None:
        """Returns what tiles compute that have `results` windows each; None if they read none, or gather all."""
        number, apart = placement.coordinates[:, dimension], window.base_dilation
        ahead = number * results % (apart // math.gcd(window.stride, apart))
        count = results + int(ahead.max())
        reach = (count - 1) * window.stride + (window.size - 1) * window.window_dilation + 1
        before = window.padding_low % apart  # what padding and dilation put in front of the first element
        size = (reach - before - 1) // apart + 1
        starts = ((number * results - ahead) * window.stride - window.padding_low + before) // apart
        halo = Halo.of(starts, size, dimension, placement) if size > 0 else None
        if halo is None:
            return None
        behind = reach - before - (size - 1) * apart - 1
        return cls(halo, replace(window, padding_low=before, padding_high=behind), count, ahead)
