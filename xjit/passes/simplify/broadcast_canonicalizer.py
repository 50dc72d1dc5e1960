"""Broadcasts keep the order of dimensions; a transpose in front changes it."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DimensionsAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class BroadcastCanonicalizer(OpExpander):
    """Transposes what a broadcast would permute, so that its dimensions are in order."""

    name = "broadcast-canonicalizer"
    opcodes = frozenset({"broadcast"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the broadcast of a transpose; None if the dimensions are in order."""
        dimensions = instruction.attributes_as(DimensionsAttributes).dimensions
        in_order = tuple(sorted(dimensions))
        if dimensions == in_order or not instruction.operand(0).shape.is_static_array:
            return None
        order = [dimensions.index(d) for d in in_order]
        moved = into.add(build.transpose(instruction.operand(0), order))
        return into.like_source("broadcast", [moved], DimensionsAttributes(in_order))
