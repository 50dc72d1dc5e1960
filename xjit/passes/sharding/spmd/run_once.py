"""Custom calls with an effect, or of one device, outside of manual regions: one makes the call, all get its results."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction, HloVerifyError, Shape
from xjit.hlo.annotations.device_sharding import REPLICATED, read_sharding
from xjit.passes.expand.writing import Writer
from xjit.passes.sharding.sharding_slots import leaf_shapes, leaves_of
from xjit.passes.sharding.spmd.builder import NOTHING, SpmdBuilder
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard


def run_once(call: HloInstruction, operands: Sequence[PartitionedHlo], b: SpmdBuilder) -> list[PartitionedHlo]:
    """Returns the results on all devices, of a call that the device of its `maximal` sharding makes, or the first.

    Error: HloVerifyError for a device that is none of the partitions.
    """
    given = b.tuple_of(*[reshard(part, REPLICATED, b).local for part in operands])
    leaves = [shape for shape in leaf_shapes(call.shape) if not shape.is_tuple]
    branches = [b.into.embed(_made(call, given, b)), b.into.embed(_not_made(call, given, leaves, b))]
    operands_of_choice = [b.is_on(_device(call, b)), given, given]
    chosen = b.add(HloInstruction.create_conditional(Shape.tuple_of(leaves), operands_of_choice, branches))
    parts = [_result(b.element(chosen, i), b) for i in range(len(leaves))]
    return parts or [PartitionedHlo(b.tuple_of(), call.shape, REPLICATED)]


def _made(call: HloInstruction, given: HloInstruction, b: SpmdBuilder) -> HloComputation:
    """The call, and what it gives as a tuple."""
    body = HloComputation.Builder(f"{call.name}_made")
    writer = Writer(b.into, body)
    parameter = writer.add(HloInstruction.create_parameter(0, given.shape, "operands"))
    operands = [writer.element(parameter, i) for i in range(call.operand_count)]
    own = writer.add(call.clone_with_new_operands(call.shape, operands))
    return body.build(own if call.shape.is_tuple else writer.tuple_of(own))


def _not_made(call: HloInstruction, given: HloInstruction, leaves: Sequence[Shape], b: SpmdBuilder) -> HloComputation:
    """Zeros in its place."""
    body = HloComputation.Builder(f"{call.name}_not_made")
    writer = Writer(b.into, body)
    writer.add(HloInstruction.create_parameter(0, given.shape, "operands"))
    found = [
        writer.full(shape, NOTHING) if shape.is_array else writer.add(HloInstruction.create_after_all(shape, ()))
        for shape in leaves
    ]
    return body.build(writer.tuple_of(*found))


def _result(local: HloInstruction, b: SpmdBuilder) -> PartitionedHlo:
    """An array that is zero on all devices but one, on all of them; tokens stay."""
    whole = b.sum_over(local, (tuple(range(b.spmd.devices)),)) if local.shape.is_array else local
    return PartitionedHlo(whole, local.shape, REPLICATED)


def owner(call: HloInstruction) -> int | None:
    """The device of a call's `maximal` sharding, if it has one."""
    found = [read_sharding(leaf) for leaf in leaves_of(call.sharding)] if call.sharding is not None else []
    return next((sharding.devices[0] for sharding in found if sharding.kind == "maximal"), None)


def _device(call: HloInstruction, b: SpmdBuilder) -> int:
    device = owner(call) or 0
    if not 0 <= device < b.spmd.devices:
        raise HloVerifyError(f"custom-call on device {device} of {b.spmd.devices}", call.span)
    return device
