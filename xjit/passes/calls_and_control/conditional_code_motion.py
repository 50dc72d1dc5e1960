"""Moves instructions across the boundary of conditionals, out of all branches or into each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.branch_elements import (
    add_result_elements,
    keep_result_elements,
    read_elements,
    result_element,
)
from xjit.passes.calls_and_control.branch_operands import sink_into_branch
from xjit.passes.calls_and_control.code_motion_groups import BRANCHES, OPERANDS, Boundary, Group, are_alike, groups_of
from xjit.passes.calls_and_control.conditional_canonicalizer import wrap_result
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.simplify.hlo_dce import remove_dead_instructions


@dataclass
class ConditionalCodeMotion(HloModulePass):
    """Of each conditional, moves what all branches end in behind it, or what reads or makes its values into them.

    Which groups move, and in which direction, is what `code_motion_groups` says; one whose memory grows by more than
    `memory_increase_allowance` times 512 bytes per instruction stays. Where none moves, conversions and all-reduces
    that every branch ends in are done behind the conditional, if nothing else runs its branches. Results that are read
    as a whole stay, but for those of a whole computation; so do conditionals with a sharding.

    Without `pursue_full_conditional_code_motion` only those conversions and all-reduces move. A `search_config` other
    than 0 leaves some groups where they are, as a tuner does: the one at position `start` and every `stride`-th after
    it, `max` in all, for start + (max << 16) + (stride << 32).
    """

    name = "conditional-code-motion"
    is_layout_sensitive: bool = True
    pursue_full_conditional_code_motion: bool = True
    search_config: int = 0
    memory_increase_allowance: int = 10_000

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Looks at each conditional once, callees first; True if something moved."""
        changed, tuning = False, _Tuning(self.search_config)
        for computation in selected_computations(module, execution_threads):
            for conditional in [i for i in computation.instructions if i.opcode == "conditional"]:
                if _may_change(conditional):
                    groups = self._groups(conditional)
                    moved = [g for g in groups if tuning.moves()]
                    changed |= _move(conditional, moved) if groups else self._move_endings_out(conditional)
        return changed

    def _groups(self, conditional: HloInstruction) -> list[Group]:
        if not self.pursue_full_conditional_code_motion:
            return []
        return groups_of(conditional, self.is_layout_sensitive, self.memory_increase_allowance)

    def _move_endings_out(self, conditional: HloInstruction) -> bool:
        branches = conditional.branch_computations
        if any(b.caller_count > 1 or branches.count(b) > 1 for b in branches):
            return False
        columns = _endings(conditional, self.is_layout_sensitive)
        if columns:
            _move_out(conditional, columns)
        return bool(columns)


def _may_change(conditional: HloInstruction) -> bool:
    """Whether a conditional may have another result: nothing reads a tuple as a whole."""
    if conditional.sharding is not None or has_control_dependencies(conditional):
        return False
    return not conditional.shape.is_tuple or all(u.opcode == "get-tuple-element" for u in conditional.users)


class _Tuning:
    """Which of the decided moves are left out."""

    def __init__(self, search_config: int) -> None:
        self._next, self._left, self._stride = (search_config >> shift & 0xFFFF for shift in (0, 16, 32))
        self._position = 0

    def moves(self) -> bool:
        """Whether the next move that was decided on is made."""
        stays = self._left > 0 and self._position == self._next
        if stays:
            self._left -= 1
            self._next += max(self._stride, 1)
        self._position += 1
        return not stays


def _endings(conditional: HloInstruction, is_layout_sensitive: bool) -> list[Boundary]:
    """Returns what all branches compute the same element by and may be done behind, and the tuples they end in."""
    roots = [branch.root_instruction for branch in conditional.branch_computations]
    if any(root.opcode != "tuple" for root in roots):
        return []
    found: list[Boundary] = []
    for index, items in enumerate(zip(*(root.operands for root in roots), strict=True)):
        once = all(root.operands.count(i) == 1 for root, i in zip(roots, items, strict=True))
        if once and all(map(_may_end, items)) and are_alike(items, is_layout_sensitive):
            found.append(Boundary(BRANCHES, items, (index,)))
    return [Boundary(BRANCHES, tuple(roots)), *found] if found else []


def _may_end(item: HloInstruction) -> bool:
    """Whether an instruction is a conversion, alone among other instructions, or an all-reduce for its result only."""
    if has_control_dependencies(item):
        return False
    if item.opcode == "all-reduce":
        return item.shape.is_array and item.user_count == 1
    is_alone = item.opcode == "convert" and item.operand(0).opcode != "convert"
    return is_alone and all(user.opcode != "convert" for user in item.users)


def _move(conditional: HloInstruction, groups: Sequence[Group]) -> bool:
    """Moves groups, all in one direction; True if anything moved."""
    if any(group.side == BRANCHES for group in groups):
        _move_out(conditional, groups[0].boundaries)
        return True
    changed = False
    for group in groups:
        if group.side == OPERANDS:
            changed |= _move_operands_in(conditional, group.boundaries)
            continue
        moved = _move_readers_in(conditional, group.boundaries)
        changed |= moved is not None
        conditional = moved or conditional
    return changed


_Column = tuple[HloInstruction, ...]


def _move_out(conditional: HloInstruction, boundaries: Sequence[Boundary]) -> None:
    """Makes the branches return what moved instructions read, and computes these behind the conditional."""
    computation, module = conditional.parent, conditional.module
    assert computation is not None and module is not None
    own_computations(conditional)
    _read_each_element(conditional)
    branches = conditional.branch_computations
    moved = [tuple(_at(b.root_instruction, boundary.path) for b in branches) for boundary in boundaries]
    returned = _returned(moved)
    roots = [b.root_instruction for b in branches]
    for number, branch in enumerate(branches):
        root = branch.add_instruction(HloInstruction.create_tuple([column[number] for column in returned]))
        inherit_annotations(root, roots[number])
        branch.set_root_instruction(root, accept_different_shape=True)
    shape = branches[0].root_instruction.shape
    new = computation.add_instruction(conditional.clone_with_new_operands(shape, conditional.operands))
    outside: dict[_Column, HloInstruction] = {
        column: computation.add_instruction(HloInstruction.create_get_tuple_element(new, n))
        for n, column in enumerate(returned)
    }
    for column in reversed(moved):  # nearest to the conditional first
        first = column[0]
        if first is not roots[0] or first.opcode != "tuple":
            operands = [outside[tuple(i.operand(n) for i in column)] for n in range(first.operand_count)]
            outside[column] = computation.add_instruction(first.clone_with_new_operands(first.shape, operands))
    if roots[0].opcode == "tuple":
        for read in conditional.users:
            index = element_index(read)
            replace(read, outside[tuple(root.operand(index) for root in roots)])
        if conditional.parent is not None:
            computation.remove_instruction(conditional)
    else:
        replace(conditional, outside[tuple(roots)], [new])
    _remove_moved(conditional=new, moved=moved)


def _read_each_element(conditional: HloInstruction) -> None:
    """Makes the result of a computation that is a conditional a tuple of its elements."""
    computation = conditional.parent
    assert computation is not None
    if conditional.is_root() and conditional.shape.is_tuple:
        count = len(conditional.shape.tuple_shapes)
        reads = [HloInstruction.create_get_tuple_element(conditional, i) for i in range(count)]
        root = HloInstruction.create_tuple([computation.add_instruction(read) for read in reads])
        computation.set_root_instruction(computation.add_instruction(root))


def _at(root: HloInstruction, path: Sequence[int]) -> HloInstruction:
    for number in path:
        root = root.operand(number)
    return root


def _returned(moved: Sequence[_Column]) -> list[_Column]:
    """Returns what the branches have to return: what moves reads it, their roots among them."""
    inside = set(moved)
    found: dict[_Column, None] = {}
    for column in moved:
        for number in range(column[0].operand_count):
            operands = tuple(i.operand(number) for i in column)
            if operands not in inside:
                found[operands] = None
    return list(found)


def _remove_moved(conditional: HloInstruction, moved: Sequence[_Column]) -> None:
    module = conditional.module
    assert module is not None
    for column in moved:
        for item in column:  # what has an effect is not taken for dead
            if item.parent is not None and not item.user_count and not item.is_root():
                item.parent.remove_instruction_and_unused_operands(item)
    _drop_unused(conditional, module)


def _drop_unused(conditional: HloInstruction, module: HloModule) -> HloInstruction:
    used = read_elements(conditional)
    if used is not None and len(used) < len(conditional.shape.tuple_shapes):
        conditional = keep_result_elements(conditional, used)
    effects = analyses.get(SideEffects, module)
    for branch in conditional.branch_computations:
        remove_dead_instructions(branch, effects)
    return conditional


def _move_operands_in(conditional: HloInstruction, boundaries: Sequence[Boundary]) -> bool:
    """Computes what makes an operand in the branches that are given it."""
    computation = conditional.parent
    assert computation is not None
    members = {boundary.first for boundary in boundaries}
    cone = [i for i in computation.make_instruction_post_order() if i in members]
    operand = boundaries[0].first
    numbers = [n for n, given in enumerate(conditional.operands[1:]) if given is operand]
    own_computations(conditional)
    for number in numbers:
        sink_into_branch(conditional, number, cone)
    return bool(numbers)


def _move_readers_in(conditional: HloInstruction, boundaries: Sequence[Boundary]) -> HloInstruction | None:
    """Computes what reads results in the branches; returns the new conditional. None: nothing can be moved."""
    computation = conditional.parent
    assert computation is not None
    if not conditional.shape.is_tuple:
        if conditional.user_count != 1 or conditional.is_root():
            return None
        conditional = wrap_result(conditional)
    members = {boundary.first for boundary in boundaries}
    moved: HloInstruction | None = None
    for item in [i for i in computation.make_instruction_post_order() if i in members]:
        if item.parent is not computation or (item.opcode == "get-tuple-element" and item.operand(0) is conditional):
            continue
        if all(_is_result(o, conditional) or o.opcode == "constant" for o in item.operands):
            conditional = moved = _compute_inside(conditional, item)
    return moved


def _is_result(operand: HloInstruction, conditional: HloInstruction) -> bool:
    return operand.opcode == "get-tuple-element" and operand.operand(0) is conditional


def _compute_inside(conditional: HloInstruction, user: HloInstruction) -> HloInstruction:
    """Makes the branches return what an instruction computes of their results, and of constants."""
    computation, module = conditional.parent, conditional.module
    assert computation is not None and module is not None
    own_computations(conditional)
    column: list[HloInstruction] = []
    for branch in conditional.branch_computations:
        operands = [
            branch.add_instruction(o.clone_with_new_operands(o.shape, []))
            if o.opcode == "constant"
            else result_element(branch, element_index(o))
            for o in user.operands
        ]
        column.append(branch.add_instruction(user.clone_with_new_operands(user.shape, operands)))
    count = len(conditional.shape.tuple_shapes)
    new = add_result_elements(conditional, [column])
    element = computation.add_instruction(HloInstruction.create_get_tuple_element(new, count))
    inherit_annotations(element, user)
    replace(user, element)
    return _drop_unused(new, module)
