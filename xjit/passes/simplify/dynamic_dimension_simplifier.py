"""Instructions about dynamic sizes that turn out to be about static shapes."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class DynamicDimensionSimplifier(OpExpander):
    """Setting the size of a static dimension, or reshaping to a static shape, needs no sizes."""

    name = "dynamic-dimension-simplifier"
    opcodes = frozenset({"set-dimension-size", "dynamic-reshape"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the static counterpart, or None if a dynamic dimension is involved."""
        operand = instruction.operand(0)
        if not (operand.shape.is_static and instruction.shape.is_static):
            return None
        if instruction.opcode == "dynamic-reshape":
            return into.add(build.make("reshape", operand, shape=instruction.shape))
        return operand
