"""Takes conditionals apart whose branch is known or does nothing, and removes what is not used of the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import OPCODES, HloInstruction, HloModule, PrimitiveType, Trait
from xjit.hlo import attributes as at
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.calls_and_control.branch_elements import (
    drop_operand_elements,
    identical_elements,
    keep_result_elements,
    read_elements,
)
from xjit.passes.calls_and_control.call_inliner import inline_call
from xjit.passes.calls_and_control.conditional_canonicalizer import wrap_result
from xjit.passes.calls_and_control.conditional_to_select import select_branches
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, calls_any, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.hlo_dce import remove_dead_instructions, remove_unreachable_computations
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier

EMPTY = frozenset({"parameter", "tuple", "get-tuple-element"})
"""The opcodes of branches that compute nothing."""

_CHANNELS = frozenset(name for name, op in OPCODES.items() if op.has(Trait.COLLECTIVE)) | {"send", "recv"}

_CHEAP = EMPTY | {"broadcast", "concatenate", "constant", "dynamic-slice", "reduce", "reshape", "pad", "slice"}
"""What costs less than a branch, as all elementwise opcodes do: XLA's choice."""

SCHEDULING_GROUP = "_scheduling_group_id"
"""A frontend attribute of conditionals that a scheduler refers to."""


@dataclass
class ConditionalSimplifier(HloModulePass):
    """A conditional whose branch is known becomes that branch; one that only chooses between values, a select.

    So does, with `select_cheap_branches`, one both of whose branches compute something, and nothing expensive.
    Of others, result elements that nothing reads go, and those that all branches compute as the same value of another
    element; and elements of a branch's operand that it does not read. Conditionals with control edges, a scheduling
    group, or collectives or transfers in a branch stay, and whole if they have side effects; those with a sharding keep
    their operands.
    """

    name = "conditional-simplifier"
    opcodes = frozenset({"conditional"})
    select_cheap_branches: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Simplifies inner conditionals first; True if one changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for conditional in [i for i in computation.instructions if i.opcode == "conditional"]:
                if _may_change(conditional):
                    changed |= self._simplify(conditional, module)
        if changed:
            TupleSimplifier().run(module, execution_threads)
            remove_unreachable_computations(module)
        return changed

    def _simplify(self, conditional: HloInstruction, module: HloModule) -> bool:
        branch, is_pure = _known_branch(conditional), not analyses.get(SideEffects, module).below(conditional)
        if branch is not None and is_pure:
            _inline_branch(conditional, branch)
            return True
        if _only_chooses(conditional) or (self.select_cheap_branches and is_pure and _is_cheap(conditional)):
            for call in select_branches(conditional):
                inline_call(call)
            return True
        return _remove_elements(conditional, module)


def _may_change(conditional: HloInstruction) -> bool:
    if has_control_dependencies(conditional):
        return False
    return SCHEDULING_GROUP not in conditional.frontend_attributes and not calls_any(conditional, _CHANNELS)


def _remove_elements(conditional: HloInstruction, module: HloModule) -> bool:
    """Removes result elements and operand elements that are not used; True if there were any."""
    changed = False
    if not conditional.shape.is_tuple and not conditional.user_count and not conditional.is_root():
        conditional = wrap_result(conditional)  # of which nothing is read: the branches return ()
        for read in conditional.users:
            conditional.parent.remove_instruction(read)  # type: ignore[union-attr]
        changed = True
    changed |= _merge_result_elements(conditional)
    used = read_elements(conditional) if conditional.shape.is_tuple else None
    if used is not None and len(used) < len(conditional.shape.tuple_shapes):
        conditional = keep_result_elements(conditional, used)
        changed = True
    if changed:
        effects = analyses.get(SideEffects, module)
        for computation in conditional.branch_computations:
            remove_dead_instructions(computation, effects)
    if conditional.sharding is None:
        changed |= drop_operand_elements(conditional)
    return changed


def _known_branch(conditional: HloInstruction) -> int | None:
    """Returns the branch that runs, if that is known. An index out of range runs the last one."""
    predicate, count = conditional.operand(0), len(conditional.branch_computations)
    if count == 1:
        return 0
    if predicate.opcode != "constant":
        return None
    value = predicate.attributes_as(at.ConstantAttributes).literal.array[()]
    if predicate.shape.element_type is PrimitiveType.PRED:
        return 0 if value else 1
    return int(value) if 0 <= int(value) < count else count - 1


def _inline_branch(conditional: HloInstruction, number: int) -> None:
    into = Expansion(conditional)
    branch = conditional.branch_computations[number]
    call = HloInstruction.create_call(conditional.shape, [conditional.operand(number + 1)], branch)
    into.add(call)
    into.replace_source(call)
    inline_call(call)


def _only_chooses(conditional: HloInstruction) -> bool:
    return (
        len(conditional.branch_computations) == 2
        and all(leaf.is_array for _, leaf in conditional.shape.leaves())
        and all(i.opcode in EMPTY for branch in conditional.branch_computations for i in branch.instructions)
    )


def _is_cheap(conditional: HloInstruction) -> bool:
    """Whether both branches of a predicate compute something that costs little."""
    branches = conditional.branch_computations
    if len(branches) != 2 or conditional.operand(0).shape.element_type is not PrimitiveType.PRED:
        return False
    if conditional.sharding is not None:
        return False
    instructions = [[*branch.instructions] for branch in branches]
    if not all(i.opcode in _CHEAP or i.is_elementwise() for found in instructions for i in found):
        return False
    gives_arrays = any(leaf.is_array for _, leaf in conditional.shape.leaves())
    return not (gives_arrays and any(all(i.opcode in EMPTY for i in found) for found in instructions))


def _merge_result_elements(conditional: HloInstruction) -> bool:
    """Makes what reads an element that is the same value as an earlier one in every branch read the earlier one."""
    changed = False
    first = identical_elements(conditional)
    for read in [u for u in conditional.users if u.opcode == "get-tuple-element"]:
        index = read.attributes_as(at.GetTupleElementAttributes).index
        if first[index] != index:
            read.update_attributes(index=first[index])
            changed = True
    return changed
