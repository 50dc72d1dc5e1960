"""The plans of all kernels of a module, and their text. No code exists, or comes to exist, where this runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from xjit.emitters.entry.kernel_calls import kernel_calls
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.kernels import plan_kernels
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment


def plan_module(
    assignment: BufferAssignment, context: PlanContext, inline: bool = True
) -> Iterator[tuple[KernelView, Sequence[KernelPlan]]]:
    """Yields the distinct views of a scheduled, buffer-assigned module with their plans, in the order of first calls.

    Unless `inline` is False, numbers that are code in the line of a loop's body are left out: they have no kernel.

    Errors: Unsupported names the instruction that cannot be compiled.
    """
    seen: set[Hashable] = set()
    for call in kernel_calls(assignment, inline):
        key = None if call.is_inline else call.view.key()
        if key is not None and key not in seen:
            seen.add(key)
            yield call.view, plan_kernels(context, call.view)


def schedule_text(assignment: BufferAssignment, context: PlanContext, inline: bool = True) -> str:
    """Returns the schedule of every kernel, and remarks on each that is written by hand."""
    plans = [plan for _, found in plan_module(assignment, context, inline) for plan in found]
    return "\n".join(plan.to_text(context) if isinstance(plan, HandWritten) else str(plan) for plan in plans)
