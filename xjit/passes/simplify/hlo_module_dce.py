"""Dead code elimination across calls: elements of loops' states that only compute themselves are computed no more."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.analysis.live_elements import LiveElements
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.loops.loop_state import passes_through
from xjit.passes.simplify.hlo_dce import remove_dead_instructions


@dataclass
class HloModuleDCE(HloModulePass):
    """Makes loop bodies pass dead elements of the state on unchanged, and removes what computed them.

    The state keeps its shape: the simplifier of loops removes the elements themselves. A loop that nothing needs at all
    is left as it is, as it would not end without its counter.
    """

    name = "hlo-module-dce"
    opcodes = frozenset({"while"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Neutralizes dead elements of all loops; True if there were any."""
        loops = [
            i
            for computation in selected_computations(module, execution_threads)
            for i in computation.instructions
            if i.opcode == "while" and i.while_body.root_instruction.opcode == "tuple"
        ]
        if not loops:
            return False
        live = analyses.get(LiveElements, module)
        dead = {loop: _dead_elements(loop, live) for loop in loops}
        changed = False
        for loop, elements in dead.items():
            if elements:
                own_computations(loop)
                _pass_on(loop, elements)
                changed = True
        return changed


def _dead_elements(loop: HloInstruction, live: LiveElements) -> list[int]:
    """Returns the elements that nothing needs, in the loop or behind it, and that the body computes all the same."""
    if not live.is_live(loop):
        return []
    body = loop.while_body
    return [
        i
        for i in range(body.root_instruction.operand_count)
        if not live.is_live(body.root_instruction, (i,)) and not passes_through(loop, i)
    ]


def _pass_on(loop: HloInstruction, elements: list[int]) -> None:
    body, module = loop.while_body, loop.module
    assert module is not None
    for index in elements:
        element = HloInstruction.create_get_tuple_element(body.parameter_instructions[0], index)
        inherit_annotations(element, body.root_instruction.operand(index))
        body.root_instruction.replace_operand_with(index, body.add_instruction(element))
    remove_dead_instructions(body, analyses.get(SideEffects, module))
