"""From plans to kernels: schedules are walked, and each kind of hand-written kernel has its emitter.

Most programs have few of these kinds, if any. The first program with one imports its emitter: these are a tenth of all
modules.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping

from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.convolution import ConvolutionWork
from xjit.emitters.planners.cpu.dot import GemmWork
from xjit.emitters.planners.cpu.joint_scores import JointWork
from xjit.emitters.planners.cpu.kernels import plan_kernels
from xjit.emitters.planners.cpu.scores import ScoreWork
from xjit.emitters.planners.plan import HandWritten, KernelPlan
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule_emitter import emit_schedule

KernelEmitter = Callable[[KernelContext, KernelView], list[Kernel]]

HAND_WRITTEN_EMITTERS: Mapping[str, str] = {
    "all-gather": "collectives.collective:emit_collective",
    "all-to-all": "collectives.collective:emit_collective",
    "cholesky": "linalg.cholesky:emit_cholesky",
    "collective-broadcast": "collectives.collective:emit_collective",
    "collective-permute": "collectives.collective:emit_collective",
    "custom-call": "calls.registered_call:emit_registered_call",
    "fft": "fft.fft:emit_fft",
    "fill": "calls.allocate_buffer:emit_allocate_buffer",
    "lapack": "linalg.lapack:emit_lapack",
    "partition-id": "collectives.device_id:emit_device_id",
    "ragged-all-to-all": "collectives.collective:emit_collective",
    "replica-id": "collectives.device_id:emit_device_id",
    "rng-bit-generator": "random.rng_bit_generator:emit_rng_bit_generator",
    "rng-get-and-update-state": "random.rng_state:emit_rng_get_and_update_state",
    "scan": "windows.prefix_scan:emit_prefix_scan",
    "scatter": "loops.scatter:emit_scatter",
    "select-and-scatter": "windows.select_and_scatter:emit_select_and_scatter",
    "sort": "sort.sort:emit_sort",
    "topk": "sort.topk:emit_topk",
    "triangular-solve": "linalg.triangular_solve:emit_triangular_solve",
    "tridiagonal-solve": "linalg.tridiagonal_perturbed:emit_tridiagonal_perturbed",
}
"""Where the emitter is, by the kind of a plan without work of its own: "module:function", below this folder."""


@functools.cache
def hand_written_emitter(kind: str) -> KernelEmitter:
    """Returns the emitter of a kind, imported."""
    module, _, function = HAND_WRITTEN_EMITTERS[kind].partition(":")
    return getattr(importlib.import_module(f"xjit.emitters.kernels.{module}"), function)


def emit_kernels(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels that compute a view, in the order in which they must run."""
    plans = plan_kernels(context.plan_context, view)
    return [kernel for plan in plans for kernel in emit_plan(context, view, plan)]


def emit_plan(context: KernelContext, view: KernelView, plan: KernelPlan) -> list[Kernel]:
    """Emits what one plan of the view says."""
    match plan:
        case Schedule():
            return [emit_schedule(context, view, plan)]
        case HandWritten(work=GemmWork() as work):
            from xjit.emitters.kernels.linalg.dot import emit_dot

            return emit_dot(context, view, work)
        case HandWritten(work=ConvolutionWork() as work):
            from xjit.emitters.kernels.linalg.convolution import emit_convolution

            return emit_convolution(context, view, work)
        case HandWritten(work=ScoreWork() as work):
            from xjit.emitters.kernels.linalg.scores import emit_scores

            return emit_scores(context, view, work)
        case HandWritten(work=JointWork() as work):
            from xjit.emitters.kernels.linalg.joint_scores import emit_joint_scores

            return emit_joint_scores(context, view, work)
        case HandWritten(kind=kind):
            return hand_written_emitter(kind)(context, view)
