"""Moves instructions across the boundary of conditionals, out of all branches or into each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
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

OUT = frozenset({"convert", "reshape", "transpose", "broadcast", "bitcast", "all-reduce"})
"""What is moved out: one copy behind the conditional fuses with what reads it, and less crosses the boundary."""

MEMORY_UNIT = 512
"""The bytes in which `memory_increase_allowance` counts."""


@dataclass
class ConditionalCodeMotion(HloModulePass):
    """An element that every branch computes by the same conversion or reshape is converted behind the conditional.

    An elementwise instruction that reads only results of one conditional is computed in its branches, where it fuses
    with what makes the results; a copy, where a branch ends in a copy. What only one branch reads is computed there.
    Either way an instruction moves in one direction only, so that the pass ends. Results that are read as a whole stay,
    and what has side effects, but for an all-reduce that every branch ends in; and conditionals with a sharding.

    Without `pursue_full_conditional_code_motion` only conversions move, out. An instruction stays if with it more than
    `memory_increase_allowance` times 512 bytes would cross the boundary than do now. A `search_config` other than 0
    leaves some moves out, as a tuner does: of the moves that are decided on it is the one at position `start` and every
    `stride`-th after it, `max` in all, for start + (max << 16) + (stride << 32).
    """

    name = "conditional-code-motion"
    is_layout_sensitive: bool = True
    pursue_full_conditional_code_motion: bool = True
    search_config: int = 0
    memory_increase_allowance: int = 10_000

    def __post_init__(self) -> None:
        self._tuning = _Tuning(self.search_config)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Moves until nothing changes; True if something moved."""
        changed = False
        self._tuning = _Tuning(self.search_config)
        full = self.pursue_full_conditional_code_motion
        for computation in selected_computations(module, execution_threads):
            for conditional in [i for i in computation.instructions if i.opcode == "conditional"]:
                if conditional.sharding is not None:
                    continue
                if full and not has_control_dependencies(conditional):
                    changed |= sink_operands(conditional, self._may_cross)
                current: HloInstruction | None = conditional
                while current is not None and not has_control_dependencies(current):
                    current = self._move_out(current) or (self._move_in(current) if full else None)
                    changed |= current is not None
        return changed

    def _may_cross(
        self, moved: Sequence[HloInstruction], now: Sequence[HloInstruction], then: Sequence[HloInstruction]
    ) -> bool:
        """Whether instructions may move, where some values cross the boundary now and others will then."""
        growth = sum(i.shape.byte_size for i in then) - sum(i.shape.byte_size for i in now)
        return growth <= len(moved) * self.memory_increase_allowance * MEMORY_UNIT and self._tuning.moves(moved[0])

    def _move_out(self, conditional: HloInstruction) -> HloInstruction | None:
        """Moves the computation of one element out; returns the new conditional, or None."""
        used = read_elements(conditional) if conditional.shape.is_tuple else None
        for index in used or ():
            values = [_value_of(branch.root_instruction, index) for branch in conditional.branch_computations]
            first = values[0]
            if first is None or any(value is None or not self._is_same(value, first) for value in values):
                continue
            if not self._may_cross([first], [first], first.operands):
                continue
            own_computations(conditional)
            columns = [result_element(branch, index).operands for branch in conditional.branch_computations]
            return _compute_behind(conditional, index, list(zip(*columns)))
        return None

    def _is_same(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether two instructions of two branches do the same with operands of the same shapes."""
        movable = OUT if self.pursue_full_conditional_code_motion else {"convert"}
        if a.opcode not in movable or has_control_dependencies(a):
            return False
        if a.opcode == "all-reduce" and (
            a.user_count != 1 or a.users[0].operands.count(a) != 1 or not a.shape.is_array
        ):
            return False  # one is to be left of it
        shapes = [(x.shape, y.shape) for x, y in zip((a, *a.operands), (b, *b.operands))]
        alike = all(x == y if self.is_layout_sensitive else x.compatible(y) for x, y in shapes)
        return (
            alike and a.op is b.op and a.attributes == b.attributes and a.called_computations == b.called_computations
        )

    def _move_in(self, conditional: HloInstruction) -> HloInstruction | None:
        """Moves one instruction that reads results of a conditional into its branches; returns the new conditional."""
        if not conditional.shape.is_tuple:
            user = conditional.users[0] if conditional.user_count == 1 and not conditional.is_root() else None
            if user is None or not self._may_move_in(user, conditional):
                return None
            new = wrap_result(conditional)
            return _compute_inside(new, user)
        if read_elements(conditional) is None:
            return None
        for read in conditional.users:
            for user in read.users:
                if self._may_move_in(user, conditional):
                    return _compute_inside(conditional, user)
        return None

    def _may_move_in(self, user: HloInstruction, conditional: HloInstruction) -> bool:
        return _is_worth_moving_in(user, conditional) and self._may_cross([user], user.unique_operands(), [user])


class _Tuning:
    """Which of the decided moves are left out."""

    def __init__(self, search_config: int) -> None:
        self._next, self._left, self._stride = (search_config >> shift & 0xFFFF for shift in (0, 16, 32))
        self._position = 0
        self._stays: set[HloInstruction] = set()

    def moves(self, instruction: HloInstruction) -> bool:
        """Whether the next move that was decided on is made."""
        if instruction in self._stays:
            return False
        if self._left > 0 and self._position == self._next:
            self._left -= 1
            self._next += max(self._stride, 1)
            self._stays.add(instruction)
        self._position += 1
        return instruction not in self._stays


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
    inside = [result_element(branch, index) for branch in conditional.branch_computations]
    new = add_result_elements(conditional, columns)
    operands = [
        computation.add_instruction(HloInstruction.create_get_tuple_element(new, count + i))
        for i in range(len(columns))
    ]
    outside = computation.add_instruction(moved.clone_with_new_operands(moved.shape, operands))
    for read in [u for u in new.users if element_index(u) == index]:
        replace(read, outside)
    new = _drop_unused(new, module)
    for i in inside:
        if i.parent is not None and not i.user_count:  # what has an effect is not taken for dead
            i.parent.remove_instruction_and_unused_operands(i)
    return new


def _drop_unused(conditional: HloInstruction, module: HloModule) -> HloInstruction:
    used = read_elements(conditional)
    if used is not None and len(used) < len(conditional.shape.tuple_shapes):
        conditional = keep_result_elements(conditional, used)
    effects = analyses.get(SideEffects, module)
    for branch in conditional.branch_computations:
        remove_dead_instructions(branch, effects)
    return conditional


def _is_worth_moving_in(user: HloInstruction, conditional: HloInstruction) -> bool:
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
