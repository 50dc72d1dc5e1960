"""Updates at places known late, along split dimensions: each tile takes what of the update is its own."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.device_sharding import DeviceSharding
from xjit.passes.sharding.spmd.builder import INDEX, SpmdBuilder
from xjit.passes.sharding.spmd.indexed_parts import clamped
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import Table, keep_tiles, place
from xjit.passes.sharding.spmd.run_on_tiles import run_on_tiles


def updated(
    update: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> list[PartitionedHlo]:
    """A dynamic-update-slice: tiles of dimensions that are updated in part take what of the update is theirs."""
    sizes, written = update.shape.dimensions, update.operand(1).shape.dimensions
    placement = place(sizes, target, b.spmd.devices)
    cut = [d for d in range(len(sizes)) if placement.tiles[d] > 1 and written[d] != sizes[d]]
    if not cut or not update.operand(1).shape.num_elements:
        return run_on_tiles(update, operands, target, b)
    rest = keep_tiles(target, [d for d in range(len(sizes)) if d not in cut])
    tile, new = reshard(operands[0], target, b).local, reshard(operands[1], rest, b).local
    starts = [part.local for part in operands[2:]]
    local_update = _update_of_tile(update, tile, new, starts, {d: placement.starts[:, d] for d in cut}, b)
    return [PartitionedHlo(b.add(local_update), update.shape, target)]


def _update_of_tile(
    update: HloInstruction,
    tile: HloInstruction,
    new: HloInstruction,
    starts: Sequence[HloInstruction],
    begins: Mapping[int, Table],
    b: SpmdBuilder,
) -> HloInstruction:
    """The update of a tile that begins at `begins[d][p]` along the dimensions that are updated in part."""
    sizes, written, local = update.shape.dimensions, update.operand(1).shape.dimensions, tile.shape.dimensions
    window = b.pad(new, [(local[d], local[d]) if d in begins else (0, 0) for d in range(len(sizes))], 0)
    shape = [local[d] if d in begins else n for d, n in enumerate(new.shape.dimensions)]
    inside: list[HloInstruction] = []
    offsets, places = [b.constant(0, INDEX)] * len(sizes), list(starts)
    for d, begin in begins.items():
        start = b.convert(clamped(starts[d], sizes[d] - written[d], b), INDEX)
        first = b.make("subtract", b.number(begin), start)
        offsets[d] = b.make("add", first, b.constant(local[d], INDEX))
        index = b.positions(shape, d, first)
        low, high = (b.broadcast(b.constant(n, INDEX), shape) for n in (0, written[d]))
        inside += [b.compare("GE", index, low), b.compare("LT", index, high)]
        places[d] = b.constant(0, starts[d].shape.element_type)
    is_new = functools.reduce(lambda one, other: b.make("and", one, other), inside)
    chosen = b.select(is_new, b.dynamic_slice(window, offsets, shape), b.dynamic_slice(tile, places, shape))
    return update.clone_with_new_operands(tile.shape, [tile, chosen, *places])
