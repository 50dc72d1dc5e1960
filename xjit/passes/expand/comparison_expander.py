"""The total order of floats as that of integers."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import CompareAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

_INTEGERS = {8: PrimitiveType.S8, 16: PrimitiveType.S16, 32: PrimitiveType.S32, 64: PrimitiveType.S64}


@dataclass
class ComparisonExpander(OpExpander):
    """Compares floats by TOTALORDER as the signed integers that their bits are, those of negative ones turned over."""

    name = "comparison-expander"
    opcodes = frozenset({"compare"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the comparison of integers; None for other orders and types."""
        a, kind = instruction.attributes_as(CompareAttributes), instruction.operand(0).shape.element_type
        if a.type != "TOTALORDER" or not kind.is_float or kind.bit_width not in _INTEGERS:
            return None
        ordered = [_ordered(into, o, _INTEGERS[kind.bit_width]) for o in instruction.operands]
        return into.like_source("compare", ordered, CompareAttributes(a.direction))


def _ordered(into: Expansion, operand: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    """Integers in the order of floats: -NaN, -inf, .., -0, +0, .., +inf, NaN."""
    shape = operand.shape.with_element_type(kind)
    bits = into.make("bitcast-convert", operand, shape=shape)
    turned = into.make("xor", bits, into.full(shape, 2 ** (kind.bit_width - 1) - 1))
    negative = into.add(build.compare("LT", bits, into.full(shape, 0)))
    return into.add(build.select(negative, turned, bits))
