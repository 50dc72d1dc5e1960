"""Steps over the edges of manual regions: a device's tile of an array is seen as another array, or as a summand."""

from __future__ import annotations

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.device_sharding import DeviceSharding, read_sharding, summing_groups
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import HloVerifyError
from xjit.passes.sharding.manual_regions import MANUAL_PART, TO_REGION
from xjit.passes.sharding.sharding_annotations import target_of
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import keep_tiles, local_shape, place
from xjit.passes.sharding.spmd.summands import SUMMANDS, groups_of_leaves, sum_of, summand_of


def step_over_boundary(
    call: HloInstruction, operand: PartitionedHlo, target: DeviceSharding, b: SpmdBuilder
) -> list[PartitionedHlo]:
    """Returns the array behind an edge.

    Tiles along axes that the region leaves to the compiler stay, if they are the same on both sides; else they are
    brought together before. HloVerifyError if a device's tile is no part of the array behind.
    """
    if not _same_tiles(call, operand, target, b):
        whole = _without_free_axes(call, operand, target)
        if whole is not None:
            before, target = whole
            operand = reshard(operand, before, b)
    local = operand.local
    if local_shape(call.shape, target, b.spmd.devices).dimensions != local.shape.dimensions:
        raise HloVerifyError(
            f"custom-call {target_of(call)}: one device's part of the operand has dimensions "
            f"{list(local.shape.dimensions)}, which is no part of {call.shape} under {{{target}}}",
            call.span,
        )
    (given,) = groups_of_leaves(call.sharding, call.shape, b.spmd.devices)
    local = sum_of(local, given, b)
    if taken := call.frontend_attributes.get(SUMMANDS):
        local = summand_of(local, summing_groups(HloSharding(taken), b.spmd.devices), b)
    return [PartitionedHlo(local, call.shape, target)]


def _same_tiles(call: HloInstruction, operand: PartitionedHlo, target: DeviceSharding, b: SpmdBuilder) -> bool:
    """Whether each device's tile is the same on both sides: as far into the part of its group as into the array."""
    devices = b.spmd.devices
    have, want = operand.placement(devices), place(call.shape.dimensions, target, devices)
    outside, inside = (have, want) if target_of(call) == TO_REGION else (want, have)
    part = _manual_part(call)
    if part is None or outside.local != inside.local:
        return outside.local == inside.local
    begins = place(outside.sizes, part, devices).starts
    return np.array_equal(outside.starts, begins + inside.starts)


def _manual_part(call: HloInstruction) -> DeviceSharding | None:
    """The sharding outside by the region's own axes alone, if the step says it."""
    text = call.frontend_attributes.get(MANUAL_PART)
    return None if text is None else read_sharding(HloSharding(text))


def _without_free_axes(
    call: HloInstruction, operand: PartitionedHlo, target: DeviceSharding
) -> tuple[DeviceSharding, DeviceSharding] | None:
    """The shardings on both sides, of operand and result, that are split by the region's own axes only."""
    outside = _manual_part(call)
    if outside is None:
        return None
    if target_of(call) == TO_REGION:
        return outside, keep_tiles(target, ())
    return keep_tiles(operand.sharding, ()), outside
