"""Arrays that come or go as summands, one per device: inside of a program all devices have the sum.

Summands that go are those that a sum was made of, as far as operations are linear; else one device of a group has the
whole array, and the others have zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xjit.hlo import HloInstruction, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import summing_groups
from xjit.hlo.annotations.metadata import HloSharding
from xjit.passes.sharding.sharding_slots import leaf_shapes, leaves_of
from xjit.passes.sharding.spmd.builder import INDEX, NOTHING, SpmdBuilder
from xjit.passes.sharding.spmd.placement import Groups

SUMMANDS: Final = "xjit.summands"
"""The frontend attribute of a step into a manual region that gives each device a summand: the array's sharding."""

_LINEAR: Final = frozenset(
    {"add", "bitcast", "broadcast", "concatenate", "convert", "copy", "multiply", "negate", "reshape", "slice"}
    | {"subtract", "transpose"}
)
"""What is linear in all its operands, a product in one of them."""


def groups_of_leaves(sharding: HloSharding | None, shape: Shape, devices: int) -> list[Groups]:
    """For each array of a value the groups of devices whose summands make it; empty where all have the array."""
    count = len(list(leaf_shapes(shape)))
    if sharding is None:
        return [()] * count
    given = [summing_groups(leaf, devices) for leaf in leaves_of(sharding)]
    return given * count if len(given) == 1 else given


def sum_of(local: HloInstruction, groups: Groups, b: SpmdBuilder) -> HloInstruction:
    """The array that the summands of a group make; itself without groups."""
    return b.sum_over(local, groups) if groups else local


def summand_of(local: HloInstruction, groups: Groups, b: SpmdBuilder) -> HloInstruction:
    """What each device of a group has of an array that all have; the array without groups."""
    if not groups:
        return local
    known = _known_summand(local, groups, b)
    if known is not None:
        return known
    is_first = [0] * b.spmd.devices
    for group in groups:
        is_first[group[0]] = 1
    has_it = b.compare("NE", b.number(is_first), b.constant(0, INDEX))
    mask = b.broadcast(has_it, local.shape.dimensions) if local.shape.rank else has_it
    return b.make("select", mask, local, b.like(local, NOTHING))


def _known_summand(local: HloInstruction, groups: Groups, b: SpmdBuilder) -> HloInstruction | None:
    """What was added up, if an array is a linear function of sums over the same groups."""
    wanted = _as_sets(b.spmd.global_groups(groups).groups)
    known: dict[HloInstruction, HloInstruction | None] = {}
    pending = [local]
    while pending:
        instruction = pending[-1]
        if instruction in known:
            pending.pop()
        elif _is_sum(instruction, wanted):
            known[instruction] = instruction.operand(0)
        elif instruction.opcode not in _LINEAR and not _gathers_alike(instruction, wanted):
            known[instruction] = None
        elif missing := [o for o in instruction.operands if o not in known]:
            pending += missing
        else:
            parts = [known[o] or o for o in instruction.operands]
            num_known = sum(known[o] is not None for o in instruction.operands)
            known[instruction] = None
            if num_known == _num_wanted(instruction):
                known[instruction] = b.add(instruction.clone_with_new_operands(instruction.shape, parts))
    return known[local]


def _gathers_alike(instruction: HloInstruction, groups: frozenset[frozenset[int]]) -> bool:
    """Whether the devices of a group gather, piece by piece, from those of a group each."""
    if instruction.opcode != "all-gather" or instruction.operand_count != 1:
        return False
    attributes = instruction.attributes_as(at.CollectiveAttributes)
    members = {device: gathered for gathered in attributes.replica_groups.groups for device in gathered}
    if not attributes.use_global_device_ids or not members:
        return False
    return all(frozenset(piece) in groups for group in groups for piece in zip(*(members[device] for device in group)))


def _num_wanted(instruction: HloInstruction) -> int:
    """In how many operands an instruction is linear; a conversion only if it merely rounds."""
    if instruction.opcode == "convert":
        rounds = all(i.shape.element_type.is_float for i in (instruction, instruction.operand(0)))
        return 1 if rounds else -1
    return 1 if instruction.opcode == "multiply" else instruction.operand_count


def _is_sum(instruction: HloInstruction, groups: frozenset[frozenset[int]]) -> bool:
    if instruction.opcode != "all-reduce" or instruction.operand_count != 1:
        return False
    attributes = instruction.attributes_as(at.CollectiveAttributes)
    same = _as_sets(attributes.replica_groups.groups) == groups and attributes.use_global_device_ids
    root = instruction.to_apply.root_instruction
    return same and root.opcode == "add" and {*root.operands} == {*instruction.to_apply.parameter_instructions}


def _as_sets(groups: Sequence[Sequence[int]]) -> frozenset[frozenset[int]]:
    return frozenset(frozenset(group) for group in groups)
