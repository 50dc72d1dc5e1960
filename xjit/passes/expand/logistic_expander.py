"""logistic(x) = 1 / (1 + exp(-x))."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class LogisticExpander(OpExpander):
    """Writes logistic by its definition, in the element type of the operand."""

    name = "logistic-expander"
    opcodes = frozenset({"logistic"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction:
        """Returns the quotient."""
        ones = into.full(instruction.shape, 1)
        exponential = into.make("exponential", into.make("negate", instruction.operand(0)))
        return into.like_source("divide", [ones, into.make("add", ones, exponential)])
