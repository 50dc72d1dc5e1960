"""Concatenations of very many operands become trees of concatenations."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConcatenateAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class VariadicOpSplitter(OpExpander):
    """Concatenates `max_parameters` operands at a time, level by level; a last group that is not full waits for the
    next level. So a fusion does not read more buffers than a kernel has parameters.
    """

    name = "variadic-op-splitter"
    opcodes = frozenset({"concatenate"})
    max_parameters: int = 128

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the last concatenation, or None if one is enough."""
        limit = max(2, self.max_parameters)
        if instruction.operand_count <= limit:
            return None
        dimension = instruction.attributes_as(ConcatenateAttributes).dimension
        level = list(instruction.operands)
        while len(level) > limit:
            full = len(level) // limit * limit
            groups = [level[i : i + limit] for i in range(0, full, limit)]
            level = [*(into.add(build.concatenate(group, dimension)) for group in groups), *level[full:]]
        return into.like_source("concatenate", level, instruction.attributes)
