"""stochastic-convert as arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class StochasticConvertDecomposer(OpExpander):
    """Rounds floats to integers away from zero where the random bits are below the fraction, else toward zero."""

    name = "stochastic-convert-decomposer"
    opcodes = frozenset({"stochastic-convert"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the rounded and converted values; None for other types than integers."""
        x, random = instruction.operands
        if not instruction.shape.element_type.is_integer:
            return None
        size = into.make("abs", x)
        whole = into.make("floor", size)
        scale = into.full(x.shape, 2.0**random.shape.element_type.bit_width)
        fraction = into.make("multiply", into.make("subtract", size, whole), scale)
        bits = into.add(build.convert(fraction, random.shape.element_type))
        away = into.add(build.convert(into.add(build.compare("LT", random, bits)), x.shape.element_type))
        rounded = into.make("add", whole, away)
        negative = into.add(build.compare("LT", x, into.full(x.shape, 0)))
        signed = into.add(build.select(negative, into.make("negate", rounded), rounded))
        return into.like_source("convert", [signed])
