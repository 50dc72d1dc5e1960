"""all-gather as an all-reduce of arrays that are zero but for each device's own part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction, Literal, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.ops.replica_groups import expand_groups
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

_BITS = {8: PrimitiveType.U8, 16: PrimitiveType.U16, 32: PrimitiveType.U32, 64: PrimitiveType.U64}


def _always(_: HloInstruction) -> bool:
    return True


@dataclass
class AllGatherDecomposer(OpExpander):
    """Writes each device's operand into zeros, at its place in the group, and sums over the group.

    A sum with zeros is exact but for the sign of -0 and the bits of a NaN; with `bit_exact` floats are joined as the
    bits that they are. `should_decompose` chooses all-gathers.
    """

    should_decompose: Callable[[HloInstruction], bool] = _always
    bit_exact: bool = False

    name = "all-gather-decomposer"
    opcodes = frozenset({"all-gather"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns one all-reduce per operand, as a tuple if there are several; None for sizes that are not static."""
        shape = instruction.shape
        outputs = shape.tuple_shapes if shape.is_tuple else (shape,)
        arrays = (*outputs, *[o.shape for o in instruction.operands])
        if not self.should_decompose(instruction) or not all(s.is_static_array for s in arrays):
            return None
        position = place_in_group(instruction, into)
        parts = [self._gathered(instruction, o, s, position, into) for o, s in zip(instruction.operands, outputs)]
        return into.tuple_of(*parts) if shape.is_tuple else parts[0]

    def _gathered(
        self,
        gather: HloInstruction,
        operand: HloInstruction,
        output: Shape,
        position: HloInstruction,
        into: Expansion,
    ) -> HloInstruction:
        kind = output.element_type
        bits = _BITS.get(kind.bit_width) if self.bit_exact and kind.is_float else None
        if bits is None:
            return _all_reduce(gather, operand, output, "or" if kind is PrimitiveType.PRED else "add", position, into)
        as_bits = into.make("bitcast-convert", operand, shape=operand.shape.with_element_type(bits))
        joined = _all_reduce(gather, as_bits, output.with_element_type(bits), "or", position, into)
        return into.make("bitcast-convert", joined, shape=output)


def place_in_group(collective: HloInstruction, into: Expansion) -> HloInstruction:
    """Adds and returns this device's place in its group, u32[]."""
    module, a = collective.module, collective.attributes_as(at.CollectiveAttributes)
    assert module is not None
    groups, partitions = expand_groups(collective), module.config.num_partitions
    replica = into.make("replica-id")
    if a.channel_id is None:
        return _look_up(groups, replica, into)
    if a.use_global_device_ids:
        return _look_up(groups, _flattened(replica, partitions, into), into)
    return _flattened(_look_up(groups, replica, into), partitions, into)  # all partitions of each replica of a group


def _flattened(replica: HloInstruction, partitions: int, into: Expansion) -> HloInstruction:
    """The number of a device, replica * P + partition."""
    count = into.add(build.make_constant(partitions, PrimitiveType.U32))
    return into.make("add", into.make("multiply", replica, count), into.make("partition-id"))


def _look_up(groups: tuple[tuple[int, ...], ...], member: HloInstruction, into: Expansion) -> HloInstruction:
    """The place of an id in its group."""
    if not groups or (len(groups) == 1 and groups[0] == tuple(range(len(groups[0])))):
        return member
    places = np.zeros(1 + max(max(group, default=0) for group in groups), np.uint32)
    for group in groups:
        places[list(group)] = range(len(group))
    table = into.constant(Literal.from_array(places))
    place = into.make("dynamic-slice", table, member, attributes=at.DynamicSliceAttributes((1,)))
    return into.add(build.reshape(place, ()))


def _all_reduce(
    gather: HloInstruction,
    operand: HloInstruction,
    output: Shape,
    opcode: str,
    position: HloInstruction,
    into: Expansion,
) -> HloInstruction:
    a = gather.attributes_as(at.CollectiveAttributes)
    (dimension,) = a.dimensions
    size = into.add(build.make_constant(operand.shape.dimensions[dimension], PrimitiveType.U32))
    offset = into.make("multiply", position, size)
    starts = [offset] * output.rank
    if output.rank > 1:
        zero = into.add(build.make_constant(0, PrimitiveType.U32))
        starts = [offset if d == dimension else zero for d in range(output.rank)]
    own = into.make("dynamic-update-slice", into.full(output, 0), operand, *starts)
    kind = output.element_type
    reducer = build.make_binary_computation(opcode, kind)
    attributes = at.CollectiveAttributes(a.channel_id, a.replica_groups, a.constrain_layout, a.use_global_device_ids)
    return into.add(HloInstruction.create("all-reduce", output, [own], attributes, [into.embed(reducer)]))
