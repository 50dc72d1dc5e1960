"""ragged-dot as one dot that contracts the groups, too: what every target can run that has dots."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import (
    CompareAttributes,
    DotAttributes,
    IotaAttributes,
    RaggedDotAttributes,
    Window,
    WindowAttributes,
    WindowDimension,
)
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class RaggedDotRewriter(OpExpander):
    """Copies the left operand once per group, zero outside of the group's rows; groups are contracted like depth.

    Infinities and NaNs of the right operand reach the rows of other groups, as in XLA: `dot-expander` selects behind
    the product instead. Group sizes may be given per batch element. Ragged dots along other dimensions than rows stay.
    """

    name = "ragged-dot-rewriter"
    opcodes = frozenset({"ragged-dot"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the dot; None if the ragged dimension is no free one, or batch dimensions are not the first ones."""
        lhs, rhs, sizes = instruction.operands
        a = instruction.attributes_as(RaggedDotAttributes)
        batch = tuple(range(len(a.lhs_batch_dims)))
        if len(a.lhs_ragged_dims) != 1 or len(a.rhs_group_dims) != 1 or a.lhs_batch_dims != batch:
            return None
        (ragged,), (group,), place = a.lhs_ragged_dims, a.rhs_group_dims, len(batch)
        per_batch = sizes.shape.rank == place + 1
        if ragged in (*a.lhs_batch_dims, *a.lhs_contracting_dims) or not (per_batch or sizes.shape.rank == 1):
            return None
        old = lhs.shape.dimensions
        groups = sizes.shape.dimensions[-1]
        shape = Shape.array(lhs.shape.element_type, (*old[:place], groups, *old[place:]))
        moved = [d + (d >= place) for d in range(lhs.shape.rank)]
        positions = (*batch, place) if per_batch else (place,)
        mask = group_mask(sizes, shape.dimensions, moved[ragged], positions, into)
        copies = into.add(build.broadcast(lhs, shape, moved))
        masked = into.make("select", mask, copies, into.full(shape, 0))
        attributes = DotAttributes(
            batch, (place, *[moved[d] for d in a.lhs_contracting_dims]), a.rhs_batch_dims,
            (group, *a.rhs_contracting_dims), a.operand_precision,
        )  # fmt: skip
        return into.like_source("dot", [masked, rhs], attributes)


def group_mask(
    sizes: HloInstruction, shape: Sequence[int], ragged: int, positions: Sequence[int], into: Expansion
) -> HloInstruction:
    """pred of `shape`: whether an element's place along `ragged` lies in its group.

    The last dimension of `sizes` counts groups, which follow each other; `positions` are its dimensions in `shape`.
    """
    wide = into.add(build.convert(sizes, PrimitiveType.S64))
    add = into.embed(build.make_binary_computation("add", PrimitiveType.S64))
    count = sizes.shape.dimensions[-1]
    single = [WindowDimension()] * (sizes.shape.rank - 1)
    window = Window((*single, WindowDimension(size=count, padding_low=count - 1)))
    zero = into.full(Shape.array(PrimitiveType.S64), 0)
    ends = into.make("reduce-window", wide, zero, attributes=WindowAttributes(window), called=[add])
    starts = into.make("subtract", ends, wide)
    full = Shape.array(PrimitiveType.S64, shape)
    place = into.make("iota", attributes=IotaAttributes(ragged), shape=full)
    bounds = [into.add(build.broadcast(v, full, positions)) for v in (starts, ends)]
    after = into.make("compare", place, bounds[0], attributes=CompareAttributes("GE"))
    before = into.make("compare", place, bounds[1], attributes=CompareAttributes("LT"))
    return into.make("and", after, before)
