"""scatter on GPUs: all updates at once where nobody can tell their order, by segments of equal indices, else in order.

Atomic operations make updates independent of each other if the combiner takes one array, and its elements fit in one
operation. Sums of floats then depend on the order in which threads come; `deterministic` asks for a fixed one. What the
module says of the indices decides who does what, never whether a place is inside of the result.
"""

from __future__ import annotations

from dataclasses import replace

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.scatter import ScatterDimensions, plan_scatter
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.reducers import reduction_identity

IN_ORDER = "scatter-in-order"
"""The kind of a scatter whose threads each have a part of the result, and go through all updates."""

BY_SEGMENTS = "scatter-by-segments"
"""The kind of a scatter with sorted indices: who has the first update of several that meet takes all of them."""


def plan_gpu_scatter(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans the copies of the operands, and the updates."""
    plans = plan_scatter(context, view)
    kind, reason = "scatter", ""
    if has_segments(view.hero):
        kind, reason = BY_SEGMENTS, "segments of equal indices begin where data says"
    elif not is_independent(view.hero, context.deterministic):
        kind, reason = IN_ORDER, "updates meet, in an order that counts"
    return [replace(p, kind=kind, reason=reason) if isinstance(p, HandWritten) and reason else p for p in plans]


def has_segments(scatter: HloInstruction) -> bool:
    """Whether updates that meet are in neighbouring windows, which are equal or apart."""
    attributes = scatter.attributes_as(at.ScatterAttributes)
    if not attributes.indices_are_sorted or attributes.unique_indices:
        return False
    dimensions, updates = ScatterDimensions.of(scatter), scatter.operands[-1].shape
    moved = [w for w, c in zip(dimensions.windows, dimensions.components, strict=True) if c is not None]
    return all(window is None or updates.dimensions[window] == 1 for window in moved)


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
