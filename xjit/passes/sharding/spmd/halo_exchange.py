"""Windows over a dimension that is split: each tile gets the elements at its edges from the tiles beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR, move
from xjit.hlo.attributes import ConvolutionAttributes, Window, WindowAttributes, WindowDimension
from xjit.passes.sharding.spmd.builder import INDEX, SpmdBuilder
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import Placement, Table, local_shape, place
from xjit.passes.sharding.spmd.run_on_tiles import run_on_tiles


@dataclass(frozen=True, slots=True)
class _Windowed:
    """The dimensions of a windowed instruction: what the window moves along, and what the operands share with the
    result.

    `along` are (dimension of the operand, of the result, number in the window). `data` and `kernel` name for each
    dimension of the operands that of the result which it is, or NO_FACTOR.
    """

    window: Window
    along: tuple[tuple[int, int, int], ...]
    data: tuple[int, ...]
    kernel: tuple[int, ...]


def windowed(
    instruction: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> list[PartitionedHlo]:
    """A convolution or reduce-window whose result is split along its window; others run on tiles as they are.

    So do windows that reach beyond the next tile.
    """
    found = _dimensions(instruction)
    if found is None or not target.is_tiled:
        return run_on_tiles(instruction, operands, target, b)
    data = instruction.operand(0).shape
    split = move(target, tuple(range(instruction.shape.rank)), found.data, data.dimensions)
    if not split.is_tiled:
        return run_on_tiles(instruction, operands, target, b)
    placement = place(data.dimensions, split, b.spmd.devices)
    tiles = place(instruction.shape.dimensions, target, b.spmd.devices).tiles
    if any(placement.tiles[i] != tiles[o] for i, o, _ in found.along):
        return run_on_tiles(instruction, operands, target, b)
    halos = [_Halo.of(instruction, found.window.dimensions[n], i, o, placement) for i, o, n in found.along]
    cut = [(h, n) for h, (i, _, n) in zip(halos, found.along) if placement.tiles[i] > 1 and not _is_plain(found, n)]
    if not cut or any(h is None for h, _ in cut):
        return run_on_tiles(instruction, operands, target, b)
    return [_exchanged(instruction, found, operands, (split, target), [(h, n) for h, n in cut if h is not None], b)]


def _exchanged(
    instruction: HloInstruction,
    found: _Windowed,
    operands: Sequence[PartitionedHlo],
    shardings: tuple[DeviceSharding, DeviceSharding],
    cut: Sequence[tuple[_Halo, int]],
    b: SpmdBuilder,
) -> PartitionedHlo:
    """The result of windows over tiles that were made long enough; `shardings` are the operand's and the result's."""
    split, target = shardings
    other = instruction.operand(1).shape
    own = move(target, tuple(range(instruction.shape.rank)), found.kernel, other.dimensions) if other.rank else None
    kernel = reshard(operands[1], own or REPLICATED, b).local
    fill = kernel if instruction.opcode == "reduce-window" else b.constant(0, operands[0].shape.element_type)
    local = reshard(operands[0], split, b).local
    window = list(found.window.dimensions)
    for halo, number in cut:
        local = halo.extend(local, fill, b)
        window[number] = replace(window[number], padding_low=0, padding_high=0)
    result = local_shape(instruction.shape, target, b.spmd.devices)
    new = instruction.clone_with_new_operands(result, [local, kernel])
    new.update_attributes(window=Window(tuple(window)))
    return PartitionedHlo(b.add(new), instruction.shape, target)


def _dimensions(instruction: HloInstruction) -> _Windowed | None:
    """The dimensions of a convolution without groups, or of a reduce-window of one array."""
    rank = instruction.shape.rank if instruction.shape.is_array else 0
    if instruction.opcode == "reduce-window" and rank:
        window = instruction.attributes_as(WindowAttributes).window
        every = tuple(range(rank))
        return _Windowed(window, tuple((d, d, d) for d in every), every, ())
    if instruction.opcode != "convolution":
        return None
    c = instruction.attributes_as(ConvolutionAttributes)
    if c.feature_group_count != 1 or c.batch_group_count != 1:
        return None
    n = c.dim_labels
    data, kernel = [NO_FACTOR] * rank, [NO_FACTOR] * rank
    data[n.input_batch_dimension] = n.output_batch_dimension
    kernel[n.kernel_output_feature_dimension] = n.output_feature_dimension
    spatial = list(zip(n.input_spatial_dimensions, n.output_spatial_dimensions, strict=True))
    for i, o in spatial:
        data[i] = o
    along = tuple((i, o, number) for number, (i, o) in enumerate(spatial))
    return _Windowed(c.window, along, tuple(data), tuple(kernel))


def _is_plain(found: _Windowed, number: int) -> bool:
    """Whether the window takes one element after the other along a dimension."""
    return replace(found.window.dimensions[number], window_reversal=False) == WindowDimension()


@dataclass(frozen=True)
class _Halo:
    """What the tiles of one dimension lack: `low` elements in front and `high` behind, at most.

    A tile's windows read `size` elements, from `starts[p]` of the whole dimension on, of which the extended tile
    leaves out `skipped[p]`.
    """

    dimension: int
    placement: Placement
    low: int
    high: int
    size: int
    starts: Table
    skipped: Table

    @classmethod
    def of(
        cls, instruction: HloInstruction, window: WindowDimension, dimension: int, result: int, placement: Placement
    ) -> _Halo | None:
        """Returns what is lacking; None with base dilation, or if it is more than the tile beside has."""
        count, tile = placement.tiles[dimension], placement.local[dimension]
        mine = -(-instruction.shape.dimensions[result] // count)
        number = placement.coordinates[:, dimension]
        starts = number * mine * window.stride - window.padding_low
        size = (mine - 1) * window.stride + (window.size - 1) * window.window_dilation + 1
        low = max(0, int((number * tile - starts).max()))
        high = max(0, int((starts + size - (number + 1) * tile).max()))
        if window.base_dilation != 1 or max(low, high) > tile:
            return None
        return cls(dimension, placement, low, high, size, starts, starts - number * tile + low)

    def extend(self, tile: HloInstruction, fill: HloInstruction, b: SpmdBuilder) -> HloInstruction:
        """The elements that the tile's windows read; `fill` stands for what is not in the array."""
        d, size = self.dimension, tile.shape.dimensions[self.dimension]
        groups = self.placement.groups_along([d])
        parts = [tile]
        if self.low:
            pairs = [pair for group in groups for pair in pairwise(group)]
            parts.insert(0, b.permute(self._cut(tile, size - self.low, size, b), pairs))
        if self.high:
            pairs = [pair for group in groups for pair in pairwise(group[::-1])]
            parts.append(b.permute(self._cut(tile, 0, self.high, b), pairs))
        longer = b.concatenate(parts, d) if len(parts) > 1 else tile
        sizes = [self.size if i == d else n for i, n in enumerate(longer.shape.dimensions)]
        starts = [b.number(self.skipped if i == d else np.zeros_like(self.skipped)) for i in range(len(sizes))]
        read = b.dynamic_slice(longer, starts, sizes)
        position = b.positions(sizes, d, b.number(self.starts))
        whole = self.placement.sizes[d]
        first = b.compare("GE", position, b.broadcast(b.constant(0, INDEX), sizes))
        last = b.compare("LT", position, b.broadcast(b.constant(whole, INDEX), sizes))
        return b.select(b.make("and", first, last), read, fill)

    def _cut(self, tile: HloInstruction, start: int, limit: int, b: SpmdBuilder) -> HloInstruction:
        sizes = tile.shape.dimensions
        starts = [start if i == self.dimension else 0 for i in range(len(sizes))]
        return b.slice(tile, starts, [limit if i == self.dimension else n for i, n in enumerate(sizes)])
