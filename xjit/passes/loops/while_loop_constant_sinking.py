"""Copies constants that a loop's state carries unchanged into its body and condition."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.loops.loop_state import (
    element_reads,
    initial_value,
    invariant_elements,
    loops_to_change,
)


@dataclass
class WhileLoopConstantSinking(HloModulePass):
    """Makes condition and body read a constant instead of the loop-invariant element that starts as it.

    The element stays in the state, for the simplifier of loops to remove. With `sink_broadcast_of_constants` also
    broadcasts of constants are copied, with `sink_only_scalar_constants` nothing else but scalars. It undoes hoisting
    of constants: don't combine it with that.
    """

    name = "while-loop-constant-sinking"
    sink_broadcast_of_constants: bool = False
    sink_only_scalar_constants: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Sinks into inner loops first; True if a constant was copied."""
        changed = False
        for loop in loops_to_change(module, execution_threads):
            constants = {
                i: value
                for i in invariant_elements(loop)
                if (value := initial_value(loop, i)) is not None and self._may_sink(value)
            }
            callees = (loop.while_condition, loop.while_body)
            if any(_uses(callee, i) for callee in callees for i in constants):
                own_computations(loop)
                for index, value in constants.items():
                    _sink(loop.while_condition, index, value)
                    _sink(loop.while_body, index, value)
                changed = True
        return changed

    def _may_sink(self, value: HloInstruction) -> bool:
        if value.opcode == "broadcast" and self.sink_broadcast_of_constants and not self.sink_only_scalar_constants:
            return value.operand(0).opcode == "constant"
        return value.opcode == "constant" and (value.shape.is_scalar or not self.sink_only_scalar_constants)


def _uses(computation: HloComputation, index: int) -> list[tuple[HloInstruction, int]]:
    """Returns where an element is read, as user and operand number, but for the root that passes it on."""
    root = computation.root_instruction
    passes_on = root.opcode == "tuple"  # a body's; a condition's is a predicate
    reads = element_reads(computation.parameter_instructions[0], index)
    return [
        (user, position)
        for read in reads
        for user in read.users
        for position, operand in enumerate(user.operands)
        if operand is read and not (passes_on and user is root and position == index)
    ]


def _sink(computation: HloComputation, index: int, value: HloInstruction) -> None:
    """Makes all uses of an element read a copy of its value."""
    uses = _uses(computation, index)
    if not uses:
        return
    copy = _copy_into(computation, value)
    for user, position in uses:
        user.replace_operand_with(position, copy)
    for read in element_reads(computation.parameter_instructions[0], index):
        if not (read.user_count or read.is_root() or has_control_dependencies(read)):
            computation.remove_instruction(read)


def _copy_into(computation: HloComputation, value: HloInstruction) -> HloInstruction:
    operands = [_copy_into(computation, operand) for operand in value.operands]
    return computation.add_instruction(value.clone_with_new_operands(value.shape, operands))
