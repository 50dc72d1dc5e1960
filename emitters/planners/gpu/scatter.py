"""scatter on GPUs: all updates at once where nobody can tell their order, else in order.

Atomic operations make updates independent of each other if the combiner takes one array, and its elements fit in one
operation. Sums of floats then depend on the order in which threads come; `deterministic` asks for a fixed one.
"""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.scatter import plan_scatter
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.reducers import reduction_identity

IN_ORDER = "scatter-in-order"
"""The kind of a scatter whose threads each have a part of the result, and go through all updates."""


def plan_gpu_scatter(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans the copies of the operands, and the updates."""
    plans = plan_scatter(context, view)
    if is_independent(view.hero, context.deterministic):
        return plans
    return [
        HandWritten(p.instruction, IN_ORDER, "updates meet, in an order that counts")
        if isinstance(p, HandWritten)
        else p
        for p in plans
    ]


def is_independent(scatter: HloInstruction, deterministic: bool) -> bool:
    """Whether threads may take the updates in any order, one thread an element."""
    if scatter.attributes_as(at.ScatterAttributes).unique_indices:
        return True
    if scatter.operand_count != 3:
        return False
    kind = scatter.operand(0).shape.element_type
    known = reduction_identity(scatter.to_apply)
    if deterministic:
        return known is not None and (not (kind.is_float or kind.is_complex) or known[0] in ("maximum", "minimum"))
    return overwrites(scatter) or not kind.is_complex or (known is not None and known[0] == "add")


def overwrites(scatter: HloInstruction) -> bool:
    """Whether an update takes the place of what was there."""
    return scatter.to_apply.root_instruction is scatter.to_apply.parameter_instructions[-1]
