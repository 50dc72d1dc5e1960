"""The plans of a view's kernels on a CPU: the opcode of the hero picks the planner, loops are for all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.emitters.coverage import refuse_unsupported
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.columns import plan_reduce
from xjit.emitters.planners.cpu.convolution import plan_convolution_kernels
from xjit.emitters.planners.cpu.custom_calls import plan_custom_call
from xjit.emitters.planners.cpu.dot import plan_dot_kernels
from xjit.emitters.planners.cpu.joint_scores import plan_joint_scores
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.cpu.scatter import plan_scatter, plan_select_and_scatter
from xjit.emitters.planners.cpu.scores import plan_scores
from xjit.emitters.planners.cpu.updates import plan_dynamic_update_slice
from xjit.emitters.planners.cpu.windows import plan_reduce_window
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.emitters.planners.score_product import is_score_product, joint_products

Planner = Callable[[PlanContext, KernelView], Sequence[KernelPlan]]

HERO_PLANNERS: Mapping[str, Planner] = {
    "convolution": plan_convolution_kernels,
    "custom-call": plan_custom_call,
    "dot": plan_dot_kernels,
    "dynamic-update-slice": plan_dynamic_update_slice,
    "reduce": plan_reduce,
    "reduce-window": plan_reduce_window,
    "scatter": plan_scatter,
    "select-and-scatter": plan_select_and_scatter,
}

HAND_WRITTEN: Mapping[str, str] = {
    **dict.fromkeys(
        ("all-gather", "all-to-all", "collective-broadcast", "collective-permute", "ragged-all-to-all"),
        "its data are other devices'",
    ),
    **dict.fromkeys(("partition-id", "replica-id"), "it is a field of the execution's"),
    "cholesky": "it calls a library",
    "fft": "its transforms are functions of their own",
    "rng-bit-generator": "a counter yields several elements",
    "rng-get-and-update-state": "its state is the execution's",
    "sort": "its loops depend on data",
    "topk": "its loops depend on data",
    "triangular-solve": "it calls a library",
}
"""Opcodes without a planner, each a kind of its own, and why."""

EPILOGUE_HEROES = frozenset({"convolution", "dot"})
"""Their planners also see to what is made of the hero; the others plan the hero's results only."""


def plan_kernels(context: PlanContext, view: KernelView) -> Sequence[KernelPlan]:
    """Returns the plans of a view's kernels, in the order in which they must run.

    Errors: Unsupported names an instruction that cannot be compiled.
    """
    if is_score_product(view):
        joint = joint_products(view)
        return plan_scores(context, view) if joint is None else plan_joint_scores(context, view, joint)
    hero = view.hero
    refuse_unsupported(hero)
    if view.roots != (hero,) and hero.opcode not in EPILOGUE_HEROES and not _only_reduces(view):
        return plan_loops(context, view)
    why = HAND_WRITTEN.get(hero.opcode)
    if why is None:
        return HERO_PLANNERS.get(hero.opcode, plan_loops)(context, view)
    if not any(shape.num_elements for shape in view.result_shapes):
        return []
    return [HandWritten(view.instruction.name, hero.opcode, why)]


def _only_reduces(view: KernelView) -> bool:
    """Whether all results are reductions'."""
    return all(root.opcode == "reduce" for root in view.roots)
