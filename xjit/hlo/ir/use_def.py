"""Who reads and who calls what: every change here keeps operands and users, callees and callers consistent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction


def replace_operand_with(instruction: HloInstruction, i: int, new: HloInstruction) -> None:
    """Makes operand `i` read `new`; the shapes must be compatible."""
    if not instruction._operands[i].shape.compatible(new.shape):
        raise InvalidArgument(
            f"operand {i} of {instruction.name}: {new.shape} is not compatible with {instruction._operands[i].shape}"
        )
    replace_operand_with_different_shape(instruction, i, new)


def replace_operand_with_different_shape(instruction: HloInstruction, i: int, new: HloInstruction) -> None:
    """Makes operand `i` read `new`, whatever its shape."""
    old = instruction._operands[i]
    if old is new:
        return
    instruction._operands[i] = new
    note_change(instruction)
    if old not in instruction._operands:
        old._users.pop(instruction, None)
    new._users[instruction] = None


def replace_use_with(instruction: HloInstruction, user: HloInstruction, new: HloInstruction) -> None:
    """Makes one user read `new` instead of this."""
    if not instruction.shape.compatible(new.shape):
        raise InvalidArgument(f"{new.name} has shape {new.shape}, {instruction.name} has {instruction.shape}")
    for i, operand in enumerate(user._operands):
        if operand is instruction:
            replace_operand_with_different_shape(user, i, new)


def replace_all_uses_with(instruction: HloInstruction, new: HloInstruction) -> None:
    """Makes every user (and the root position) use `new` instead of this; shapes must be compatible."""
    if not instruction.shape.compatible(new.shape):
        raise InvalidArgument(f"{new.name} has shape {new.shape}, {instruction.name} has {instruction.shape}")
    replace_all_uses_with_different_shape(instruction, new)


def replace_all_uses_with_different_shape(instruction: HloInstruction, new: HloInstruction) -> None:
    """Makes every user (and the root position) use `new` instead of this, whatever its shape."""
    for user in tuple(instruction._users):
        if user is new:
            continue
        for i, operand in enumerate(user._operands):
            if operand is instruction:
                replace_operand_with_different_shape(user, i, new)
    if instruction.is_root() and instruction.parent is not None:
        instruction.parent.set_root_instruction(new, accept_different_shape=True)


def append_operand(instruction: HloInstruction, operand: HloInstruction) -> None:
    """Adds a last operand (tuples, fusions, calls)."""
    instruction._operands.append(operand)
    note_change(instruction)
    operand._users[instruction] = None


def remove_operands_at(instruction: HloInstruction, positions: Iterable[int]) -> None:
    """Removes operands by position."""
    drop = set(positions)
    gone = [o for i, o in enumerate(instruction._operands) if i in drop]
    instruction._operands = [o for i, o in enumerate(instruction._operands) if i not in drop]
    note_change(instruction)
    for operand in gone:
        if operand not in instruction._operands:
            operand._users.pop(instruction, None)


def detach_from_operands(instruction: HloInstruction) -> None:
    """Drops all edges to operands and called computations (the instruction is being removed)."""
    for operand in instruction._operands:
        operand._users.pop(instruction, None)
    instruction._operands = []
    note_change(instruction)
    for computation in instruction._called:
        computation.remove_caller(instruction)
    instruction._called = []


def set_called_computation(instruction: HloInstruction, i: int, computation: HloComputation) -> None:
    """Replaces the i-th called computation; InvalidArgument if there is none."""
    called = instruction._called
    if not 0 <= i < len(called):
        raise InvalidArgument(f"{instruction.name} calls {len(called)} computations, none numbered {i}")
    old = called[i]
    called[i] = computation
    note_change(instruction)
    if not any(other is old for other in called):
        old.remove_caller(instruction)
    computation.add_caller(instruction)


def note_change(instruction: HloInstruction) -> None:
    """Tells the computation of an instruction, if it is in one, that edges have changed."""
    if instruction.parent is not None:
        instruction.parent.edges_changed()
