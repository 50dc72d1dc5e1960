"""Who reads and who calls what: every change here keeps operands and users, callees and callers consistent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import InvalidArgument

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction

FEW_OPERANDS = 16
"""Up to that many operands, looking at all of them costs less than a table of the positions of each, and they are a
tuple, made anew for each change. More are a list."""


def as_operands(operands: Sequence[HloInstruction]) -> Sequence[HloInstruction]:
    """Returns operands as an instruction keeps them."""
    return tuple(operands) if len(operands) <= FEW_OPERANDS else list(operands)


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
    if old is not new:
        _redirect(instruction, old, new, [i])


def replace_use_with(instruction: HloInstruction, user: HloInstruction, new: HloInstruction) -> None:
    """Makes one user read `new` instead of this; the shapes must be compatible."""
    if not instruction.shape.compatible(new.shape):
        raise InvalidArgument(f"{new.name} has shape {new.shape}, {instruction.name} has {instruction.shape}")
    replace_use_with_different_shape(instruction, user, new)


def replace_use_with_different_shape(instruction: HloInstruction, user: HloInstruction, new: HloInstruction) -> None:
    """Makes one user read `new` instead of this, whatever its shape."""
    if instruction is not new and (positions := _positions_of(user, instruction)):
        _redirect(user, instruction, new, positions)


def replace_all_uses_with(instruction: HloInstruction, new: HloInstruction) -> None:
    """Makes every user (and the root position) use `new` instead of this; shapes must be compatible."""
    if not instruction.shape.compatible(new.shape):
        raise InvalidArgument(f"{new.name} has shape {new.shape}, {instruction.name} has {instruction.shape}")
    replace_all_uses_with_different_shape(instruction, new)


def replace_all_uses_with_different_shape(instruction: HloInstruction, new: HloInstruction) -> None:
    """Makes every user (and the root position) use `new` instead of this, whatever its shape."""
    replace_users_operand(instruction, instruction.users, new)
    if instruction.is_root() and instruction.parent is not None:
        instruction.parent.set_root_instruction(new, accept_different_shape=True)


def replace_users_operand(instruction: HloInstruction, users: Iterable[HloInstruction], new: HloInstruction) -> None:
    """Makes some users read `new` instead of this, whatever its shape. `new` itself may be one: it goes on reading."""
    if instruction is not new:
        for user in users:
            if user is not new:
                _redirect(user, instruction, new, _positions_of(user, instruction))


def replace_operands(instruction: HloInstruction, operands: Sequence[HloInstruction]) -> None:
    """Makes an instruction read other operands, whatever their shapes and number."""
    for operand in instruction._operands:
        operand._users.pop(instruction, None)
    instruction._operands = as_operands(operands)
    instruction._positions = None
    for operand in operands:
        operand._users[instruction] = None
    note_change(instruction)


def _redirect(user: HloInstruction, old: HloInstruction, new: HloInstruction, positions: Sequence[int]) -> None:
    """Makes a user read `new` at those positions of `old`; takes no longer for having many other operands."""
    before = _positions_of(user, old)
    left = [i for i in before if i not in positions] if len(before) > len(positions) else []
    if isinstance(user._operands, list):
        for i in positions:
            user._operands[i] = new
    else:
        user._operands = tuple([new if i in positions else o for i, o in enumerate(user._operands)])
    if user._positions is not None:
        user._positions[old] = left
        user._positions.setdefault(new, []).extend(positions)
    note_change(user)
    if not left:
        old._users.pop(user, None)
    new._users[user] = None


def _positions_of(user: HloInstruction, operand: HloInstruction) -> list[int]:
    """Returns the positions, in any order."""
    if len(user._operands) <= FEW_OPERANDS:
        return [i for i, candidate in enumerate(user._operands) if candidate is operand]
    if user._positions is None:
        user._positions = {}
        for i, candidate in enumerate(user._operands):
            user._positions.setdefault(candidate, []).append(i)
    return user._positions.get(operand, [])


def append_operand(instruction: HloInstruction, operand: HloInstruction) -> None:
    """Adds a last operand (tuples, fusions, calls)."""
    if isinstance(instruction._operands, list):
        instruction._operands.append(operand)
    else:
        instruction._operands = as_operands((*instruction._operands, operand))
    instruction._positions = None
    note_change(instruction)
    operand._users[instruction] = None


def remove_operands_at(instruction: HloInstruction, positions: Iterable[int]) -> None:
    """Removes operands by position."""
    drop = set(positions)
    gone = [o for i, o in enumerate(instruction._operands) if i in drop]
    instruction._operands = as_operands([o for i, o in enumerate(instruction._operands) if i not in drop])
    instruction._positions = None
    note_change(instruction)
    for operand in gone:
        if operand not in instruction._operands:
            operand._users.pop(instruction, None)


def detach_from_operands(instruction: HloInstruction) -> None:
    """Drops all edges to operands and called computations (the instruction is being removed)."""
    for operand in instruction._operands:
        operand._users.pop(instruction, None)
    instruction._operands = ()
    instruction._positions = None
    note_change(instruction)
    if not instruction._called:
        return
    for computation in instruction._called:
        computation.remove_caller(instruction)
    instruction._called = []
    if instruction.parent is not None:
        instruction.parent.calls_changed()


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
    if instruction.parent is not None:
        instruction.parent.calls_changed()


def note_change(instruction: HloInstruction) -> None:
    """Tells the computation of an instruction, if it is in one, that edges have changed."""
    if instruction.parent is not None:
        instruction.parent.edges_changed()
