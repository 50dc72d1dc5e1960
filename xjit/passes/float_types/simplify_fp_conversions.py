"""Chains of conversions between floats as one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.edit.replacing import replace
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion


@dataclass
class SimplifyFPConversions(HloModulePass):
    """Converts to the last type of a chain of floats at once, or not at all: what it rounds on the way is kept.

    Values change where a type of the chain does not hold them.
    """

    name = "simplify-fp-conversions"
    opcodes = frozenset({"convert"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Shortens chains in every computation that is no fusion; True if there was one."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                source = _start(instruction)
                if source is instruction or source is instruction.operand(0):
                    continue
                into = Expansion(instruction)
                is_same = source.shape.element_type is instruction.shape.element_type
                replace(instruction, source if is_same else into.like_source("convert", [source]), into.made)
                changed = True
        return changed


def _start(instruction: HloInstruction) -> HloInstruction:
    """Returns what a chain of conversions between floats begins with: the instruction if it is none."""
    while (
        instruction.opcode == "convert"
        and instruction.shape.element_type.is_float
        and instruction.operand(0).shape.element_type.is_float
        and not has_control_dependencies(instruction)
    ):
        instruction = instruction.operand(0)
    return instruction
