"""Custom calls by target: annotations are copies, the others are hand-written, each kind by its own emitter."""

from __future__ import annotations

from collections.abc import Mapping

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.updates import plan_copy
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.emitters.schedule.schedule import Schedule
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import custom_call_address
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.custom_call_targets import IDENTITY_TARGETS, unknown_target
from xjit.ops.lapack_targets import LAPACK_TARGETS, PERTURBED_TARGET

TARGET_KINDS: Mapping[str, tuple[str, str]] = {
    "TopK": ("topk", "its loops depend on data"),
    "AllocateBuffer": ("fill", "it is one call of memset per result"),
    **dict.fromkeys(LAPACK_TARGETS, ("lapack", "it calls a library")),
    PERTURBED_TARGET: ("tridiagonal-solve", "its loops depend on data"),
}
"""The kind and the reason of those that are written by hand, but for registered functions."""


def plan_custom_call(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a custom call. Errors: Unsupported names a target that is not known, or one that needs several devices."""
    call = view.hero
    target = call.attributes_as(CustomCallAttributes).custom_call_target
    if target in IDENTITY_TARGETS:
        return [plan_annotation(context, view)]
    kind = TARGET_KINDS.get(target)
    if kind is None and custom_call_address(target) is not None:
        kind = ("custom-call", "it calls a registered function")
    if kind is None:
        raise unknown_target(call, (*TARGET_KINDS, *IDENTITY_TARGETS))
    return [HandWritten(view.instruction.name, *kind)]


def plan_annotation(context: PlanContext, view: KernelView) -> Schedule:
    """Plans a call to one of `IDENTITY_TARGETS`, a copy. Errors: Unsupported if it changes the shape."""
    call = view.hero
    if call.operand_count != 1 or not call.operand(0).shape.compatible(call.shape) or not call.shape.is_array:
        target = call.attributes_as(CustomCallAttributes).custom_call_target
        raise Unsupported(f"custom-call '{target}' that changes the shape: it needs several devices", call.span)
    return plan_copy(context, view, call.operand(0), 0, "")
