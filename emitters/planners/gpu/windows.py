"""Windows on GPUs: reduce-window is a scan if its window reaches from an end of a dimension to each element, or loops.

select-and-scatter is turned around: each element of the result looks for the windows that pick it.
"""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.cpu.scatter import plan_select_and_scatter
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.ops.prefix_scan import prefix_dimension

GATHERED = "select-and-scatter-by-elements"
"""The kind of a select-and-scatter that is turned around."""


def plan_gpu_reduce_window(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a reduce-window."""
    if prefix_dimension(view.hero) is None or not view.result_shapes[0].num_elements:
        return list(plan_loops(context, view))
    return [HandWritten(view.instruction.name, "scan", "each element carries to the next")]


def plan_gpu_select_and_scatter(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a select-and-scatter: by elements of the result, or by windows, in order, if some are dilated."""
    window = view.hero.attributes_as(at.WindowAttributes).window.dimensions
    if any(w.base_dilation != 1 or w.window_dilation != 1 or w.window_reversal for w in window):
        return plan_select_and_scatter(context, view)
    if not view.hero.shape.num_elements:
        return []
    if not view.hero.operand(1).shape.num_elements:
        return plan_select_and_scatter(context, view)
    return [HandWritten(view.instruction.name, GATHERED, "its loops look for what data decide")]
