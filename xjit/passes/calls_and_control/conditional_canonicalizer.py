"""Conditionals always return tuples."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo.annotations.sharding import sharding_of_leaves
from xjit.hlo.edit.replacing import replace
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class ConditionalCanonicalizer(HloModulePass):
    """Wraps the result of every conditional that returns no tuple in a tuple of one element."""

    name = "conditional-canonicalizer"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Wraps results; True if there was one to wrap."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.instructions:
                if instruction.opcode == "conditional" and not instruction.shape.is_tuple:
                    wrap_result(instruction)
                    changed = True
        return changed


def wrap_result(conditional: HloInstruction) -> HloInstruction:
    """Puts element 0 of a conditional that returns a tuple in the place of one that does not; returns the new one."""
    computation = conditional.parent
    assert computation is not None
    own_computations(conditional)
    for branch in conditional.branch_computations:
        wrapped = branch.add_instruction(HloInstruction.create_tuple([branch.root_instruction]))
        branch.set_root_instruction(wrapped, accept_different_shape=True)
    shape = Shape.tuple_of([conditional.shape])
    new = computation.add_instruction(conditional.clone_with_new_operands(shape, conditional.operands))
    new.sharding = conditional.sharding and sharding_of_leaves(shape, conditional.sharding)
    element = computation.add_instruction(HloInstruction.create_get_tuple_element(new, 0))
    replace(conditional, element, [new])
    return new
