"""Optimization barriers, once nothing has to be kept apart any more."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class OptimizationBarrierExpander(OpExpander):
    """Every optimization barrier becomes its operand."""

    name = "optimization-barrier-expander"
    opcodes = frozenset({"opt-barrier"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction:
        """Returns the operand."""
        del into
        return instruction.operand(0)
