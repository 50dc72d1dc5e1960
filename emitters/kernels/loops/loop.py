"""Kernels that are planned: a planner makes the schedule, and the schedule emitter the code."""

from __future__ import annotations

from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.planners.cpu.loops import plan_loop, plan_loops
from xjit.emitters.planners.cpu.planning import PlanContext
from xjit.emitters.schedule_emitter import emit_schedule


def plan_context(context: KernelContext) -> PlanContext:
    """Returns what planners may know."""
    return PlanContext(context.target, context.maps)


def emit_loop_kernel(context: KernelContext, view: KernelView) -> Kernel:
    """Emits the loop kernel of a view whose results all have the dimensions of the first."""
    return emit_schedule(context, view, plan_loop(plan_context(context), view))


def emit_loop_kernels(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits a loop kernel for all results of the same dimensions: one, but for a few fusions."""
    return [emit_schedule(context, view, schedule) for schedule in plan_loops(plan_context(context), view)]
