"""Dynamic slices and updates whose start is one array get a scalar per dimension."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

FIRST_INDEX = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""The number of the operand at which the indices begin."""


@dataclass
class DynamicIndexSplitter(OpExpander):
    """Replaces an index operand of rank 1 by its elements; a slice of a scalar is the scalar, an update the update."""

    name = "dynamic-index-splitter"
    opcodes = frozenset(FIRST_INDEX)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the instruction with scalar indices, or None if it has them."""
        first = FIRST_INDEX[instruction.opcode]
        indices = instruction.operands[first:]
        if not instruction.shape.rank:
            return instruction.operand(first - 1)
        if len(indices) != 1 or indices[0].shape.rank != 1:
            return None
        elements = (into.add(build.slice_(indices[0], [i], [i + 1])) for i in range(instruction.shape.rank))
        scalars = [into.add(build.reshape(element, [])) for element in elements]
        return into.like_source(instruction.opcode, [*instruction.operands[:first], *scalars], instruction.attributes)
