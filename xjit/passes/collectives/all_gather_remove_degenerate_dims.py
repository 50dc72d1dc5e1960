"""All-gathers lose dimensions of size 1."""

from __future__ import annotations

from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CollectiveAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class AllGatherRemoveDegenerateDims(OpExpander):
    """Gathers an array without its dimensions of size 1, but for the gathered one, and reshapes the result.

    All-gathers of several arrays stay, and those whose layouts are pinned.
    """

    name = "all-gather-remove-degenerate-dims"
    opcodes = frozenset({"all-gather"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reshaped all-gather, or None if there is nothing to drop."""
        attributes = instruction.attributes_as(CollectiveAttributes)
        shape = instruction.shape
        if instruction.operand_count != 1 or not shape.is_static_array or attributes.constrain_layout:
            return None
        along = attributes.dimensions[0]
        kept = [d for d, n in enumerate(shape.dimensions) if n != 1 or d == along]
        if len(kept) == shape.rank:
            return None
        operand = instruction.operand(0)
        small = into.add(build.reshape(operand, [operand.shape.dimensions[d] for d in kept]))
        result = shape.with_dimensions([shape.dimensions[d] for d in kept])
        moved = replace(attributes, dimensions=(kept.index(along),))
        gathered = into.add(HloInstruction.create("all-gather", result, [small], moved))
        gathered.raw_backend_config = instruction.raw_backend_config
        return into.like_source("reshape", [gathered])
