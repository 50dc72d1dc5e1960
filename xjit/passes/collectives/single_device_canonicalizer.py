"""Removes what only means something on several devices or to an optimizer that xjit is not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction, HloModule, Literal
from xjit.hlo import attributes as at
from xjit.ops.custom_call_targets import IDENTITY_TARGETS
from xjit.ops.replica_groups import is_alone
from xjit.passes.framework.base import HloModulePass


@dataclass
class SingleDeviceCanonicalizer(HloModulePass):
    """Sharding annotations, domains and optimization barriers become their operand.

    With one replica and one partition `replica-id` and `partition-id` are 0, and a collective whose result has the
    shape
    of its operand (one participant) is its operand.
    """

    name = "single-device-canonicalizer"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites; True if something changed."""
        alone = module.config.replica_count * module.config.num_partitions == 1
        changed = False
        for computation in module.computations(execution_threads):
            for instruction in computation.instructions:
                replacement = _replacement(instruction, alone)
                if replacement is None:
                    continue
                if replacement.parent is None:
                    computation.add_instruction(replacement)
                _replace(instruction, replacement)
                changed = True
        return changed


_ONE_PARTICIPANT = frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast"})


def _replacement(instruction: HloInstruction, alone: bool) -> HloInstruction | None:
    opcode = instruction.opcode
    if opcode in ("opt-barrier", "domain"):
        return instruction.operand(0)
    if (
        opcode == "custom-call"
        and instruction.attributes_as(at.CustomCallAttributes).custom_call_target in IDENTITY_TARGETS
    ):
        operand = instruction.operand(0) if instruction.operand_count == 1 else None
        return operand if operand is not None and operand.shape.compatible(instruction.shape) else None
    if alone and opcode in ("replica-id", "partition-id"):
        return HloInstruction.create_constant(Literal.from_array(np.uint32(0)), name=opcode.replace("-", "_"))
    if opcode in _ONE_PARTICIPANT and instruction.operand_count == 1 and is_alone(instruction):
        operand = instruction.operand(0)
        return operand if operand.shape.compatible(instruction.shape) else None
    return None


def _replace(instruction: HloInstruction, replacement: HloInstruction) -> None:
    """Control edges go over to the users: what had to wait for the instruction waits for what it waited for."""
    for predecessor in list(instruction.control_predecessors):
        for successor in list(instruction.control_successors):
            predecessor.add_control_dependency_to(successor)
        for user in instruction.users:
            predecessor.add_control_dependency_to(user)
    for successor in list(instruction.control_successors):
        if replacement is not successor:
            replacement.add_control_dependency_to(successor)
    instruction.replace_all_uses_with_different_shape(replacement)
    assert instruction.parent is not None
    instruction.parent.force_remove_instruction(instruction)
