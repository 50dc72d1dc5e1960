"""scatter and select-and-scatter: the loops that fill their results first. The rest depends on data."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.updates import plan_base_copies, plan_fill
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction

_REASON = "where it writes depends on data"


def plan_scatter(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a scatter: copies of its operands to results that do not lie where they do, then the updates."""
    scatter = view.hero
    count = scatter.operand_count // 2
    plans: list[KernelPlan] = [*plan_base_copies(context, view, scatter.operands[:count])]
    updates = scatter.operand(count + 1).shape
    if updates.num_elements and all(limit >= 0 for limit in ScatterDimensions.of(scatter).limits):
        plans.append(HandWritten(view.instruction.name, "scatter", _REASON))
    return plans


def plan_select_and_scatter(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a select-and-scatter: the initial value everywhere, then the windows."""
    operand, source, init = view.hero.operands
    if not operand.shape.num_elements:
        return []
    plans: list[KernelPlan] = [plan_fill(context, view, init, 0)]
    if source.shape.num_elements:
        plans.append(HandWritten(view.instruction.name, "select-and-scatter", _REASON))
    return plans


@dataclass(frozen=True, slots=True)
class ScatterDimensions:
    """The roles of dimensions. `windows[d]` and `batches[d]` are the update dimensions that operand dimension d moves
    with (window element, batching), `components[d]` the position in the index vector; None where there is none.
    `limits[d]` is the last start index at which a window is inside. `index_of[k]` is the update dimension that
    dimension k of the indices moves with.
    """

    windows: tuple[int | None, ...]
    batches: tuple[int | None, ...]
    components: tuple[int | None, ...]
    limits: tuple[int, ...]
    index_of: dict[int, int]
    scatter_dims: tuple[int, ...]

    @staticmethod
    def of(scatter: HloInstruction) -> ScatterDimensions:
        """Reads the attributes of a scatter."""
        s = scatter.attributes_as(at.ScatterAttributes)
        count = scatter.operand_count // 2
        operand, indices, updates = (scatter.operand(i).shape for i in (0, count, count + 1))
        scatter_dims = tuple(d for d in range(updates.rank) if d not in s.update_window_dims)
        rest = [d for d in range(indices.rank) if d != s.index_vector_dim]
        index_of = dict(zip(rest, scatter_dims, strict=True))
        dropped = {*s.inserted_window_dims, *s.input_batching_dims}
        window_dims = iter(s.update_window_dims)
        windows = tuple(None if d in dropped else next(window_dims) for d in range(operand.rank))
        pairs = dict(zip(s.input_batching_dims, s.scatter_indices_batching_dims, strict=True))
        batches = tuple(index_of[pairs[d]] if d in pairs else None for d in range(operand.rank))
        position = {d: i for i, d in enumerate(s.scatter_dims_to_operand_dims)}
        components = tuple(position.get(d) for d in range(operand.rank))
        sizes = [1 if w is None else updates.dimensions[w] for w in windows]
        limits = tuple(n - size for n, size in zip(operand.dimensions, sizes, strict=True))
        return ScatterDimensions(windows, batches, components, limits, index_of, scatter_dims)

    def owners(self) -> list[int]:
        """The update dimensions by which destinations can be split: no index moves them."""
        free = [d for d, c in enumerate(self.components) if c is None]
        found = [self.windows[d] if self.windows[d] is not None else self.batches[d] for d in free]
        return [u for u in found if u is not None]
