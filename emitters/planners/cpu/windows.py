"""reduce-window: a scan if its window reaches from one end of a dimension to each element, else loops over windows."""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.loops import plan_loop
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.ops.prefix_scan import prefix_dimension


def plan_reduce_window(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a reduce-window."""
    if prefix_dimension(view.hero) is None or not view.result_shapes[0].num_elements:
        return [plan_loop(context, view)]
    return [HandWritten(view.instruction.name, "scan", "each element carries to the next")]
