"""Which planner serves which hero on GPUs: the loop planner serves everything that is not listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.coverage import refuse_unsupported
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.cpu.updates import plan_dynamic_update_slice
from xjit.emitters.planners.gpu.columns import column_parts, column_reductions
from xjit.emitters.planners.gpu.contractions import plan_contraction
from xjit.emitters.planners.gpu.custom_calls import plan_gpu_custom_call
from xjit.emitters.planners.gpu.loops import THREADS, linear_parts
from xjit.emitters.planners.gpu.radix_sort import radix_plan
from xjit.emitters.planners.gpu.rows import row_depth, row_parts
from xjit.emitters.planners.gpu.scatter import plan_gpu_scatter
from xjit.emitters.planners.gpu.scores import plan_gpu_scores
from xjit.emitters.planners.gpu.short_rows import short_row_loops, short_row_parts
from xjit.emitters.planners.gpu.transpose import transposed_loop, transposed_parts
from xjit.emitters.planners.gpu.windows import plan_gpu_reduce_window, plan_gpu_select_and_scatter
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.emitters.planners.score_product import is_score_product
from xjit.emitters.schedule.statements import Part
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.target import Target
from xjit.passes.expand.fft_expander import FftExpander
from xjit.passes.expand.matrices import one_block_rows

Planner = Callable[[PlanContext, KernelView], Sequence[KernelPlan]]


def _plan_rng(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    return [HandWritten(view.instruction.name, "rng-bit-generator", "a counter yields several elements")]


def _plan_rng_state(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    return [HandWritten(view.instruction.name, "rng-get-and-update-state", "its state is the execution's")]


def _plan_sort(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    return [HandWritten(view.instruction.name, "sort", "where it writes depends on data", radix_plan(view.hero))]


def _plan_matrices(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    """Plans a cholesky or a triangular-solve; what is larger than `one_block_rows` is for passes."""
    matrix = view.hero.operand(0).shape
    if matrix.dimensions[-1] > one_block_rows(matrix.element_type):
        raise _no_kernel(context, view.hero)
    return [HandWritten(view.instruction.name, view.hero.opcode, "a block of threads has a matrix in shared memory")]


def _plan_fft(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    """Plans a transform that `fft-expander` leaves."""
    if FftExpander(one_block=True).applies(view.hero):
        raise _no_kernel(context, view.hero)
    return [HandWritten(view.instruction.name, "fft-in-block", "stages meet in shared memory")]


def _no_kernel(context: PlanContext, hero: HloInstruction) -> Unsupported:
    return Unsupported(f"{hero.opcode} '{hero.name}' cannot be compiled for target '{context.target.name}'", hero.span)


CONTRACTIONS = frozenset(["convolution", "dot"])

GPU_HERO_PLANNERS: Mapping[str, Planner] = {
    "cholesky": _plan_matrices,
    "custom-call": plan_gpu_custom_call,
    "dynamic-update-slice": plan_dynamic_update_slice,
    "fft": _plan_fft,
    "reduce-window": plan_gpu_reduce_window,
    "rng-bit-generator": _plan_rng,
    "rng-get-and-update-state": _plan_rng_state,
    "scatter": plan_gpu_scatter,
    "select-and-scatter": plan_gpu_select_and_scatter,
    "sort": _plan_sort,
    "triangular-solve": _plan_matrices,
}

REWRITTEN = frozenset(["topk"])
"""Heroes that passes write in terms of others. What they leave has a form that no emitter knows."""


def gpu_plan_context(target: Target, maps: MapCache, deterministic: bool = False) -> PlanContext:
    """Returns what GPU planners may know."""
    return PlanContext(target, maps, block_threads=THREADS, parts_of=gpu_parts, deterministic=deterministic)


def plan_gpu_kernels(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    """Returns the plans of a view's kernels, in the order in which they must run.

    Errors: Unsupported names the opcode that GPUs have no kernel for.
    """
    if is_score_product(view):
        return plan_gpu_scores(context, view)
    hero = view.hero
    refuse_unsupported(hero)
    if hero.opcode in REWRITTEN:
        raise _no_kernel(context, hero)
    if hero.opcode in CONTRACTIONS:
        return plan_contraction(context, view)
    planner = GPU_HERO_PLANNERS.get(hero.opcode, plan_loops) if view.roots == (hero,) else plan_loops
    return planner(context, view)


def gpu_parts(planning: LoopPlanning, space: IterationSpace) -> list[Part]:
    """Returns the parts of a space without needless loops and divisions."""
    depth = row_depth(planning, space)
    if depth is not None:
        return row_parts(planning, space, depth)
    if column_reductions(planning, space):
        return column_parts(planning, space)
    along = transposed_loop(planning, space)
    if along is not None:
        return transposed_parts(planning, space, along)
    rows = short_row_loops(planning, space)
    if rows:
        return short_row_parts(planning, space, rows)
    return linear_parts(planning, space)
