"""Windows over a dimension that is split: each tile gets the elements at its edges from the tiles around it.

The elements that a slice or a pad takes are those of windows of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR, move
from xjit.ops.reducers import reduction_identity
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.halo_exchange import TileWindows
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import keep_tiles, local_shape, place
from xjit.passes.sharding.spmd.run_on_tiles import run_on_tiles


@dataclass(frozen=True, slots=True)
class _Windowed:
    """The dimensions of a windowed instruction: what the window moves along, and what operands share with the result.

    `along` are (dimension of the operand, of the result, number in the window). `data` and `kernel` name for each
    dimension of the operands that of the result which it is, or NO_FACTOR.
    """

    window: tuple[at.WindowDimension, ...]
    along: tuple[tuple[int, int, int], ...]
    data: tuple[int, ...]
    kernel: tuple[int, ...] = ()

    @property
    def shared(self) -> tuple[int, ...]:
        """The dimensions of the result that operands have, too."""
        return tuple(d for d in (*self.data, *self.kernel) if d != NO_FACTOR)


def windowed(
    instruction: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> list[PartitionedHlo]:
    """A convolution, reduce-window, slice or pad whose result is split along its windows.

    Others run on tiles as they are, and so do those whose windows ask for what `TileWindows.of` refuses.
    """
    found = _DIMENSIONS[instruction.opcode](instruction)
    if found is None or not target.is_tiled or not instruction.shape.num_elements:
        return run_on_tiles(instruction, operands, target, b)
    sizes = instruction.shape.dimensions
    sharding = keep_tiles(target, [d for d in found.shared if target.tiles[d] <= sizes[d]])
    data = instruction.operand(0).shape
    split = move(sharding, tuple(range(instruction.shape.rank)), found.data, data.dimensions)
    if not split.is_tiled:
        return run_on_tiles(instruction, operands, target, b)
    placement = place(data.dimensions, split, b.spmd.devices)
    results = place(sizes, sharding, b.spmd.devices)
    cut = [(i, o, n) for i, o, n in found.along if max(placement.tiles[i], results.tiles[o]) > 1]
    cut = [(i, o, n) for i, o, n in cut if replace(found.window[n], window_reversal=False) != at.WindowDimension()]
    if not cut or any(placement.tiles[i] != results.tiles[o] for i, o, _ in found.along):
        return run_on_tiles(instruction, operands, target, b)
    windows = [(TileWindows.of(found.window[n], results.local[o], i, placement), o, n) for i, o, n in cut]
    known = [(tile_windows, o, n) for tile_windows, o, n in windows if tile_windows is not None]
    if len(known) < len(windows):
        return run_on_tiles(instruction, operands, target, b)
    if any(w.halo.is_beyond for w, _, _ in known) and not _knows_filling(instruction):
        return run_on_tiles(instruction, operands, target, b)
    return [_exchanged(instruction, found, operands, (split, sharding), known, b)]


def _exchanged(
    instruction: HloInstruction,
    found: _Windowed,
    operands: Sequence[PartitionedHlo],
    shardings: tuple[DeviceSharding, DeviceSharding],
    cut: Sequence[tuple[TileWindows, int, int]],
    b: SpmdBuilder,
) -> PartitionedHlo:
    """The result of windows over tiles that were made long enough.

    `shardings` are the operand's and the result's; `cut` has with the windows the result's dimension and the number.
    """
    split, target = shardings
    others = [reshard(part, _other_sharding(found, part, target), b).local for part in operands[1:]]
    local, fill = reshard(operands[0], split, b).local, _filling(instruction, others, b)
    window = list(found.window)
    result = local_shape(instruction.shape, target, b.spmd.devices)
    computed, first = list(result.dimensions), np.zeros((b.spmd.devices, result.rank), np.int64)
    for tile_windows, along, number in cut:
        local = tile_windows.halo.extend(local, fill, b)
        window[number] = tile_windows.window
        computed[along], first[:, along] = tile_windows.count, tile_windows.ahead
    new = instruction.clone_with_new_operands(result.with_dimensions(computed), [local, *others])
    _set_window(new, window)
    return PartitionedHlo(b.slice_at(b.add(new), first, result.dimensions), instruction.shape, target)


def _knows_filling(instruction: HloInstruction) -> bool:
    return instruction.opcode != "reduce-window" or reduction_identity(instruction.to_apply) is not None


def _filling(instruction: HloInstruction, others: Sequence[HloInstruction], b: SpmdBuilder) -> HloInstruction | None:
    """What stands for elements beyond the array, 0 for None: what makes no difference to a sum over a window."""
    if instruction.opcode == "reduce-window":
        found = reduction_identity(instruction.to_apply)
        return b.constant(found[1], instruction.shape.element_type) if found is not None else None
    return others[0] if instruction.opcode == "pad" else None


def _other_sharding(found: _Windowed, part: PartitionedHlo, target: DeviceSharding) -> DeviceSharding:
    """How the kernel is split; the values that reductions and pads begin with are whole."""
    rank = part.shape.rank
    return move(target, tuple(range(target.rank)), found.kernel, part.shape.dimensions) if rank else REPLICATED


def _set_window(new: HloInstruction, window: Sequence[at.WindowDimension]) -> None:
    """Says in the instruction's own attributes how its windows move over the local operand."""
    if new.opcode == "slice":
        sizes = new.shape.dimensions
        ranges = [at.SliceDimension(-w.padding_low, (n - 1) * w.stride + 1 - w.padding_low, w.stride)
                  for w, n in zip(window, sizes, strict=True)]  # fmt: skip
        new.update_attributes(slice=tuple(ranges))
    elif new.opcode == "pad":
        edges = [at.PaddingDimension(w.padding_low, w.padding_high, w.base_dilation - 1) for w in window]
        new.update_attributes(padding=tuple(edges))
    else:
        new.update_attributes(window=at.Window(tuple(window)))


def _every_dimension(window: Sequence[at.WindowDimension]) -> _Windowed:
    every = tuple(range(len(window)))
    return _Windowed(tuple(window), tuple((d, d, d) for d in every), every)


def _slice(instruction: HloInstruction) -> _Windowed:
    ranges = instruction.attributes_as(at.SliceAttributes).slice
    sizes = instruction.operand(0).shape.dimensions
    window: list[at.WindowDimension] = []
    for r, size in zip(ranges, sizes, strict=True):
        last = r.start + (max(r.limit - r.start, 1) - 1) // r.stride * r.stride
        window.append(at.WindowDimension(stride=r.stride, padding_low=-r.start, padding_high=last + 1 - size))
    return _every_dimension(window)


def _pad(instruction: HloInstruction) -> _Windowed:
    edges = instruction.attributes_as(at.PadAttributes).padding
    return _every_dimension(
        [
            at.WindowDimension(
                padding_low=e.edge_padding_low,
                padding_high=e.edge_padding_high,
                base_dilation=e.interior_padding + 1,
            )
            for e in edges
        ]
    )


def _reduce_window(instruction: HloInstruction) -> _Windowed | None:
    if not instruction.shape.is_array:
        return None
    return _every_dimension(instruction.attributes_as(at.WindowAttributes).window.dimensions)


def _convolution(instruction: HloInstruction) -> _Windowed:
    """With groups, features stay whole, and with groups of the batch this does, too."""
    c = instruction.attributes_as(at.ConvolutionAttributes)
    n, rank = c.dim_labels, instruction.shape.rank
    data, kernel = [NO_FACTOR] * rank, [NO_FACTOR] * rank
    if c.batch_group_count == 1:
        data[n.input_batch_dimension] = n.output_batch_dimension
        if c.feature_group_count == 1:
            kernel[n.kernel_output_feature_dimension] = n.output_feature_dimension
    spatial = list(zip(n.input_spatial_dimensions, n.output_spatial_dimensions, strict=True))
    for i, o in spatial:
        data[i] = o
    along = tuple((i, o, number) for number, (i, o) in enumerate(spatial))
    return _Windowed(c.window.dimensions, along, tuple(data), tuple(kernel))


_DIMENSIONS: dict[str, Callable[[HloInstruction], _Windowed | None]] = {
    "convolution": _convolution,
    "pad": _pad,
    "reduce-window": _reduce_window,
    "slice": _slice,
}
