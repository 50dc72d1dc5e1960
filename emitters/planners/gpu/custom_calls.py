"""Custom calls on GPUs: annotations are copies; what calls a library or a function of the host is refused."""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.custom_calls import TARGET_KINDS, plan_annotation
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.custom_call_registry import custom_call_address
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.custom_call_targets import IDENTITY_TARGETS, unknown_target


def plan_gpu_custom_call(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a custom call. Errors: Unsupported names a target that is not known, or that only a host has."""
    call = view.hero
    target = call.attributes_as(CustomCallAttributes).custom_call_target
    if target in IDENTITY_TARGETS:
        return [plan_annotation(context, view)]
    if target == "AllocateBuffer":
        return [HandWritten(view.instruction.name, "fill", "it has no operand to compute elements from")]
    if custom_call_address(target) is not None:
        reason = "the registered function runs on the host, and a GPU's arrays are not there"
    elif target in TARGET_KINDS:
        reason = "it has no kernel"
    else:
        raise unknown_target(call, (*IDENTITY_TARGETS, "AllocateBuffer", "TopK"))
    message = f"custom-call '{call.name}' to '{target}' cannot be compiled for target '{context.target.name}': {reason}"
    raise Unsupported(message, call.span)
