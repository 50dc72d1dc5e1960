"""Shape rules of the collectives, with their replica groups.

Modules that leave replica_count and num_partitions at 1 may still name larger groups (they are compiled for one device
or the counts come later), so counts are compared only where they are set, as XLA does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModuleConfig
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.replica_groups import expand_groups
from xjit.ops.shape_inference.common import (
    array_operands,
    check_dimension,
    check_start,
    fail,
    show,
    show_dims,
    tuple_or_single,
    with_dimension,
)


def _config(instruction: HloInstruction) -> HloModuleConfig:
    module = instruction.module
    return module.config if module is not None else HloModuleConfig()


def _participants(instruction: HloInstruction, across_partitions: bool) -> tuple[int, int]:
    """Returns (ids that replica groups name, devices per id) for the collective's group mode; 1 means unknown.

    `across_partitions`: a channel id makes the ids partitions (all-to-all and its like) instead of replicas.
    """
    a, config = instruction.attributes_as(at.CollectiveAttributes), _config(instruction)
    if a.use_global_device_ids:
        return config.replica_count * config.num_partitions, 1
    if a.channel_id is None:
        return config.replica_count, 1
    if across_partitions:
        return config.num_partitions, 1
    return config.replica_count, config.num_partitions


def _check_groups(instruction: HloInstruction, uniform: bool = True, across_partitions: bool = False) -> int:
    """Checks that the groups name each id 0..n-1 once; returns the devices of a group (1: unknown)."""
    a = instruction.attributes_as(at.CollectiveAttributes)
    if a.use_global_device_ids and a.channel_id is None:
        fail(instruction, "use_global_device_ids=true needs a channel_id")
    total, per_id = _participants(instruction, across_partitions)
    groups = () if a.replica_groups.text.startswith("mesh") else expand_groups(instruction)
    if not groups:
        if a.use_global_device_ids and not a.replica_groups.text:
            fail(instruction, "use_global_device_ids=true needs replica_groups")
        return total * per_id
    ids = [i for group in groups for i in group]
    if not all(groups):
        fail(instruction, "replica_groups has an empty group")
    if len(set(ids)) != len(ids):
        repeated = next(i for n, i in enumerate(ids) if i in ids[:n])
        fail(instruction, f"replica_groups name {repeated} twice")
    if min(ids) < 0 or max(ids) != len(ids) - 1:
        missing = next((i for i in range(len(ids)) if i not in set(ids)), min(ids))
        fail(instruction, f"replica_groups must name each of 0..{len(ids) - 1} once, {missing} is missing or negative")
    if total > 1 and len(ids) != total:
        fail(instruction, f"replica_groups name {len(ids)} ids, but the module has {total}")
    if uniform and any(len(group) != len(groups[0]) for group in groups):
        fail(instruction, "the replica groups must have the same size")
    return len(groups[0]) * per_id


def _collective_dimension(instruction: HloInstruction, shapes: Sequence[Shape]) -> int:
    dims = instruction.attributes_as(at.CollectiveAttributes).dimensions
    if len(dims) != 1:
        fail(instruction, f"needs exactly one dimension, got dimensions={show_dims(dims)}")
    for shape in shapes:
        check_dimension(instruction, dims[0], shape.rank)
    return dims[0]


def _nonempty(instruction: HloInstruction) -> list[Shape]:
    shapes = array_operands(instruction)
    if not shapes:
        fail(instruction, "needs at least one operand")
    return shapes


def _shard_count(instruction: HloInstruction, large: int, small: int, group: int) -> int:
    """Returns by how much the large size exceeds the small one; it must be the group's size where that is known."""
    count = large // small if small else group
    if count < 1 or large != small * count:
        fail(instruction, f"size {large} is not a multiple of size {small}")
    if group > 1 and count != group:
        fail(instruction, f"sizes {large} and {small} differ by the factor {count}, but groups have {group} devices")
    return count


def _declared_result(instruction: HloInstruction, tuple_index: int | None) -> Shape | None:
    """Returns the declared shape of the first result, None if there is none yet."""
    shape = instruction.shape
    if tuple_index is not None:
        if not shape.is_tuple or len(shape.tuple_shapes) <= tuple_index:
            return None
        shape = shape.tuple_shapes[tuple_index]
    if shape.is_tuple and shape.tuple_shapes:
        shape = shape.tuple_shapes[0]
    return shape if shape.is_array else None


def _gathered(instruction: HloInstruction, tuple_index: int | None) -> tuple[list[Shape], list[Shape]]:
    shapes = _nonempty(instruction)
    group = _check_groups(instruction)
    dimension = _collective_dimension(instruction, shapes)
    declared = _declared_result(instruction, tuple_index)
    if declared is not None and declared.rank == shapes[0].rank:
        group = _shard_count(instruction, declared.dimensions[dimension], shapes[0].dimensions[dimension], group)
    return shapes, [with_dimension(s, dimension, s.dimensions[dimension] * group) for s in shapes]


def infer_all_gather(instruction: HloInstruction) -> Shape:
    """The operands with one dimension as many times as large as a group has devices."""
    return tuple_or_single(_gathered(instruction, None)[1])


def infer_all_gather_start(instruction: HloInstruction) -> Shape:
    """(operands, results)."""
    inputs, outputs = _gathered(instruction, 1)
    return Shape.tuple_of([tuple_or_single(inputs), tuple_or_single(outputs)])


def infer_all_reduce(instruction: HloInstruction) -> Shape:
    """The operands' shapes."""
    shapes = _nonempty(instruction)
    _check_groups(instruction, uniform=False)
    _check_combiner(instruction)
    return tuple_or_single(shapes)


def _check_combiner(instruction: HloInstruction) -> None:
    """The combiner maps two scalars to one; its type may differ from the operands' (XLA promotes)."""
    computation = instruction.to_apply
    shapes = [p.shape for p in computation.parameter_instructions]
    if len(shapes) != 2 or not all(s.is_scalar for s in [*shapes, computation.root_instruction.shape]):
        fail(instruction, f"combiner {computation.name} must map two scalars to a scalar")


def infer_reduce_scatter(instruction: HloInstruction) -> Shape:
    """The operands with one dimension divided by the devices of a group."""
    shapes = _nonempty(instruction)
    group = _check_groups(instruction)
    _check_combiner(instruction)
    dimension = _collective_dimension(instruction, shapes)
    declared = _declared_result(instruction, None)
    if declared is not None and declared.rank == shapes[0].rank:
        group = _shard_count(instruction, shapes[0].dimensions[dimension], declared.dimensions[dimension], group)
    for shape in shapes:
        if shape.dimensions[dimension] % group:
            fail(instruction, f"dimension {dimension} of {show(shape)} is not a multiple of the {group} shards")
    return tuple_or_single([with_dimension(s, dimension, s.dimensions[dimension] // group) for s in shapes])


def infer_all_to_all(instruction: HloInstruction) -> Shape:
    """With `dimensions` the operand's shape; without, the tuple of one equally shaped operand per group member."""
    shapes = _nonempty(instruction)
    group = _check_groups(instruction, across_partitions=True)
    if instruction.attributes_as(at.CollectiveAttributes).dimensions:
        dimension = _collective_dimension(instruction, shapes)
        if len(shapes) != 1:
            fail(instruction, f"with dimensions it takes one operand, got {len(shapes)}")
        if shapes[0].dimensions[dimension] % group:
            fail(instruction, f"dimension {dimension} of {show(shapes[0])} is not a multiple of the group size {group}")
        return shapes[0]
    listed = instruction.attributes_as(at.CollectiveAttributes).replica_groups.groups
    if (group > 1 or listed) and len(shapes) != group:
        fail(instruction, f"needs one operand per group member, {group}, got {len(shapes)}")
    for i, shape in enumerate(shapes):
        if not shape.compatible(shapes[0]):
            fail(instruction, f"operand {i} has shape {show(shape)}, operand 0 has {show(shapes[0])}")
        if shape.minor_to_major != shapes[0].minor_to_major:
            fail(instruction, f"operand {i} has the layout of {shape}, operand 0 that of {shapes[0]}")
    return Shape.tuple_of(shapes)


def infer_ragged_all_to_all(instruction: HloInstruction) -> Shape:
    """The output operand's shape; operands are input, output and four equally shaped integer vectors."""
    source, output, *sizes = array_operands(instruction)
    _check_groups(instruction, across_partitions=True)
    if source.element_type is not output.element_type or source.dimensions[1:] != output.dimensions[1:]:
        fail(instruction, f"input {show(source)} and output {show(output)} differ in more than dimension 0")
    for i, shape in enumerate(sizes):
        if not shape.element_type.is_integer or shape.rank not in (1, 2) or not shape.compatible(sizes[0]):
            what = "offsets and sizes are equal integer arrays of rank 1 or 2"
            fail(instruction, f"operand {i + 2} has shape {show(shape)}, {what}")
    return output


def infer_collective_broadcast(instruction: HloInstruction) -> Shape:
    """The operands' shapes."""
    shapes = _nonempty(instruction)
    _check_disjoint_groups(instruction)
    return tuple_or_single(shapes)


def _check_disjoint_groups(instruction: HloInstruction) -> None:
    """A broadcast may leave devices out, but each belongs to one group at most."""
    ids = [i for g in instruction.attributes_as(at.CollectiveAttributes).replica_groups.groups for i in g]
    if len(set(ids)) != len(ids) or any(i < 0 for i in ids):
        fail(instruction, "replica_groups must be disjoint and not negative")


def _permuted(instruction: HloInstruction) -> tuple[Shape, Shape]:
    """Returns (input, output) of a permute after checking its pairs."""
    a, config = instruction.attributes_as(at.CollectivePermuteAttributes), _config(instruction)
    limit = config.replica_count if a.channel_id is None else config.num_partitions
    for pair in a.source_target_pairs:
        if len(pair) != 2 or any(i < 0 or (limit > 1 and i >= limit) for i in pair):
            fail(instruction, f"source_target_pairs contain {show_dims(pair)}, expected two ids below {limit}")
    if a.slice_sizes:
        count, shapes = _in_place_buffers(instruction)
    else:
        shape = tuple_or_single(_nonempty(instruction))
        count, shapes = 1, (shape, shape)
    for position, what in enumerate(("source", "target")):
        counts = Counter(pair[position] for pair in a.source_target_pairs)
        named, times = max(counts.items(), key=lambda item: item[1], default=(0, 0))
        if times > count:
            often = "twice" if count == 1 else f"{times} times, but slices are {count}"
            fail(instruction, f"source_target_pairs name the {what} {named} {often}")
    return shapes


def _in_place_buffers(instruction: HloInstruction) -> tuple[int, tuple[Shape, Shape]]:
    """Checks (input, output, input offsets, output offsets); returns how many slices each buffer has, and the buffers.

    Input and output are arrays, or tuples of as many. The offsets of an array are indices into it, or a tuple of such.
    """
    if instruction.operand_count != 4:
        fail(
            instruction, f"in place it takes input, output and their offsets, got {instruction.operand_count} operands"
        )
    source, target, *offsets = [operand.shape for operand in instruction.operands]
    if source.is_tuple != target.is_tuple or len(source.tuple_shapes) != len(target.tuple_shapes):
        fail(instruction, f"input {show(source)} and output {show(target)} are not as many buffers")
    for buffer, offset, what in ((source, offsets[0], "input"), (target, offsets[1], "output")):
        if not buffer.is_tuple:
            _check_offsets(instruction, buffer, offset, what)
            continue
        if len(buffer.tuple_shapes) != len(offset.tuple_shapes):
            fail(instruction, f"the {what} offsets {show(offset)} do not have one entry per buffer of {show(buffer)}")
        for part, places in zip(buffer.tuple_shapes, offset.tuple_shapes, strict=True):
            _check_offsets(instruction, part, places, what)
    slices = offsets[0].tuple_shapes[0] if source.is_tuple else offsets[0]
    return len(slices.tuple_shapes), (source, target)


def _check_offsets(instruction: HloInstruction, buffer: Shape, offset: Shape, what: str) -> None:
    places = offset.tuple_shapes if all(s.is_tuple for s in offset.tuple_shapes) else (offset,)
    if not offset.is_tuple or any(len(p.tuple_shapes) != buffer.rank for p in places):
        fail(instruction, f"the {what} offsets {show(offset)} are not one index per dimension of {show(buffer)}")


def infer_collective_permute(instruction: HloInstruction) -> Shape:
    """The operands' shapes; in place, the output operand's shape."""
    return _permuted(instruction)[1]


def infer_collective_permute_start(instruction: HloInstruction) -> Shape:
    """(input, output, contexts...); the contexts are as declared."""
    source, output = _permuted(instruction)
    contexts = instruction.shape.tuple_shapes[2:] if instruction.shape.is_tuple else ()
    return Shape.tuple_of([source, output, *contexts])


def infer_second_element(instruction: HloInstruction) -> Shape:
    """all-gather-done, collective-permute-done: the result inside the start's tuple."""
    shape = instruction.operand(0).shape
    if not shape.is_tuple or len(shape.tuple_shapes) < 2:
        fail(instruction, f"the operand must be a tuple of input and result, but has shape {show(shape)}")
    check_start(instruction)
    return shape.tuple_shapes[1]


def infer_all_reduce_done(instruction: HloInstruction) -> Shape:
    """The operand's shape."""
    check_start(instruction)
    return instruction.operand(0).shape


RULES: Mapping[str, ShapeRule] = MappingProxyType(
    {
        "all-gather": infer_all_gather,
        "all-gather-start": infer_all_gather_start,
        "all-gather-done": infer_second_element,
        "all-reduce": infer_all_reduce,
        "all-reduce-start": infer_all_reduce,
        "all-reduce-done": infer_all_reduce_done,
        "reduce-scatter": infer_reduce_scatter,
        "all-to-all": infer_all_to_all,
        "ragged-all-to-all": infer_ragged_all_to_all,
        "collective-broadcast": infer_collective_broadcast,
        "collective-permute": infer_collective_permute,
        "collective-permute-start": infer_collective_permute_start,
        "collective-permute-done": infer_second_element,
    }
)
