"""From plans to kernels: schedules are walked, and each kind of hand-written kernel has its emitter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.emitters.kernels.calls.allocate_buffer import emit_allocate_buffer
from xjit.emitters.kernels.calls.registered_call import emit_registered_call
from xjit.emitters.kernels.collectives.collective import emit_collective
from xjit.emitters.kernels.collectives.device_id import emit_device_id
from xjit.emitters.kernels.fft.fft import emit_fft
from xjit.emitters.kernels.kernel import Kernel, KernelContext
from xjit.emitters.kernels.linalg.cholesky import emit_cholesky
from xjit.emitters.kernels.linalg.convolution import emit_convolution
from xjit.emitters.kernels.linalg.dot import emit_dot
from xjit.emitters.kernels.linalg.joint_scores import emit_joint_scores
from xjit.emitters.kernels.linalg.lapack import emit_lapack
from xjit.emitters.kernels.linalg.scores import emit_scores
from xjit.emitters.kernels.linalg.triangular_solve import emit_triangular_solve
from xjit.emitters.kernels.linalg.tridiagonal_perturbed import emit_tridiagonal_perturbed
from xjit.emitters.kernels.loops.scatter import emit_scatter
from xjit.emitters.kernels.random.rng_bit_generator import emit_rng_bit_generator
from xjit.emitters.kernels.random.rng_state import emit_rng_get_and_update_state
from xjit.emitters.kernels.sort.sort import emit_sort
from xjit.emitters.kernels.sort.topk import emit_topk
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.kernels.windows.prefix_scan import emit_prefix_scan
from xjit.emitters.kernels.windows.select_and_scatter import emit_select_and_scatter
from xjit.emitters.planners.cpu.convolution import ConvolutionWork
from xjit.emitters.planners.cpu.dot import GemmWork
from xjit.emitters.planners.cpu.joint_scores import JointWork
from xjit.emitters.planners.cpu.kernels import plan_kernels
from xjit.emitters.planners.cpu.scores import ScoreWork
from xjit.emitters.planners.plan import HandWritten, KernelPlan
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule_emitter import emit_schedule

KernelEmitter = Callable[[KernelContext, KernelView], list[Kernel]]

HAND_WRITTEN_EMITTERS: Mapping[str, KernelEmitter] = {
    "all-gather": emit_collective,
    "all-to-all": emit_collective,
    "cholesky": emit_cholesky,
    "collective-broadcast": emit_collective,
    "collective-permute": emit_collective,
    "custom-call": emit_registered_call,
    "fft": emit_fft,
    "fill": emit_allocate_buffer,
    "lapack": emit_lapack,
    "partition-id": emit_device_id,
    "ragged-all-to-all": emit_collective,
    "replica-id": emit_device_id,
    "rng-bit-generator": emit_rng_bit_generator,
    "rng-get-and-update-state": emit_rng_get_and_update_state,
    "scan": emit_prefix_scan,
    "scatter": emit_scatter,
    "select-and-scatter": emit_select_and_scatter,
    "sort": emit_sort,
    "topk": emit_topk,
    "triangular-solve": emit_triangular_solve,
    "tridiagonal-solve": emit_tridiagonal_perturbed,
}
"""By the kind of a plan without work of its own."""


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
            return emit_dot(context, view, work)
        case HandWritten(work=ConvolutionWork() as work):
            return emit_convolution(context, view, work)
        case HandWritten(work=ScoreWork() as work):
            return emit_scores(context, view, work)
        case HandWritten(work=JointWork() as work):
            return emit_joint_scores(context, view, work)
        case HandWritten(kind=kind):
            return HAND_WRITTEN_EMITTERS[kind](context, view)
