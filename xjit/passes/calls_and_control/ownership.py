"""Computations that one instruction alone calls: they may be changed for it."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.calls_and_control.flatten_call_graph import clone_computation


def own_computations(caller: HloInstruction) -> None:
    """Gives an instruction copies of those computations that something else, or it itself again, calls, too."""
    module = caller.module
    assert module is not None
    for position, computation in enumerate(caller.called_computations):
        if _is_shared(computation, caller):
            caller.set_called_computation(position, clone_computation(module, computation))


def _is_shared(computation: HloComputation, caller: HloInstruction) -> bool:
    """Whether anything else calls a caller's computation, or it does so twice."""
    return computation.caller_count > 1 or sum(called is computation for called in caller.called_computations) > 1
