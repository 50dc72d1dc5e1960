"""Computations that run on the host, made ready for a backend's host offloading."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import AsyncAttributes, CustomCallAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops.library_calls.targets import call_target
from xjit.passes.framework.base import HloModulePass, selected_computations

HOST = "host"
MOVE_TO_HOST = "MoveToHost"
HOST_EXECUTE = "HostExecute"
ELIDE = "elide_move_to_host"
CONVERT = "convert_to_custom_call"


@dataclass
class HostOffloadingPrepare(HloModulePass):
    """Rewrites asynchronous calls of the execution thread `host`, in one of two ways.

    `elide_move_to_host`: what they read through a `MoveToHost` they read directly, as the host reads it anyway.
    `convert_to_custom_call`: what they run becomes one call of `HostExecute` with the host's computation, which has
    the frontend attributes of that computation's root.
    """

    name = "host-offloading-prepare"
    rewrite: str = ELIDE

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a call changed; InvalidArgument for another rewrite."""
        rewrites = {ELIDE: _elide_moves, CONVERT: _convert}
        if self.rewrite not in rewrites:
            raise InvalidArgument(f"{self.name}: rewrite is one of {', '.join(rewrites)}, not '{self.rewrite}'")
        starts = [i for c in selected_computations(module, execution_threads) for i in c.instructions if _is_start(i)]
        changed = False
        for start in starts:
            changed |= rewrites[self.rewrite](start)
        return changed


def _is_start(instruction: HloInstruction) -> bool:
    if instruction.opcode != "async-start":
        return False
    return instruction.attributes_as(AsyncAttributes).async_execution_thread == HOST


def _elide_moves(start: HloInstruction) -> bool:
    moves = [(i, o) for i, o in enumerate(start.operands) if call_target(o) == MOVE_TO_HOST]
    for position, move in moves:
        start.replace_operand_with_different_shape(position, move.operand(0))
        if move.is_dead() and move.parent is not None and not move.control_successors:
            move.parent.remove_instruction(move)
    return bool(moves)


def _convert(start: HloInstruction) -> bool:
    """Lets a start run a computation that only calls HostExecute; False if it does not just call a computation."""
    wrapper = start.called_computations[0]
    root = wrapper.root_instruction
    if root.opcode != "call" or root.operands != wrapper.parameter_instructions:
        return False
    callee = root.to_apply
    module = start.module
    assert module is not None
    computation = HloComputation(f"{wrapper.name}.host_execute")
    computation.execution_thread = HOST
    parameters = [computation.add_instruction(p.clone("")) for p in wrapper.parameter_instructions]
    call = HloInstruction.create(
        "custom-call", root.shape, parameters, CustomCallAttributes(HOST_EXECUTE), [callee], "host-execute"
    )
    call.frontend_attributes = dict(callee.root_instruction.frontend_attributes)
    computation.set_root_instruction(computation.add_instruction(call))
    module.add_embedded_computation(computation)
    for caller in wrapper.caller_instructions():
        caller.set_called_computation(0, computation)
    module.remove_embedded_computation(wrapper)
    return True
