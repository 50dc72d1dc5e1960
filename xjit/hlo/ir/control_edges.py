"""Control edges: one instruction runs before another, in the same computation, without passing a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction


def add_control_dependency_to(instruction: HloInstruction, other: HloInstruction) -> None:
    """Orders this before `other`; both must be in one computation. Cycles are found by the verifier."""
    if other.parent is not instruction.parent:
        raise InvalidArgument(f"{instruction.name} and {other.name} are in different computations")
    if other is instruction:
        raise InvalidArgument(f"{instruction.name} cannot run before itself")
    if other not in instruction.control_successors:
        instruction.control_successors.append(other)
        other.control_predecessors.append(instruction)
        _note_change(instruction)


def remove_control_dependency_to(instruction: HloInstruction, other: HloInstruction) -> None:
    """Removes the control edge to `other`; InvalidArgument if there is none."""
    if other not in instruction.control_successors:
        raise InvalidArgument(f"{instruction.name} has no control edge to {other.name}")
    instruction.control_successors.remove(other)
    other.control_predecessors.remove(instruction)
    _note_change(instruction)


def drop_all_control_deps(instruction: HloInstruction) -> None:
    """Removes all control edges of this instruction."""
    for successor in list(instruction.control_successors):
        remove_control_dependency_to(instruction, successor)
    for predecessor in list(instruction.control_predecessors):
        remove_control_dependency_to(predecessor, instruction)


def safely_drop_all_control_dependencies(instruction: HloInstruction) -> None:
    """Removes all control edges of this instruction and orders its predecessors before its successors instead."""
    predecessors, successors = list(instruction.control_predecessors), list(instruction.control_successors)
    drop_all_control_deps(instruction)
    for predecessor in predecessors:
        for successor in successors:
            add_control_dependency_to(predecessor, successor)


def copy_all_control_deps_from(instruction: HloInstruction, other: HloInstruction) -> None:
    """Gives this instruction the control edges of `other`, too."""
    for predecessor in other.control_predecessors:
        if predecessor is not instruction:
            add_control_dependency_to(predecessor, instruction)
    for successor in other.control_successors:
        if successor is not instruction:
            add_control_dependency_to(instruction, successor)


def _note_change(instruction: HloInstruction) -> None:
    if instruction.parent is not None:
        instruction.parent.edges_changed()
