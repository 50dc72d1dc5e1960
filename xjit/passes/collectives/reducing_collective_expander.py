"""all-reduce and reduce-scatter as movement between devices, and a fold of what has come.

What runs collectives then moves bytes only, and the fold is code like any other: it fuses, and its order is that of
the group, so results are the same bits from run to run and on all devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction, Literal, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.attributes.values import ReplicaGroups
from xjit.hlo.diagnostics import Unsupported
from xjit.ops import build
from xjit.ops.evaluation.collective import rounded_once
from xjit.ops.replica_groups import Groups, device_groups
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

GATHERED_BYTES = 1 << 16
"""Up to so many bytes of a whole group every device folds all of them: one meeting instead of two."""


@dataclass
class ReducingCollectiveExpander(OpExpander):
    """Exchanges operands, or each device's share of them, and folds them in the order of the group.

    A large all-reduce is an all-to-all, a fold of this device's share, and an all-gather. Group ids become devices.
    """

    name = "reducing-collective-expander"
    opcodes = frozenset({"all-reduce", "reduce-scatter"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the totals, as a tuple if the shape is one; None for dynamic shapes and reducers of another type."""
        if not all(_is_foldable(o.shape, instruction) for o in instruction.operands):
            return None
        groups = device_groups(instruction)
        fold = _reduce_scatter if instruction.opcode == "reduce-scatter" else _all_reduce
        totals = [fold(instruction, operand, groups, into) for operand in instruction.operands]
        return into.tuple_of(*totals) if instruction.shape.is_tuple else totals[0]


def _is_foldable(shape: Shape, instruction: HloInstruction) -> bool:
    reducer = instruction.to_apply
    kinds = {p.shape.element_type for p in (*reducer.parameter_instructions, reducer.root_instruction)}
    return shape.is_static_array and kinds == {shape.element_type}


def _attributes(instruction: HloInstruction, groups: Groups, dimension: int) -> at.CollectiveAttributes:
    """A collective over groups of devices, along a dimension."""
    channel = instruction.attributes_as(at.CollectiveAttributes).channel_id
    return at.CollectiveAttributes(
        channel_id=1 if channel is None else channel,
        replica_groups=ReplicaGroups(groups),
        use_global_device_ids=True,
        dimensions=(dimension,),
    )


def _all_gather(
    instruction: HloInstruction, operand: HloInstruction, groups: Groups, into: Expansion
) -> HloInstruction:
    """Every member's operand: one more dimension in front."""
    row = into.add(build.reshape(operand, (1, *operand.shape.dimensions)))
    shape = Shape.array(operand.shape.element_type, (len(groups[0]), *operand.shape.dimensions))
    return _exchange("all-gather", shape.with_default_layouts(), row, instruction, groups, 0, into)


def _all_to_all(
    instruction: HloInstruction, operand: HloInstruction, groups: Groups, dimension: int, into: Expansion
) -> HloInstruction:
    return _exchange("all-to-all", operand.shape, operand, instruction, groups, dimension, into)


def _exchange(
    opcode: str,
    shape: Shape,
    operand: HloInstruction,
    instruction: HloInstruction,
    groups: Groups,
    dimension: int,
    into: Expansion,
) -> HloInstruction:
    """A collective whose name says what it is for: who looks for the reduction finds it."""
    attributes, name = _attributes(instruction, groups, dimension), f"{instruction.opcode}-{opcode}"
    return into.add(HloInstruction.create(opcode, shape, [operand], attributes, name=name))


def _all_reduce(
    instruction: HloInstruction, operand: HloInstruction, groups: Groups, into: Expansion
) -> HloInstruction:
    members = len(groups[0])
    if any(len(group) != members for group in groups):
        return _all_reduce_unequal(instruction, operand, groups, into)
    if operand.shape.byte_size * members <= GATHERED_BYTES:
        total = _fold(instruction, _parts(_all_gather(instruction, operand, groups, into), members, 0, into), into)
        return into.add(build.reshape(total, operand.shape.dimensions))
    size = operand.shape.num_elements
    share = -(-size // members)
    flat = into.add(build.reshape(operand, (size,)))
    if share * members != size:
        zero = into.full(Shape.array(operand.shape.element_type), 0)
        flat = into.add(build.pad(flat, zero, [(0, share * members - size, 0)]))
    rows = into.add(build.reshape(flat, (members, share)))
    total = _fold(instruction, _parts(_all_to_all(instruction, rows, groups, 0, into), members, 0, into), into)
    whole = into.add(build.reshape(_all_gather(instruction, total, groups, into), (members * share,)))
    if share * members != size:
        whole = into.add(build.slice_(whole, [0], [size]))
    return into.add(build.reshape(whole, operand.shape.dimensions))


def _all_reduce_unequal(
    instruction: HloInstruction, operand: HloInstruction, groups: Groups, into: Expansion
) -> HloInstruction:
    """Groups of several sizes: everyone gets everything, and folds as many parts as its group has members."""
    devices = sum(map(len, groups))
    most = max(map(len, groups))
    everyone = _all_gather(instruction, operand, (tuple(range(devices)),), into)
    table = np.zeros((devices, most + 1), np.int32)  # of a device: the members of its group, and how many they are
    for group in groups:
        for device in group:
            table[device, : len(group)] = group
            table[device, most] = len(group)
    row = _row_of_this_device(instruction, table, into)
    zero = into.add(build.make_constant(0, PrimitiveType.S32))
    parts: list[HloInstruction] = []
    for k in range(most):
        starts = [_number(row, k, into), *[zero] * operand.shape.rank]
        sizes = at.DynamicSliceAttributes((1, *operand.shape.dimensions))
        part = into.make("dynamic-slice", everyone, *starts, attributes=sizes)
        parts.append(into.add(build.reshape(part, operand.shape.dimensions)))
    return _fold(instruction, parts, into, _number(row, most, into))


def _row_of_this_device(
    instruction: HloInstruction, table: np.ndarray[tuple[int, int], np.dtype[np.int32]], into: Expansion
) -> HloInstruction:
    module = instruction.module
    assert module is not None
    count = into.add(build.make_constant(module.config.num_partitions, PrimitiveType.U32))
    first = into.make("multiply", into.make("replica-id"), count)
    device = into.add(build.convert(into.make("add", first, into.make("partition-id")), PrimitiveType.S32))
    zero = into.add(build.make_constant(0, PrimitiveType.S32))
    rows = into.constant(Literal.from_array(table))
    return into.make("dynamic-slice", rows, device, zero, attributes=at.DynamicSliceAttributes((1, table.shape[1])))


def _number(row: HloInstruction, index: int, into: Expansion) -> HloInstruction:
    return into.add(build.reshape(into.add(build.slice_(row, [0, index], [1, index + 1])), ()))


def _reduce_scatter(
    instruction: HloInstruction, operand: HloInstruction, groups: Groups, into: Expansion
) -> HloInstruction:
    (dimension,) = instruction.attributes_as(at.CollectiveAttributes).dimensions
    members = len(groups[0])
    if (
        instruction.shape.is_array
        and operand.shape.dimensions[dimension] != instruction.shape.dimensions[dimension] * members
    ):
        raise Unsupported(f"reduce-scatter is for other groups than those of {members} here", instruction.span)
    exchanged = _all_to_all(instruction, operand, groups, dimension, into)
    return _fold(instruction, _parts(exchanged, members, dimension, into), into)


def _parts(array: HloInstruction, count: int, dimension: int, into: Expansion) -> list[HloInstruction]:
    """The equal parts of an array along a dimension."""
    dims = array.shape.dimensions
    size = dims[dimension] // count
    parts: list[HloInstruction] = []
    for k in range(count):
        start, limit = [0] * len(dims), list(dims)
        start[dimension], limit[dimension] = k * size, (k + 1) * size
        parts.append(into.add(build.slice_(array, start, limit)))
    return parts


def _fold(
    instruction: HloInstruction,
    parts: Sequence[HloInstruction],
    into: Expansion,
    count: HloInstruction | None = None,
) -> HloInstruction:
    """Combines parts with the reducer, from the first on; of more than `count` (an s32) the others do not count.

    What is `rounded_once` is rounded at the end.
    """
    kind = parts[0].shape.element_type
    opcode = rounded_once(instruction, kind)
    if opcode is not None:
        parts = [into.add(build.convert(part, PrimitiveType.F32)) for part in parts]
    total = parts[0]
    for k, part in enumerate(parts[1:], start=1):
        if opcode is not None:
            combined = into.make(opcode, total, part)
        else:
            dimensions = at.DimensionsAttributes(tuple(range(part.shape.rank)))
            combined = into.make("map", total, part, attributes=dimensions, called=[instruction.to_apply])
        if count is not None:
            limit = into.add(build.make_constant(k, PrimitiveType.S32))
            is_member = into.add(build.compare("GT", count, limit))
            if part.shape.rank:
                is_member = into.add(
                    build.broadcast_scalar(is_member, part.shape.with_element_type(PrimitiveType.PRED))
                )
            combined = into.add(build.select(is_member, combined, total))
        total = combined
    return into.add(build.convert(total, kind)) if opcode is not None else total
