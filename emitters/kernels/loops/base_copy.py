"""The first step of kernels that update an array in place: writing the array that is about to be updated.

Nothing is emitted for results that share the buffer of their array.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.loops.loop import plan_context
from xjit.emitters.planners.cpu.updates import plan_base_copies, plan_copy, plan_fill
from xjit.emitters.schedule_emitter import emit_schedule
from xjit.hlo.ir.instruction import HloInstruction


def emit_base_copies(context: KernelContext, view: KernelView, bases: Sequence[HloInstruction]) -> list[Kernel]:
    """Emits the copies of bases[i] to result i, except where both are one buffer already."""
    schedules = plan_base_copies(plan_context(context), view, bases)
    return [emit_schedule(context, view, schedule) for schedule in schedules]


def emit_copy(context: KernelContext, view: KernelView, source: HloInstruction, result: int) -> Kernel:
    """Emits a kernel that writes one value of the view's graph to one result buffer."""
    return emit_schedule(context, view, plan_copy(plan_context(context), view, source, result, ""))


def emit_fill(context: KernelContext, view: KernelView, scalar: HloInstruction, result: int) -> Kernel:
    """Emits a kernel that writes a scalar to every element of a result buffer."""
    return emit_schedule(context, view, plan_fill(plan_context(context), view, scalar, result))
