"""reduce-window on GPUs: a scan if its window reaches from one end of a dimension to each element, else loops."""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.cpu.windows import prefix_dimension
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext


def plan_gpu_reduce_window(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a reduce-window."""
    if prefix_dimension(view.hero) is None or not view.result_shapes[0].num_elements:
        return list(plan_loops(context, view))
    return [HandWritten(view.instruction.name, "scan", "each element carries to the next")]
