"""Custom calls with an effect outside of manual regions: one device makes the call, and gives its results to all."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction, HloVerifyError, Unsupported
from xjit.hlo.annotations.device_sharding import REPLICATED, read_sharding
from xjit.passes.expand.writing import Writer
from xjit.passes.sharding.sharding_slots import leaf_shapes, leaves_of
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.leaves import take_apart
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard


def run_once(call: HloInstruction, operands: Sequence[PartitionedHlo], b: SpmdBuilder) -> list[PartitionedHlo]:
    """Returns the results on all devices, of a call that the device of its `maximal` sharding makes, or the first.

    Errors: Unsupported for tokens, HloVerifyError for a device that is none of the partitions.
    """
    shapes = [*(o.shape for o in call.operands), *(s for s in leaf_shapes(call.shape) if not s.is_tuple)]
    if not all(shape.is_array for shape in shapes):
        raise Unsupported(f"spmd-partitioner: custom-call '{call.name}' with tokens", call.span)
    whole = [reshard(part, REPLICATED, b).local for part in operands]
    given = b.tuple_of(*whole)
    made, none = HloComputation.Builder(f"{call.name}_once"), HloComputation.Builder(f"{call.name}_not")
    parameter = made.add_instruction(HloInstruction.create_parameter(0, given.shape, "operands"))
    inner = Writer(b.into, made)
    root = inner.add(call.clone_with_new_operands(call.shape, [inner.element(parameter, i) for i in range(len(whole))]))
    none.add_instruction(HloInstruction.create_parameter(0, given.shape, "operands"))
    other = Writer(b.into, none)
    zeros = [other.full(shape, 0) for shape in leaf_shapes(call.shape) if shape.is_array]
    nothing = other.tuple_of(*zeros) if call.shape.is_tuple else zeros[0]
    branches = [b.into.embed(made.build(root)), b.into.embed(none.build(nothing))]
    chosen = b.add(HloInstruction.create_conditional(call.shape, [b.is_on(_device(call, b)), given, given], branches))
    leaves = list(leaf_shapes(call.shape))
    parts = take_apart(chosen, call.shape, [REPLICATED] * len(leaves), b)
    return [_from_one(part, b) for part in parts]


def _from_one(part: PartitionedHlo, b: SpmdBuilder) -> PartitionedHlo:
    """An array that is zero on all devices but one, on all of them."""
    if not part.shape.is_array:
        return part
    return PartitionedHlo(b.sum_over(part.local, (tuple(range(b.spmd.devices)),)), part.shape, REPLICATED)


def _device(call: HloInstruction, b: SpmdBuilder) -> int:
    found = [read_sharding(leaf) for leaf in leaves_of(call.sharding)] if call.sharding is not None else []
    device = next((sharding.devices[0] for sharding in found if sharding.kind == "maximal"), 0)
    if not 0 <= device < b.spmd.devices:
        raise HloVerifyError(f"custom-call on device {device} of {b.spmd.devices}", call.span)
    return device
