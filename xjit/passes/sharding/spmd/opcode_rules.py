"""How instructions of each opcode become the program of one device. What has no rule here runs on tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.hlo import HloInstruction, Unsupported
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding
from xjit.hlo.annotations.sharding_algebra import reshape as reshaped_sharding
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.custom_call_partitioners import custom_call_partitioner
from xjit.passes.sharding.dimension_factors import PASSED_CUSTOM_CALLS
from xjit.passes.sharding.sharding_annotations import BOUNDARIES, target_of
from xjit.passes.sharding.spmd.boundary_steps import step_over_boundary
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import local_shape, place, sharding_of
from xjit.passes.sharding.spmd.run_on_tiles import run_on_tiles
from xjit.passes.sharding.spmd.run_once import owner, run_once
from xjit.passes.sharding.spmd.select_and_scatter import select_and_scatter
from xjit.passes.sharding.spmd.updates import updated
from xjit.passes.sharding.spmd.windowed_rules import windowed

Parts = list[PartitionedHlo]
OpcodeRule = Callable[[HloInstruction, Sequence[PartitionedHlo], DeviceSharding, SpmdBuilder], Parts]
"""(instruction, arrays of its operands, sharding wanted of the first array of the result, builder) -> the arrays of
the result, with whatever shardings they come in."""


def partition_instruction(
    instruction: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> Parts:
    """Returns the arrays of the result of an instruction without tuples among its operands.

    Unsupported for what would happen once and not once per device, and for what asks which device it is on.
    """
    if target.kind != "manual":
        _check_meaning(instruction, in_region="manual" in target.subgroups)
    rule = OPCODE_RULES.get(instruction.opcode, run_on_tiles)
    if target.kind == "manual" and instruction.opcode != "custom-call":
        rule = run_on_tiles
    return rule(instruction, operands, target, b)


def _check_meaning(instruction: HloInstruction, *, in_region: bool) -> None:
    """Collectives of a region that is manual on some axes are over these: each device does its part of them."""
    opcode, op = instruction.opcode, instruction.op
    talks = op.has(Trait.SIDE_EFFECT) and opcode not in ("rng", "rng-get-and-update-state")
    crosses = op.has(Trait.COLLECTIVE) and instruction.channel_id is not None and not in_region
    if talks or crosses or op.has(Trait.ASYNC) or opcode in ("partition-id", "bitcast"):
        raise Unsupported(
            f"spmd-partitioner: {opcode} '{instruction.name}' outside of a manual sharding", instruction.span
        )


def _constant(constant: HloInstruction, _: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder) -> Parts:
    """Equal elements need no slice."""
    shape = constant.shape
    literal = constant.attributes_as(at.ConstantAttributes).literal
    if target.is_tiled and shape.num_elements and (literal.array == literal.array.flat[0]).all():
        local = b.full(local_shape(shape, target, b.spmd.devices), literal.array.flat[0])
        return [PartitionedHlo(local, shape, target)]
    return [PartitionedHlo(b.add(constant.clone()), shape, REPLICATED)]


def _iota(iota: HloInstruction, _: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder) -> Parts:
    """Each tile counts from where it begins."""
    along = iota.attributes_as(at.IotaAttributes).iota_dimension
    local, placement = (
        local_shape(iota.shape, target, b.spmd.devices),
        place(iota.shape.dimensions, target, b.spmd.devices),
    )
    kind = iota.shape.element_type
    if placement.tiles[along] == 1:
        return [PartitionedHlo(b.iota(kind, local.dimensions, along), iota.shape, target)]
    index = b.positions(local.dimensions, along, b.number(placement.starts[:, along]))
    return [PartitionedHlo(b.convert(index, kind), iota.shape, target)]


def _reshape(
    reshape: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> Parts:
    """Tiles are reshaped where they are runs of elements on both sides."""
    part = operands[0]
    old, new = part.shape.dimensions, reshape.shape.dimensions
    for wanted in (reshaped_sharding(target, new, old), part.sharding):
        before, after = _settled(wanted, old, new)
        if after.is_tiled:
            break
    local = reshard(part, before, b).local
    sizes = local_shape(reshape.shape, after, b.spmd.devices).dimensions
    return [PartitionedHlo(b.reshape(local, sizes), reshape.shape, after)]


def _settled(
    wanted: DeviceSharding, old: tuple[int, ...], new: tuple[int, ...]
) -> tuple[DeviceSharding, DeviceSharding]:
    """Returns shardings of operand and result that are each what the other means; whole if there are none."""
    while True:
        after = reshaped_sharding(wanted, old, new)
        again = reshaped_sharding(after, new, old)
        if again == wanted:
            return wanted, after
        wanted = again


def _rng(rng: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder) -> Parts:
    """Devices draw numbers of their own; those that all share are drawn by the first."""
    whole = [reshard(part, REPLICATED, b).local for part in operands]
    local = b.add(rng.clone_with_new_operands(local_shape(rng.shape, target, b.spmd.devices), whole))
    placement = place(rng.shape.dimensions, target, b.spmd.devices)
    if max(placement.ranks):
        drawn = b.constant([rank == 0 for rank in placement.ranks], b.is_on(0).shape.element_type)
        first = b.reshape(b.dynamic_slice(drawn, [b.make("partition-id")], (1,)), ())
        mask = b.broadcast(first, local.shape.dimensions) if local.shape.rank else first
        alone = b.make("select", mask, local, b.like(local, 0))
        keys = {key: [p for p, k in enumerate(placement.keys) if k == key] for key in placement.keys}
        local = b.sum_over(alone, tuple(tuple(group) for group in keys.values()))
    return [PartitionedHlo(local, rng.shape, target)]


def _reverse(
    reverse: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> Parts:
    """Tiles of one size are reversed, each by the device that is as far from the other end."""
    turned = reverse.attributes_as(at.DimensionsAttributes).dimensions
    placement = place(reverse.shape.dimensions, target, b.spmd.devices)
    split = [d for d in turned if placement.tiles[d] > 1]
    if not split or any(placement.is_uneven(d) for d in split):
        return run_on_tiles(reverse, operands, target, b)
    coordinates = placement.coordinates.copy()
    for d in split:
        coordinates[:, d] = placement.tiles[d] - 1 - coordinates[:, d]
    mirrored = sharding_of(coordinates, placement.subgroup)
    if mirrored is None:
        return run_on_tiles(reverse, operands, target, b)
    local = reshard(operands[0], mirrored, b).local
    return [PartitionedHlo(b.add(reverse.clone_with_new_operands(local.shape, [local])), reverse.shape, target)]


def _custom_call(
    call: HloInstruction, operands: Sequence[PartitionedHlo], target: DeviceSharding, b: SpmdBuilder
) -> Parts:
    """Annotations reshard; at the boundaries of manual regions, a tile is seen as another array, or a summand.

    What has an effect, or is said to be of one device, runs once, outside of manual regions.
    """
    name = target_of(call)
    if name == "Sharding":
        return [operands[0]]
    partitioner = custom_call_partitioner(name)
    if partitioner is not None:
        return partitioner(call, operands, b)
    if name not in BOUNDARIES:
        effect = call.attributes_as(at.CustomCallAttributes).custom_call_has_side_effect or owner(call) is not None
        once = effect and target.kind != "manual" and name not in PASSED_CUSTOM_CALLS
        return run_once(call, operands, b) if once else run_on_tiles(call, operands, target, b)
    return step_over_boundary(call, operands[0], target, b)


OPCODE_RULES: Mapping[str, OpcodeRule] = {
    "constant": _constant,
    "convolution": windowed,
    "custom-call": _custom_call,
    "dynamic-update-slice": updated,
    "iota": _iota,
    "pad": windowed,
    "reduce-window": windowed,
    "reshape": _reshape,
    "reverse": _reverse,
    "rng": _rng,
    "select-and-scatter": select_and_scatter,
    "slice": windowed,
}
