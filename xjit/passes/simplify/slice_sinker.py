"""Elementwise operations on slices of the same arrays become slices of one operation on the whole arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import SliceAttributes
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations


@dataclass
class SliceSinker(HloModulePass):
    """Computes a group of operations on slices at once, if together they have as many elements as what is cut.

    The members of a group differ in nothing but where they cut, and each cuts all its operands, arrays of the same
    dimensions, alike.
    """

    name = "slice-sinker"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sinks slices below every group; True if there was one."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.parent is computation and _works_on_slices(instruction):
                    group = _group_of(instruction)
                    if _is_worth_it(group):
                        _sink(computation, group)
                        changed = True
        return changed


def _works_on_slices(instruction: HloInstruction) -> bool:
    """Whether this is an elementwise operation on slices, cut alike out of arrays of the same dimensions."""
    if not instruction.operand_count or not instruction.is_elementwise() or instruction.opcode == "fusion":
        return False
    if instruction.is_dead() or instruction.sharding is not None or has_control_dependencies(instruction):
        return False
    if any(o.opcode != "slice" or not o.operand(0).shape.is_static_array for o in instruction.operands):
        return False
    first = instruction.operand(0)
    return not instruction.has_side_effect() and all(
        o.attributes == first.attributes and o.operand(0).shape.same_dimensions(first.operand(0).shape)
        for o in instruction.operands
    )


def _group_of(instruction: HloInstruction) -> list[HloInstruction]:
    """Returns the operations, this one among them, that do the same to other slices of the same arrays."""
    source = instruction.operand(0).operand(0)
    found: dict[HloInstruction, None] = {}
    for cut in source.users:
        if cut.opcode == "slice":
            found.update(dict.fromkeys(u for u in cut.users if _does_the_same(u, instruction) and _works_on_slices(u)))
    return list(found)


def _does_the_same(other: HloInstruction, instruction: HloInstruction) -> bool:
    return (
        other.opcode == instruction.opcode
        and other.shape.element_type is instruction.shape.element_type
        and other.attributes == instruction.attributes
        and other.called_computations == instruction.called_computations
        and [o.operands for o in other.operands] == [o.operands for o in instruction.operands]
        and other.frontend_attributes == instruction.frontend_attributes
    )


def _is_worth_it(group: Sequence[HloInstruction]) -> bool:
    whole = group[0].operand(0).operand(0).shape.num_elements
    return sum(member.shape.num_elements for member in group) >= whole


def _sink(computation: HloComputation, group: Sequence[HloInstruction]) -> None:
    first = group[0]
    sources = [cut.operand(0) for cut in first.operands]
    shape = first.shape.with_dimensions(sources[0].shape.dimensions).with_layout(first.shape.layout)
    whole = computation.add_instruction(first.clone_with_new_operands(shape, sources))
    for member in group:
        cut = member.operand(0).attributes_as(SliceAttributes)
        new = computation.add_instruction(HloInstruction.create("slice", member.shape, [whole], cut))
        inherit_annotations(new, member)
        replace(member, new, [new])
