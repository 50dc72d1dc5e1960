"""What a computation is to those who call it: fused computation, loop body, reducer, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation

_REDUCERS = frozenset({
    "reduce", "reduce-window", "all-reduce", "all-reduce-start", "reduce-scatter", "scatter", "scan",
})  # fmt: skip
_ASYNC = frozenset({"async-start", "async-update", "async-done"})


def is_async_computation(computation: HloComputation) -> bool:
    """Whether an asynchronous instruction runs this computation."""
    return any(caller.opcode in _ASYNC for caller in computation._callers)


def is_while_body_computation(computation: HloComputation) -> bool:
    """Whether this is the body of a loop."""
    return any(caller.opcode == "while" and caller.while_body is computation for caller in computation._callers)


def is_while_condition_computation(computation: HloComputation) -> bool:
    """Whether this is the condition of a loop."""
    return any(caller.opcode == "while" and caller.while_condition is computation for caller in computation._callers)


def is_reducer_computation(computation: HloComputation) -> bool:
    """Whether this combines two values for a reduction, scatter, scan or collective."""
    if any(caller.opcode in _REDUCERS for caller in computation._callers):
        return True
    windowed = (caller for caller in computation._callers if caller.opcode == "select-and-scatter")
    return any(caller.called_computations[1] is computation for caller in windowed)


def is_comparator_computation(computation: HloComputation) -> bool:
    """Whether this compares two values for a sort or a select-and-scatter."""
    if any(caller.opcode == "sort" for caller in computation._callers):
        return True
    windowed = (caller for caller in computation._callers if caller.opcode == "select-and-scatter")
    return any(caller.called_computations[0] is computation for caller in windowed)
