"""Which kernel emitter serves which hero: opcode -> emitter. The loop kernel serves everything that is not listed.

The emitters of `EPILOGUE_HEROES` also compute what is made of their hero; the others write the hero's results only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.emitters.coverage import LEFT_OVER, UNSUPPORTED
from xjit.emitters.kernels.calls.custom_call import emit_custom_call
from xjit.emitters.kernels.fft.fft import emit_fft
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.linalg.cholesky import emit_cholesky
from xjit.emitters.kernels.linalg.convolution import emit_convolution
from xjit.emitters.kernels.linalg.dot import emit_dot
from xjit.emitters.kernels.linalg.triangular_solve import emit_triangular_solve
from xjit.emitters.kernels.loops.loop import plan_context
from xjit.emitters.kernels.loops.scatter import emit_scatter
from xjit.emitters.kernels.random.rng_bit_generator import emit_rng_bit_generator
from xjit.emitters.kernels.random.rng_state import emit_rng_get_and_update_state
from xjit.emitters.kernels.sort.sort import emit_sort
from xjit.emitters.kernels.sort.topk import emit_topk
from xjit.emitters.kernels.windows.prefix_scan import emit_reduce_window
from xjit.emitters.kernels.windows.select_and_scatter import emit_select_and_scatter
from xjit.emitters.planners.cpu.columns import plan_reduce
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.cpu.planning import PlanContext
from xjit.emitters.planners.cpu.updates import plan_dynamic_update_slice
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule_emitter import emit_schedule
from xjit.hlo.diagnostics import Unsupported

KernelEmitter = Callable[[KernelContext, KernelView], list[Kernel]]
Planner = Callable[[PlanContext, KernelView], list[Schedule]]


HERO_PLANNERS: Mapping[str, Planner] = {
    "dynamic-update-slice": plan_dynamic_update_slice,
    "reduce": plan_reduce,
}
"""What has loops of its own, but no code."""

HERO_EMITTERS: Mapping[str, KernelEmitter] = {
    "convolution": emit_convolution,
    "dot": emit_dot,
    "scatter": emit_scatter,
    "rng-bit-generator": emit_rng_bit_generator,
    "rng-get-and-update-state": emit_rng_get_and_update_state,
    "select-and-scatter": emit_select_and_scatter,
    "reduce-window": emit_reduce_window,
    "sort": emit_sort,
    "topk": emit_topk,
    "custom-call": emit_custom_call,
    "cholesky": emit_cholesky,
    "fft": emit_fft,
    "triangular-solve": emit_triangular_solve,
}


EPILOGUE_HEROES = frozenset({"convolution", "dot"})


def plan_kernels(context: PlanContext, view: KernelView) -> list[Schedule] | None:
    """Returns the schedules of a view's kernels, in the order in which they must run; None if they are hand-written.

    Some hand-written kernels leave what they cannot do to loops: that, their emitters find out.
    """
    hero = view.hero
    if view.roots != (hero,) and hero.opcode not in EPILOGUE_HEROES:
        return plan_loops(context, view)
    return None if hero.opcode in HERO_EMITTERS else HERO_PLANNERS.get(hero.opcode, plan_loops)(context, view)


def emit_kernels(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits the kernels that compute a view, in the order in which they must run."""
    hero = view.hero
    reason = UNSUPPORTED.get(hero.opcode) or LEFT_OVER.get(hero.opcode)
    if reason is not None:
        raise Unsupported(f"{hero.opcode} '{hero.name}' cannot be compiled: {reason}", hero.span)
    schedules = plan_kernels(plan_context(context), view)
    if schedules is None:
        return HERO_EMITTERS[hero.opcode](context, view)
    return [emit_schedule(context, view, schedule) for schedule in schedules]
