"""Instructions about dynamic sizes that turn out to be about static shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction, Literal
from xjit.hlo.attributes import DimensionAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class DynamicDimensionSimplifier(OpExpander):
    """The size of a static dimension is a constant; setting it, or reshaping to a static shape, needs no sizes."""

    name = "dynamic-dimension-simplifier"
    opcodes = frozenset({"get-dimension-size", "set-dimension-size", "dynamic-reshape"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the static counterpart, or None if a dynamic dimension is involved."""
        operand = instruction.operand(0)
        if not (operand.shape.is_static and instruction.shape.is_static):
            return None
        if instruction.opcode == "dynamic-reshape":
            return into.add(build.make("reshape", operand, shape=instruction.shape))
        if instruction.opcode == "set-dimension-size":
            return operand
        dimension = instruction.attributes_as(DimensionAttributes).dimension
        return into.constant(Literal.from_array(np.asarray(operand.shape.dimensions[dimension], np.int32)))
