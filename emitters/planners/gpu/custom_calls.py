"""Custom calls on GPUs that are kernels: annotations are copies. Others are steps of the runtime, or refused."""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.custom_calls import TARGET_KINDS, plan_annotation
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo.attributes import CustomCallAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.custom_call_targets import IDENTITY_TARGETS, unknown_target
from xjit.ops.lapack_targets import LAPACK_TARGETS


def plan_gpu_custom_call(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a custom call. Errors: Unsupported names a target that is not known, or that only CPUs have."""
    call = view.hero
    target = call.attributes_as(CustomCallAttributes).custom_call_target
    if target in IDENTITY_TARGETS:
        return [plan_annotation(context, view)]
    if target == "AllocateBuffer":
        return [HandWritten(view.instruction.name, "fill", "it has no operand to compute elements from")]
    if target not in TARGET_KINDS:
        raise unknown_target(call, (*IDENTITY_TARGETS, "AllocateBuffer", "TopK", *LAPACK_TARGETS))
    message = f"custom-call '{call.name}' to '{target}' cannot be compiled for target '{context.target.name}'"
    raise Unsupported(f"{message}: it has no kernel", call.span)
