"""Sorts lose the operands whose order nobody asks for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion


@dataclass
class SortSimplifier(HloModulePass):
    """Drops operands of a sort whose results nothing reads, and whose elements the comparator does not look at.

    One operand that is left gives an array. A sort that is the root, or that anything but get-tuple-element reads,
    stays.
    """

    name = "sort-simplifier"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Simplifies every sort; True if one lost an operand."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                kept = _kept_operands(instruction) if instruction.opcode == "sort" else []
                if kept and len(kept) < instruction.operand_count:
                    _keep(instruction, kept)
                    changed = True
        return changed


def _kept_operands(sort: HloInstruction) -> list[int]:
    """Returns the operands that a sort cannot do without; all of them if it must stay as it is."""
    everything = list(range(sort.operand_count))
    if sort.is_root() or sort.sharding is not None or has_control_dependencies(sort):
        return everything
    if any(u.opcode != "get-tuple-element" or has_control_dependencies(u) for u in sort.users):
        return everything
    compared = sort.to_apply.parameter_instructions
    looked_at = {n // 2 for n, p in enumerate(compared) if p.user_count or p.is_root() or has_control_dependencies(p)}
    return sorted(looked_at | {element_index(u) for u in sort.users})


def _keep(sort: HloInstruction, kept: Sequence[int]) -> None:
    """Replaces a sort by one of some of its operands."""
    into, old = Expansion(sort), sort.to_apply
    comparator = into.embed(_without_parameters(old, kept))
    operands = [sort.operand(n) for n in kept]
    shapes = [sort.shape.tuple_shapes[n] for n in kept]
    shape = shapes[0] if len(kept) == 1 else Shape.tuple_of(shapes)
    new = into.add(HloInstruction.create("sort", shape, operands, sort.attributes, [comparator], sort.name))
    for user in sort.users:
        result = new
        if len(kept) > 1:
            result = into.element(new, kept.index(element_index(user)))
        Expansion(user).replace_source(result)
    if sort.parent is not None:
        into.computation.remove_instruction_and_unused_operands(sort)
    if not old.caller_instructions() and old.parent is not None:
        old.parent.remove_embedded_computation(old)


def _without_parameters(comparator: HloComputation, kept: Sequence[int]) -> HloComputation:
    """Returns a free clone of a comparator that compares only some of the operands."""
    clone = comparator.clone("")
    for number in reversed(range(clone.num_parameters)):
        if number // 2 not in kept:
            clone.remove_parameter(number)
    return clone
