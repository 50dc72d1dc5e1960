"""Custom-calls that stand for shardings: `Sharding` is folded into what it annotates, barriers go at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import read_sharding
from xjit.hlo.edit.replacing import replace
from xjit.passes.framework.base import has_control_dependencies

BARRIERS = frozenset({"ShardBarrierFrom", "ShardBarrierTo"})
BOUNDARIES = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})
"""Between what all devices share and what each has of its own."""

_FREE = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")


@dataclass
class FoldedAnnotations:
    """What folding found: whether it changed something, dimensions left free, and groups that are to be alike."""

    changed: bool = False
    free_dimensions: dict[HloInstruction, frozenset[int]] = field(
        default_factory=dict[HloInstruction, "frozenset[int]"]
    )
    groups: dict[str, list[HloInstruction]] = field(default_factory=dict[str, "list[HloInstruction]"])


def target_of(instruction: HloInstruction) -> str:
    """Returns the target of a custom-call; "" for other instructions."""
    if instruction.opcode != "custom-call":
        return ""
    return instruction.attributes_as(at.CustomCallAttributes).custom_call_target


def fold_annotations(computations: Sequence[HloComputation], *, keep_calls: bool) -> FoldedAnnotations:
    """Replaces `Sharding` custom-calls by their operand, which takes the sharding, or by a copy with it.

    A copy is needed for a parameter, an operand with another sharding, and where dimensions are left free. With
    `keep_calls` they stay, and only groups are collected.
    """
    found = FoldedAnnotations()
    for instruction in list(_all(computations)):
        annotated = instruction
        if target_of(instruction) in BOUNDARIES and (free := _free_dimensions(instruction)):
            found.free_dimensions[instruction] = free
        if target_of(instruction) == "Sharding" and not keep_calls and instruction.operand_count == 1:
            annotated = _fold(instruction, found)
            found.changed = True
        for source in dict.fromkeys((instruction, annotated)):
            if source.sharding and not source.sharding.elements:
                _join_group(read_sharding(source.sharding).group, annotated, found)
    return found


def _join_group(group: str, member: HloInstruction, found: FoldedAnnotations) -> None:
    if group and member not in found.groups.setdefault(group, []):
        found.groups[group].append(member)


def _free_dimensions(call: HloInstruction) -> frozenset[int]:
    free = _FREE.search(call.raw_backend_config)
    return frozenset(int(d) for d in free[1].split(",") if d.strip()) if free else frozenset()


def _fold(call: HloInstruction, found: FoldedAnnotations) -> HloInstruction:
    computation, operand, sharding = call.parent, call.operands[0], call.sharding
    assert computation is not None
    dimensions = _free_dimensions(call)
    unknown = sharding is None or (not sharding.elements and read_sharding(sharding).kind == "unknown")
    if unknown:
        needs_copy = operand.opcode == "parameter" and operand.sharding is None
    else:
        needs_copy = operand.opcode == "parameter" if operand.sharding is None else operand.sharding != sharding
    if needs_copy or dimensions or has_control_dependencies(call):
        copy = HloInstruction.create("copy", call.shape, [operand])
        replace(call, computation.add_instruction(copy), [copy])
        copy.sharding = sharding
        if dimensions:
            found.free_dimensions[copy] = dimensions
        return copy
    if not unknown:
        operand.sharding = sharding
    call.replace_all_uses_with_different_shape(operand)
    computation.remove_instruction(call)
    return operand


def remove_barriers(computations: Sequence[HloComputation]) -> bool:
    """Replaces barriers by their operands; True if there were some."""
    barriers = [i for i in _all(computations) if target_of(i) in BARRIERS and i.operand_count == 1]
    for barrier in barriers:
        replace(barrier, barrier.operands[0])
    return bool(barriers)


def _all(computations: Sequence[HloComputation]) -> Iterator[HloInstruction]:
    return (i for c in computations for i in c.make_instruction_post_order())
