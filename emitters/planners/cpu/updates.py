"""Writing arrays that are updated in place: what is written first, and dynamic-update-slice itself."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.access_analysis import RuntimeValue
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.planners.cpu.loops import plan_parts, plan_work
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork, PlanContext
from xjit.emitters.schedule.schedule import Schedule
from xjit.hlo.ir.instruction import HloInstruction


def plan_copy(
    context: PlanContext, view: KernelView, source: HloInstruction, result: int, suffix: str = ".base"
) -> Schedule:
    """Plans writing one value of a view's graph to one result buffer."""
    work = LoopWork((source,), view.result_shapes[result], (result,))
    return plan_work(context, view, work, "copy", suffix)


def plan_fill(context: PlanContext, view: KernelView, scalar: HloInstruction, result: int) -> Schedule:
    """Plans writing a scalar to every element of a result buffer."""
    work = LoopWork((scalar,), view.result_shapes[result], (result,), scalar=True)
    return plan_work(context, view, work, "copy", ".base")


def plan_base_copies(context: PlanContext, view: KernelView, bases: Sequence[HloInstruction]) -> list[Schedule]:
    """Plans the copies of bases[i] to result i, except where both are one buffer already."""
    schedules: list[Schedule] = []
    for result, base in enumerate(bases):
        shared = base in view.leaves and (view.leaves.index(base), result) in view.shared
        if not shared and view.result_shapes[result].num_elements:
            schedules.append(plan_copy(context, view, base, result))
    return schedules


def plan_dynamic_update_slice(context: PlanContext, view: KernelView) -> list[Schedule]:
    """Plans a dynamic-update-slice at the root: only the update's elements are written.

    Buffer assignment lets the result share the buffer of the array that is updated. Where it could not, that array is
    written to the result first. The start indices are read once, before the loops.
    """
    schedules = plan_base_copies(context, view, [view.hero.operand(0)])
    update = view.hero.operand(1)
    if not update.shape.num_elements:
        return schedules
    table = VariableTable()
    values: list[RuntimeValue] = []
    starts: list[AffineExpr] = []
    for variable in context.maps.of(view.hero)[1][0].indexing.rt_vars:
        bounds, source = variable.feasible_values, variable.source
        assert isinstance(source, HloInstruction)
        place = tuple(table.simplify(e) for e in variable.map.results)
        starts.append(dim(table.new_variable(bounds.upper - bounds.lower + 1, bounds.lower)))
        values.append(RuntimeValue(source, place, bounds))
    work = LoopWork((update,), update.shape.with_layout(view.hero.shape.layout), (0,), tuple(starts))
    planning = LoopPlanning(context, view, table, work)
    for start, value in zip(starts, values, strict=True):
        planning.bind(start.position, value)
    return [*schedules, planning.schedule("dynamic-update-slice", plan_parts(planning), ".update")]
