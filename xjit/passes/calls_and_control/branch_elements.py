"""The elements of tuples that conditionals hand to branches and get back: which are used, and without the others."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction, Shape
from xjit.hlo.annotations.sharding import sharding_of_elements
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.ownership import own_computations


def read_elements(value: HloInstruction) -> list[int] | None:
    """Returns the elements of a value that are read, in order; None if it is read as a whole. Without users, none."""
    if value.is_root() or any(user.opcode != "get-tuple-element" for user in value.users):
        return None
    return sorted({element_index(user) for user in value.users})


def identical_elements(conditional: HloInstruction) -> list[int]:
    """Returns for each element of the result the first one that is the same value in every branch: mostly itself."""
    if not conditional.shape.is_tuple:
        return [0]
    count = len(conditional.shape.tuple_shapes)
    roots = [branch.root_instruction for branch in conditional.branch_computations]
    if any(root.opcode != "tuple" for root in roots):
        return list(range(count))
    first: dict[tuple[HloInstruction, ...], int] = {}
    return [first.setdefault(tuple(root.operand(i) for root in roots), i) for i in range(count)]


def keep_result_elements(conditional: HloInstruction, keep: Sequence[int]) -> HloInstruction:
    """Puts a conditional in the place of another one that returns some elements only; all others are not read."""
    own_computations(conditional)
    computation = conditional.parent
    assert computation is not None
    for branch in conditional.branch_computations:
        old = branch.root_instruction
        elements = [
            old.operand(i)
            if old.opcode == "tuple"
            else branch.add_instruction(HloInstruction.create_get_tuple_element(old, i))
            for i in keep
        ]
        root = branch.add_instruction(HloInstruction.create_tuple(elements))
        root.sharding = sharding_of_elements(old.shape, old.sharding, keep)
        inherit_annotations(root, old)
        branch.set_root_instruction(root, accept_different_shape=True)
        branch.remove_instruction_and_unused_operands(old)
    shape = Shape.tuple_of([conditional.shape.tuple_shapes[i] for i in keep])
    new = computation.add_instruction(conditional.clone_with_new_operands(shape, conditional.operands))
    new.sharding = sharding_of_elements(conditional.shape, conditional.sharding, keep)
    for read in conditional.users:
        read.update_attributes(index=keep.index(element_index(read)))
    conditional.replace_all_uses_with_different_shape(new)
    computation.remove_instruction(conditional)
    return new


def add_result_elements(conditional: HloInstruction, columns: Sequence[Sequence[HloInstruction]]) -> HloInstruction:
    """Puts a conditional in the place of another one that returns more elements: each column has a value per branch.

    The branches must belong to this conditional alone.
    """
    computation = conditional.parent
    assert computation is not None
    for number, branch in enumerate(conditional.branch_computations):
        old = _as_tuple(branch)
        root = branch.add_instruction(HloInstruction.create_tuple([*old.operands, *(c[number] for c in columns)]))
        inherit_annotations(root, old)
        branch.set_root_instruction(root, accept_different_shape=True)
        branch.remove_instruction_and_unused_operands(old)
    shape = conditional.branch_computations[0].root_instruction.shape
    new = computation.add_instruction(conditional.clone_with_new_operands(shape, conditional.operands))
    new.sharding = None
    conditional.replace_all_uses_with_different_shape(new)
    computation.remove_instruction(conditional)
    return new


def _as_tuple(branch: HloComputation) -> HloInstruction:
    """Returns the root of a branch, which is a tuple instruction then."""
    root = branch.root_instruction
    if root.opcode == "tuple":
        return root
    elements = [
        branch.add_instruction(HloInstruction.create_get_tuple_element(root, i))
        for i in range(len(root.shape.tuple_shapes))
    ]
    new = branch.add_instruction(HloInstruction.create_tuple(elements))
    branch.set_root_instruction(new)
    return new


def result_element(branch: HloComputation, index: int) -> HloInstruction:
    """Returns the value that a branch returns as an element."""
    return _as_tuple(branch).operand(index)


def drop_operand_elements(conditional: HloInstruction) -> bool:
    """Removes the elements of tuples given to branches that the branches do not read; True if there were any."""
    changed = False
    for number in range(len(conditional.branch_computations)):
        parameter = conditional.branch_computations[number].parameter_instructions[0]
        used = read_elements(parameter) if parameter.shape.is_tuple else None
        if used is None or len(used) == len(parameter.shape.tuple_shapes):
            continue
        own_computations(conditional)
        _keep_operand_elements(conditional, number, used)
        changed = True
    return changed


def _keep_operand_elements(conditional: HloInstruction, number: int, keep: Sequence[int]) -> None:
    computation, operand = conditional.parent, conditional.operand(number + 1)
    assert computation is not None
    elements = [
        operand.operand(i)
        if operand.opcode == "tuple"
        else computation.add_instruction(HloInstruction.create_get_tuple_element(operand, i))
        for i in keep
    ]
    smaller = computation.add_instruction(HloInstruction.create_tuple(elements))
    parameter = conditional.branch_computations[number].parameter_instructions[0]
    for read in parameter.users:
        read.update_attributes(index=keep.index(element_index(read)))
    parameter.mutable_shape = smaller.shape
    conditional.replace_operand_with_different_shape(number + 1, smaller)
    if not operand.user_count and not operand.is_root() and operand.opcode != "parameter":
        computation.remove_instruction_and_unused_operands(operand)
