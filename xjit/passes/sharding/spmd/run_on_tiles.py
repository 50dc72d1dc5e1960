"""Instructions whose tiles are computed from tiles: operands are brought to one split of all factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xjit.hlo import HloInstruction, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR, merge, move
from xjit.ops import build
from xjit.ops.reducers import reduction_identity
from xjit.passes.sharding.spmd.builder import NOTHING, SpmdBuilder
from xjit.passes.sharding.spmd.indexed_parts import indices_in_tile, part_of_gather, part_of_slice
from xjit.passes.sharding.spmd.local_rows import PARTED, LocalRow, inserted_dims, local_row
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import Placement, local_shape, place, sharding_of


@dataclass(frozen=True, slots=True)
class _Split:
    """How the factors of a row are split: a sharding of an array with one dimension per factor."""

    row: LocalRow
    factors: tuple[int, ...]
    sizes: tuple[int, ...]
    sharding: DeviceSharding

    def of(self, dims: Sequence[int], sizes: tuple[int, ...]) -> DeviceSharding:
        """The sharding of an array whose dimensions are these factors."""
        return move(self.sharding, self.factors, tuple(dims), sizes)

    def contracted_positions(self) -> list[int]:
        """The dimensions of `sharding` that are contracted and split."""
        tiles = self.sharding.data_tiles if self.sharding.is_tiled else (1,) * len(self.factors)
        return [n for n, f in enumerate(self.factors) if f in self.row.contracted and tiles[n] > 1]


def run_on_tiles(
    instruction: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> list[PartitionedHlo]:
    """Returns the arrays of the result, split as the first of them can be, like `target` as far as that goes.

    What has no row runs on whole arrays.
    """
    row = local_row(instruction) or _whole_row(instruction)
    split = _with_borrowed_tiles(_choose(row, instruction, operands, target), instruction, target, b.spmd.devices)
    moved = [
        reshard(part, split.of(dims, part.shape.dimensions), b) if part.shape.is_array else part
        for part, dims in zip(operands, row.operands, strict=True)
    ]
    leaves = [shape for _, shape in instruction.shape.leaves()]
    shardings = [split.of(dims, s.dimensions) if s.is_array else REPLICATED for s, dims in zip(leaves, row.results)]
    contracted = split.contracted_positions()
    if contracted:
        return _combined(instruction, split, moved, shardings, b)
    shapes = [local_shape(s, d, b.spmd.devices) for s, d in zip(leaves, shardings, strict=True)]
    given = [part.local for part in moved]
    if instruction.opcode == "scatter":
        _point_into_tile(instruction, split, given, b)
    local = _run(instruction, shapes, given, b)
    return _parts(local, leaves, shardings, b)


def _point_into_tile(scatter: HloInstruction, split: _Split, operands: list[HloInstruction], b: SpmdBuilder) -> None:
    """Has the indices of a scatter count from where the tile begins, along dimensions that are split."""
    placement, dims = place(split.sizes, split.sharding, b.spmd.devices), split.row.operands[0]
    numbers = {d: split.factors.index(dims[d]) for d in inserted_dims(scatter) if dims[d] != NO_FACTOR}
    cut = {d: n for d, n in numbers.items() if placement.tiles[n] > 1}
    if cut:
        at_ = len(operands) // 2
        operands[at_] = indices_in_tile(scatter, operands[at_], cut, placement, b)


def _whole_row(instruction: HloInstruction) -> LocalRow:
    operands = tuple((NO_FACTOR,) * o.shape.rank if o.shape.is_array else () for o in instruction.operands)
    results = tuple((NO_FACTOR,) * s.rank if s.is_array else () for _, s in instruction.shape.leaves())
    return LocalRow(operands, results)


def _choose(
    row: LocalRow, instruction: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding
) -> _Split:
    """The target's split, refined by those of contracted factors; of larger operands than the result, by all."""
    factors = row.factors
    known: dict[int, int] = {}
    leaves = [s for _, s in instruction.shape.leaves()]
    for shape, dims in (*zip((o.shape for o in operands), row.operands), *zip(leaves, row.results)):
        known.update({f: n for f, n in zip(dims, shape.dimensions if shape.is_array else ()) if f != NO_FACTOR})
    sizes = tuple(known[f] for f in factors)
    chosen = move(target, row.results[0], factors, sizes) if target.is_tiled else target
    result_size = leaves[0].num_elements if leaves and leaves[0].is_array else 0
    arrays = [(part, dims) for part, dims in zip(operands, row.operands) if part.shape.is_array]
    for part, dims in sorted(arrays, key=lambda pair: -pair[0].shape.num_elements):
        every = part.shape.num_elements > result_size or instruction.opcode in ("dot", "convolution")
        useful = tuple(f if every or f in row.contracted else NO_FACTOR for f in dims)
        if part.sharding.is_tiled and any(f != NO_FACTOR for f in useful):
            chosen = _refined(chosen, move(part.sharding, useful, factors, sizes))
    return _Split(row, factors, sizes, chosen)


def _with_borrowed_tiles(split: _Split, instruction: HloInstruction, target: DeviceSharding, devices: int) -> _Split:
    """Where the result is to be split along dimensions that have to be whole, others are split as often meanwhile.

    Not of convolutions, whose kernels would have to be gathered.
    """
    if not target.is_tiled or not split.factors or instruction.opcode == "convolution":
        return split
    shape, dims = next(s for _, s in instruction.shape.leaves()), split.row.results[0]
    whole = [d for d, f in enumerate(dims) if f == NO_FACTOR and target.tiles[d] > 1]
    count = math.prod(target.tiles[d] for d in whole)
    sizes = [o.shape.num_elements if o.shape.is_array else 0 for o in instruction.operands]
    largest = split.row.operands[sizes.index(max(sizes))] if sizes else ()
    now, then = place(split.sizes, split.sharding, devices), place(shape.dimensions, target, devices)
    free = [
        (size // now.tiles[n], -n)
        for n, (factor, size) in enumerate(zip(split.factors, split.sizes))
        if factor in dims and factor in largest and size and size % (now.tiles[n] * count) == 0
    ]
    if not whole or not free or not np.array_equal(now.subgroup, then.subgroup):
        return split
    place_ = -max(free)[1]
    coordinates = now.coordinates.copy()
    tile = np.ravel_multi_index([*then.coordinates[:, whole].T], [target.tiles[d] for d in whole])
    coordinates[:, place_] = coordinates[:, place_] * count + tile
    sharding = sharding_of(coordinates, now.subgroup)
    return replace(split, sharding=sharding) if sharding is not None else split


def _refined(chosen: DeviceSharding, offered: DeviceSharding) -> DeviceSharding:
    if not chosen.is_tiled:
        return offered if offered.is_tiled else chosen
    return merge(chosen, offered) or chosen


def _run(
    instruction: HloInstruction, shapes: Sequence[Shape], operands: Sequence[HloInstruction], b: SpmdBuilder
) -> HloInstruction:
    if instruction.opcode == "custom-call":  # a function writes its results in the layouts that it is promised
        leaves = [leaf for _, leaf in instruction.shape.leaves()]
        shapes = [s.with_layout(leaf.layout) if s.is_array else s for s, leaf in zip(shapes, leaves, strict=True)]
    shape = Shape.tuple_of(shapes) if instruction.shape.is_tuple else shapes[0]
    local = instruction.clone_with_new_operands(shape, operands)
    _fit_attributes(local)
    return b.add(local)


def fit_layouts(call: HloInstruction) -> None:
    """Has the layouts that a custom call asks of its operands be those of arrays of their sizes."""
    given = call.attributes_as(at.CustomCallAttributes).operand_layout_constraints
    if given is not None:
        pairs = zip(given, (o.shape for o in call.operands), strict=True)
        fitted = tuple(o.with_layout(s.layout) if o.is_array else s for s, o in pairs)
        call.update_attributes(operand_layout_constraints=fitted)


def _fit_attributes(local: HloInstruction) -> None:
    """Sizes of whole dimensions that attributes repeat become those of the tile."""
    sizes = local.operand(0).shape.dimensions if local.operands and local.operand(0).shape.is_array else ()
    if local.opcode == "custom-call":
        fit_layouts(local)
    elif local.opcode == "dynamic-slice":
        local.update_attributes(dynamic_slice_sizes=local.shape.dimensions)
    elif local.opcode == "slice":
        slices = local.attributes_as(at.SliceAttributes).slice
        kept = [
            d for d, s in enumerate(slices) if (s.start, s.stride) == (0, 1) and local.shape.dimensions[d] == sizes[d]
        ]
        limits = [at.SliceDimension(0, sizes[d]) if d in kept else s for d, s in enumerate(slices)]
        local.update_attributes(slice=tuple(limits))
    elif local.opcode == "gather":
        given = local.attributes_as(at.GatherAttributes)
        wide = zip(given.slice_sizes, sizes, strict=True)
        local.update_attributes(slice_sizes=tuple(min(n, size) for n, size in wide))


def _parts(
    local: HloInstruction, leaves: Sequence[Shape], shardings: Sequence[DeviceSharding], b: SpmdBuilder
) -> list[PartitionedHlo]:
    if not leaves:
        return [PartitionedHlo(local, local.shape, REPLICATED)]
    if not local.shape.is_tuple:
        return [PartitionedHlo(local, leaves[0], shardings[0])]
    return [PartitionedHlo(b.element(local, n), s, d) for n, (s, d) in enumerate(zip(leaves, shardings, strict=True))]


# -- contracted dimensions


def _combined(
    instruction: HloInstruction,
    split: _Split,
    operands: Sequence[PartitionedHlo],
    shardings: Sequence[DeviceSharding],
    b: SpmdBuilder,
) -> list[PartitionedHlo]:
    """The results of tiles of contracted dimensions, combined over the devices that share the rest."""
    placement = place(split.sizes, split.sharding, b.spmd.devices)
    groups = placement.groups_along(split.contracted_positions())
    leaves = [shape for _, shape in instruction.shape.leaves()]
    shapes = [local_shape(s, d, b.spmd.devices) for s, d in zip(leaves, shardings, strict=True)]
    if instruction.opcode in PARTED:
        partial = _part(instruction, split, shapes[0], [part.local for part in operands], b)
        return [PartitionedHlo(b.sum_over(partial, groups), leaves[0], shardings[0])]
    if instruction.opcode != "reduce":
        locals_ = [
            _masked(part.local, dims, split, placement, 0, b) for part, dims in zip(operands, split.row.operands)
        ]
        partial = _run(instruction, shapes, locals_, b)
        return [PartitionedHlo(b.sum_over(partial, groups), leaves[0], shardings[0])]
    if len(leaves) > 1:
        return _combined_extremum(instruction, split, operands, shardings, b)
    data, init = operands[0].local, operands[1].local
    found = reduction_identity(instruction.to_apply)
    assert found is not None
    opcode, identity = found
    neutral = _is_constant(instruction.operand(1), identity)
    start = init if neutral else b.constant(identity, data.shape.element_type)
    masked = _masked(data, split.row.operands[0], split, placement, start, b)
    whole = b.all_reduce(_run(instruction, shapes, [masked, start], b), groups, instruction.to_apply)
    if not neutral:
        whole = b.make(opcode, b.broadcast(init, whole.shape.dimensions) if whole.shape.rank else init, whole)
    return [PartitionedHlo(whole, leaves[0], shardings[0])]


def _part(
    instruction: HloInstruction, split: _Split, shape: Shape, operands: Sequence[HloInstruction], b: SpmdBuilder
) -> HloInstruction:
    """What one tile has of a gather's or a slice's result, and `NOTHING`."""
    placement = place(split.sizes, split.sharding, b.spmd.devices)
    dims = split.row.operands[0]
    cut = {dims.index(split.factors[n]): n for n in split.contracted_positions()}
    if instruction.opcode == "slice":
        return part_of_slice(instruction, operands[0], shape, cut, placement, b)
    given, inside = part_of_gather(instruction, operands, cut, placement, b)
    partial = _run(instruction, [shape], given, b)
    offsets = instruction.attributes_as(at.GatherAttributes).offset_dims
    batch = [d for d in range(shape.rank) if d not in offsets]
    mask = b.broadcast(inside, shape.dimensions, batch) if shape.rank else inside
    return b.make("select", mask, partial, b.like(partial, NOTHING))


def _is_constant(value: HloInstruction, number: object) -> bool:
    if value.opcode != "constant" or value.shape.rank:
        return False
    return bool(value.attributes_as(at.ConstantAttributes).literal.array == number)


def _masked(
    local: HloInstruction,
    dims: Sequence[int],
    split: _Split,
    placement: Placement,
    value: HloInstruction | float,
    b: SpmdBuilder,
) -> HloInstruction:
    """The tile, with a value for what lies beyond the array along contracted dimensions."""
    for d, factor in enumerate(dims):
        if factor not in split.row.contracted:
            continue
        n = split.factors.index(factor)
        if placement.tiles[n] > 1 and placement.is_uneven(n):
            sizes = local.shape.dimensions
            place_ = b.positions(sizes, d, b.number(placement.starts[:, n]))
            limit = b.broadcast(b.constant(placement.sizes[n], place_.shape.element_type), sizes)
            other = value if isinstance(value, HloInstruction) else b.constant(value, local.shape.element_type)
            local = b.select(b.compare("LT", place_, limit), local, other)
    return local


def _combined_extremum(
    instruction: HloInstruction,
    split: _Split,
    operands: Sequence[PartitionedHlo],
    shardings: Sequence[DeviceSharding],
    b: SpmdBuilder,
) -> list[PartitionedHlo]:
    """Extrema with their indices: those of all tiles are gathered, in the order of the tiles, and reduced once more."""
    placement = place(split.sizes, split.sharding, b.spmd.devices)
    groups = placement.groups_along(split.contracted_positions())
    count = len(operands) // 2
    leaves = [shape for _, shape in instruction.shape.leaves()]
    shapes = [local_shape(s, d, b.spmd.devices) for s, d in zip(leaves, shardings, strict=True)]
    inits = [part.local for part in operands[count:]]
    arrays = [
        _masked(part.local, dims, split, placement, init, b)
        for part, dims, init in zip(operands[:count], split.row.operands, inits)
    ]
    partial = _run(instruction, shapes, [*arrays, *inits], b)
    gathered: list[HloInstruction] = []
    for n in range(count):
        one = b.element(partial, n)
        gathered.append(b.all_gather(b.reshape(one, (1, *one.shape.dimensions)), groups, 0))
    again = b.add(build.make_reduce(gathered, inits, (0,), instruction.to_apply))
    return _parts(again, leaves, shardings, b)
