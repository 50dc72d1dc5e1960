"""Arrays without elements become constants."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Literal, Trait
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion


@dataclass
class ZeroSizedHloElimination(HloModulePass):
    """Replaces what makes an array without elements by an empty constant, and the uses of such a parameter, too.

    Dynamic shapes, tuples, side effects, what has control edges and the two halves of asynchronous operations stay.
    """

    name = "zero-sized-hlo-elimination"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Replaces in every non-fusion computation; True if there was something to replace."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.parent is computation and _is_replaced(instruction):
                    into = Expansion(instruction)
                    into.replace_source(into.constant(Literal.full(instruction.shape, 0)))
                    changed = True
        return changed


def _is_replaced(instruction: HloInstruction) -> bool:
    shape = instruction.shape
    if not shape.is_static_array or shape.num_elements or instruction.opcode == "constant":
        return False
    if has_control_dependencies(instruction):
        return False
    if instruction.opcode == "parameter":
        return bool(instruction.user_count) or instruction.is_root()
    return not instruction.op.has(Trait.ASYNC) and not instruction.has_side_effect()
