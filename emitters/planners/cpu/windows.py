"""reduce-window: a scan if its window reaches from one end of a dimension to each element, else loops over windows."""

from __future__ import annotations

from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.loops import plan_loop
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.reducers import reduction_identity

MIN_SIZE = 4


def plan_reduce_window(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a reduce-window."""
    if prefix_dimension(view.hero) is None or not view.result_shapes[0].num_elements:
        return [plan_loop(context, view)]
    return [HandWritten(view.instruction.name, "scan", "each element carries to the next")]


def prefix_dimension(instruction: HloInstruction) -> int | None:
    """Returns the dimension along which a reduce-window is a scan, or None.

    From the low end, any reducer and initial value will do: a scan combines in the order of the window. From the high
    end the order is reversed, which an operation that is known, with its identity, allows.
    """
    if instruction.opcode != "reduce-window" or instruction.operand_count != 2 or not instruction.shape.is_array:
        return None
    window = instruction.attributes_as(at.WindowAttributes).window.dimensions
    sizes = instruction.operand(0).shape.dimensions
    found = [d for d, w in enumerate(window) if w != at.WindowDimension()]
    if len(found) != 1 or sizes[found[0]] < MIN_SIZE:
        return None
    n = sizes[found[0]]
    ways = [at.WindowDimension(size=n, padding_low=n - 1), at.WindowDimension(size=n, padding_high=n - 1)]
    if window[found[0]] not in ways:
        return None
    if window[found[0]] == ways[0]:
        return found[0]
    identity = reduction_identity(instruction.to_apply)
    init = instruction.operand(1)
    if identity is None or init.opcode != "constant":
        return None
    value = init.attributes_as(at.ConstantAttributes).literal.splat_value()
    return found[0] if value is not None and value == identity[1] else None  # -0 equals 0
