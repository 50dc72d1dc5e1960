"""Moves instructions across the boundary of conditionals, out of all branches or into each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Trait
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.branch_elements import (
    add_result_elements,
    keep_result_elements,
    read_elements,
    result_element,
)
from xjit.passes.calls_and_control.branch_operands import sink_operands
from xjit.passes.calls_and_control.conditional_canonicalizer import wrap_result
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.simplify.hlo_dce import remove_dead_instructions

OUT = frozenset({"convert", "reshape", "transpose", "broadcast", "bitcast"})
"""What is moved out: one copy behind the conditional fuses with what reads it, and less crosses the boundary."""


@dataclass
class ConditionalCodeMotion(HloModulePass):
    """An element that every branch computes by the same conversion or reshape is converted behind the conditional.

    An elementwise instruction that reads only results of one conditional is computed in its branches, where it fuses
    with what makes the results; a copy, where a branch ends in a copy. What only one branch reads is computed there.
    Either way an instruction moves in one direction only, so that the pass ends. Results that are read as a whole stay,
    and what has side effects.
    """

    name = "conditional-code-motion"
    is_layout_sensitive: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Moves until nothing changes; True if something moved."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for conditional in [i for i in computation.instructions if i.opcode == "conditional"]:
                if not has_control_dependencies(conditional):
                    changed |= sink_operands(conditional)
                current: HloInstruction | None = conditional
                while current is not None and not has_control_dependencies(current):
                    current = self._move_out(current) or _move_in(current)
                    changed |= current is not None
        return changed

    def _move_out(self, conditional: HloInstruction) -> HloInstruction | None:
        """Moves the computation of one element out; returns the new conditional, or None."""
        used = read_elements(conditional) if conditional.shape.is_tuple else None
        for index in used or ():
            values = [_value_of(branch.root_instruction, index) for branch in conditional.branch_computations]
            if any(value is None or not self._is_same(value, values[0]) for value in values):
                continue
            own_computations(conditional)
            columns = [result_element(branch, index).operands for branch in conditional.branch_computations]
            return _compute_behind(conditional, index, list(zip(*columns)))
        return None

    def _is_same(self, a: HloInstruction, b: HloInstruction | None) -> bool:
        """Whether two instructions of two branches do the same with operands of the same shapes."""
        if b is None or a.opcode not in OUT or has_control_dependencies(a):
            return False
        shapes = [(x.shape, y.shape) for x, y in zip((a, *a.operands), (b, *b.operands))]
        alike = all(x == y if self.is_layout_sensitive else x.compatible(y) for x, y in shapes)
        return alike and a.opcode == b.opcode and a.attributes == b.attributes


def _value_of(root: HloInstruction, index: int) -> HloInstruction | None:
    """Returns the value of an element of a root that is a tuple instruction."""
    return root.operand(index) if root.opcode == "tuple" else None


def _compute_behind(
    conditional: HloInstruction, index: int, columns: Sequence[Sequence[HloInstruction]]
) -> HloInstruction:
    """Makes the branches return the operands of an element's instruction, and computes that of them behind."""
    computation, module = conditional.parent, conditional.module
    assert computation is not None and module is not None
    moved = result_element(conditional.branch_computations[0], index)
    count = len(conditional.shape.tuple_shapes)
    new = add_result_elements(conditional, columns)
    operands = [
        computation.add_instruction(HloInstruction.create_get_tuple_element(new, count + i))
        for i in range(len(columns))
    ]
    outside = computation.add_instruction(moved.clone_with_new_operands(moved.shape, operands))
    for read in [u for u in new.users if element_index(u) == index]:
        replace(read, outside)
    return _drop_unused(new, module)


def _drop_unused(conditional: HloInstruction, module: HloModule) -> HloInstruction:
    used = read_elements(conditional)
    if used is not None and len(used) < len(conditional.shape.tuple_shapes):
        conditional = keep_result_elements(conditional, used)
    effects = analyses.get(SideEffects, module)
    for branch in conditional.branch_computations:
        remove_dead_instructions(branch, effects)
    return conditional


def _move_in(conditional: HloInstruction) -> HloInstruction | None:
    """Moves one instruction that reads results of a conditional into its branches; returns the new conditional."""
    if not conditional.shape.is_tuple:
        user = conditional.users[0] if conditional.user_count == 1 and not conditional.is_root() else None
        if user is None or not _may_move_in(user, conditional):
            return None
        conditional = wrap_result(conditional)
    if read_elements(conditional) is None:
        return None
    for read in conditional.users:
        for user in read.users:
            if _may_move_in(user, conditional):
                return _compute_inside(conditional, user)
    return None


def _may_move_in(user: HloInstruction, conditional: HloInstruction) -> bool:
    """Whether an instruction is worth computing in the branches, and reads nothing but results of the conditional."""
    if has_control_dependencies(user) or user.parent is not conditional.parent or user.sharding is not None:
        return False
    if not all(_is_result(operand, conditional) for operand in user.operands):
        return False
    if user.opcode == "copy":
        return any(
            _ends_in_copy(branch.root_instruction, user, conditional) for branch in conditional.branch_computations
        )
    return user.op.has(Trait.ELEMENTWISE) and user.opcode not in OUT


def _is_result(operand: HloInstruction, conditional: HloInstruction) -> bool:
    if operand is conditional:
        return not conditional.shape.is_tuple
    return operand.opcode == "get-tuple-element" and operand.operand(0) is conditional


def _ends_in_copy(root: HloInstruction, user: HloInstruction, conditional: HloInstruction) -> bool:
    value = user.operand(0)
    element = root if value is conditional else _value_of(root, element_index(value))
    return element is not None and element.opcode == "copy"


def _compute_inside(conditional: HloInstruction, user: HloInstruction) -> HloInstruction:
    """Makes the branches return what an instruction computes of their results."""
    computation, module = conditional.parent, conditional.module
    assert computation is not None and module is not None
    own_computations(conditional)
    indices = [element_index(operand) for operand in user.operands]
    column: list[HloInstruction] = []
    for branch in conditional.branch_computations:
        operands = [result_element(branch, i) for i in indices]
        column.append(branch.add_instruction(user.clone_with_new_operands(user.shape, operands)))
    count = len(conditional.shape.tuple_shapes)
    new = add_result_elements(conditional, [column])
    element = computation.add_instruction(HloInstruction.create_get_tuple_element(new, count))
    inherit_annotations(element, user)
    replace(user, element)
    return _drop_unused(new, module)
