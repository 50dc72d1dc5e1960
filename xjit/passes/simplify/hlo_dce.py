"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.ir.orders import reachable_computations
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import (
    HloModulePass,
    has_control_dependencies,
    selected_computations,
)


@dataclass
class HloDCE(HloModulePass):
    """Removes instructions that neither reach a root nor have side effects, then computations that nothing reaches.

    Parameters and instructions with control edges stay.
    """

    name = "hlo-dce"
    aliases = ("dce",)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Removes what is dead; True if anything was."""
        effects = analyses.get(SideEffects, module)
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= remove_dead_instructions(computation, effects)
        changed |= remove_unreachable_computations(module)
        return changed


def remove_dead_instructions(computation: HloComputation, effects: SideEffects) -> bool:
    """Removes what has no users, and then what has lost its last user: in a graph without cycles, that is all."""

    def is_dead(instruction: HloInstruction) -> bool:
        return (
            not instruction.user_count
            and instruction is not root
            and instruction.opcode != "parameter"
            and not has_control_dependencies(instruction)
            and not effects.of_instruction(instruction)
        )

    root = computation.root_instruction
    dead = [i for i in computation.instructions if not i.user_count and is_dead(i)]
    if not dead:
        return False
    while dead:
        instruction = dead.pop()
        operands = instruction.unique_operands()
        computation.remove_instruction(instruction)
        dead.extend(o for o in operands if is_dead(o))
    return True


def remove_unreachable_computations(module: HloModule) -> bool:
    """Removes computations that no chain of calls from the entry reaches; True if there were any."""
    reached = reachable_computations(module)
    if len(reached) == len(module.computations()):
        return False
    dead = [c for c in module.make_computation_post_order() if c not in reached]
    for computation in reversed(dead):  # callers first
        module.remove_embedded_computation(computation)
    return bool(dead)
