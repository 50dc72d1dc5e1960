"""Computations that one instruction alone calls: they may be changed for it."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.calls_and_control.flatten_call_graph import clone_computation


def own_computations(caller: HloInstruction) -> None:
    """Gives an instruction copies of those computations that something else, or it itself again, calls, too."""
    module = caller.module
    assert module is not None
    for position, computation in enumerate(caller.called_computations):
        if _call_count(computation) > 1:
            caller.set_called_computation(position, clone_computation(module, computation))


def _call_count(computation: HloComputation) -> int:
    callers = computation.caller_instructions()
    return sum(called is computation for caller in callers for called in caller.called_computations)
