"""Copies constants that a loop's state carries unchanged into its body and condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.loops.loop_state import (
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
            if any(_uses(callee).keys() & constants.keys() for callee in loop.called_computations):
                own_computations(loop)
                _sink(loop.while_condition, constants)
                _sink(loop.while_body, constants)
                changed = True
        return changed

    def _may_sink(self, value: HloInstruction) -> bool:
        if value.opcode == "broadcast" and self.sink_broadcast_of_constants and not self.sink_only_scalar_constants:
            return value.operand(0).opcode == "constant"
        return value.opcode == "constant" and (value.shape.is_scalar or not self.sink_only_scalar_constants)


def _uses(computation: HloComputation) -> dict[int, list[tuple[HloInstruction, int]]]:
    """Returns where elements are read, as user and operand number, by index; but for the root that passes them on."""
    root = computation.root_instruction
    passes_on = root.opcode == "tuple"  # a body's; a condition's is a predicate
    uses: dict[int, list[tuple[HloInstruction, int]]] = {}
    reads = {read: element_index(read) for read in computation.parameter_instructions[0].users}
    for user in dict.fromkeys(user for read in reads for user in read.users):
        for position, operand in enumerate(user.operands):
            index = reads.get(operand)
            if index is not None and not (passes_on and user is root and position == index):
                uses.setdefault(index, []).append((user, position))
    return uses


def _sink(computation: HloComputation, constants: Mapping[int, HloInstruction]) -> None:
    """Makes all uses of elements read copies of their values."""
    uses = _uses(computation)
    for index in [i for i in constants if i in uses]:
        copy = _copy_into(computation, constants[index])
        for user, position in uses[index]:
            user.replace_operand_with(position, copy)
    for read in computation.parameter_instructions[0].users:
        is_free = not (read.user_count or read.is_root() or has_control_dependencies(read))
        if is_free and element_index(read) in constants:
            computation.remove_instruction(read)


def _copy_into(computation: HloComputation, value: HloInstruction) -> HloInstruction:
    operands = [_copy_into(computation, operand) for operand in value.operands]
    return computation.add_instruction(value.clone_with_new_operands(value.shape, operands))
