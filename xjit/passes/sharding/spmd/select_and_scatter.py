"""Select-and-scatter over a dimension that is split, as in the gradient of a max pool.

A tile's elements get something from windows that begin in other tiles, and what these choose depends on all of their
elements. So each device works on a part of the whole arrays around its tile, the same way as on the whole. A part ends
where the array does, or so far from the tile that what windows lack there makes no difference to the tile: nothing is
padded, and any selection and any combination have the bits that they have on one device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.halo_exchange import Halo
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import Placement, Table, keep_tiles, local_shape, place
from xjit.passes.sharding.spmd.run_on_tiles import run_on_tiles


@dataclass(frozen=True, slots=True)
class _Part:
    """The elements and the windows' values that tiles of one dimension work on; tile p begins at `own[p]` of these."""

    elements: Halo
    source: Halo
    own: Table

    @classmethod
    def of(cls, window: at.WindowDimension, dimension: int, data: Placement, source: Placement) -> _Part | None:
        """Returns the parts; None if they would be all there is, or for spread elements, which have no meaning here.

        A window that hangs over the beginning or end of a part is the array's own there, or reaches no tile.
        """
        if window.base_dilation != 1:
            return None
        whole, tile, stride = data.sizes[dimension], data.local[dimension], window.stride
        extent = (window.size - 1) * window.window_dilation + 1
        tiles = data.coordinates[:, dimension] * tile
        first = (tiles - extent + window.padding_low) // stride + 1  # windows that reach a tile
        last = (tiles + tile - 1 + window.padding_low) // stride
        hanging = -(-max(window.padding_low, 0) // stride)  # windows over the beginning of a part
        begin = np.maximum(0, np.minimum(tiles // stride, first - hanging)) * stride
        end = np.maximum(tiles + tile, last * stride - window.padding_low + extent - min(window.padding_high, 0))
        size = int((np.minimum(end, whole) - begin).max())
        size += (whole - size) % stride  # parts begin at the same place of their windows, and the last one ends there
        missing = (whole - size) // stride  # windows
        if size >= whole or source.sizes[dimension] <= missing:
            return None
        starts = np.minimum(begin, whole - size)
        elements = Halo.of(starts, size, dimension, data)
        values = Halo.of(starts // stride, source.sizes[dimension] - missing, dimension, source)
        return None if elements is None or values is None else cls(elements, values, tiles - starts)


def select_and_scatter(
    instruction: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> list[PartitionedHlo]:
    """The tiles of a result that is split along its windows; others run on tiles as they are."""
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    sizes, sources = instruction.shape.dimensions, instruction.operand(1).shape.dimensions
    if not target.is_tiled or not all((*sizes, *sources)):
        return run_on_tiles(instruction, operands, target, b)
    few = [min(pair) for pair in zip(sizes, sources, strict=True)]
    sharding = keep_tiles(target, [d for d, count in enumerate(few) if target.tiles[d] <= count])
    data, source = (place(s, sharding, b.spmd.devices) for s in (sizes, sources))
    cut = [d for d, w in enumerate(window) if data.tiles[d] > 1 and w != at.WindowDimension()]
    found = [_Part.of(window[d], d, data, source) for d in cut]
    parts = [part for part in found if part is not None]
    if not cut or len(parts) < len(found):
        return run_on_tiles(instruction, operands, target, b)
    elements, values = (reshard(operand, sharding, b).local for operand in operands[:2])
    own = np.zeros_like(data.starts)
    for part in parts:
        elements, values = part.elements.extend(elements, None, b), part.source.extend(values, None, b)
        own[:, part.elements.dimension] = part.own
    shape = instruction.shape.with_dimensions(elements.shape.dimensions)
    init = reshard(operands[2], REPLICATED, b).local
    extended = b.add(instruction.clone_with_new_operands(shape, [elements, values, init]))
    local = local_shape(instruction.shape, sharding, b.spmd.devices)
    return [PartitionedHlo(b.slice_at(extended, own, local.dimensions), instruction.shape, sharding)]
