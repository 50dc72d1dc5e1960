"""Products whose operands have the type of the result, and products that have the type of their operands."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.ops import build
from xjit.ops.shape_inference.common import higher_precision
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.algebra.kinds import embeds

PRODUCTS = frozenset({"dot", "convolution"})


def operands_type(product: HloInstruction) -> PrimitiveType:
    """Returns the type that the operands alone would give a product."""
    lhs, rhs = (o.shape.element_type for o in product.operands[:2])
    return higher_precision(lhs, rhs)


@dataclass
class OperandUpcaster(OpExpander):
    """Converts the operands of dots and convolutions to the type of the result, where that holds all their values."""

    name = "operand-upcaster"
    opcodes = PRODUCTS

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the product of converted operands; None if both have the type, or it does not hold theirs."""
        wide = instruction.shape.element_type
        kinds = {o.shape.element_type for o in instruction.operands}
        if kinds == {wide} or not all(embeds(kind, wide) for kind in kinds):
            return None
        operands = [_converted(into, o, wide) for o in instruction.operands]
        return into.add(instruction.clone_with_new_operands(instruction.shape, operands))


def _converted(into: Expansion, operand: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    return operand if operand.shape.element_type is kind else into.add(build.convert(operand, kind))


@dataclass
class ResultCaster(OpExpander):
    """Computes dots and convolutions in the type of their operands, and converts the result, which is of another."""

    name = "result-caster"
    opcodes = PRODUCTS

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the converted product; None if its type holds all values of the operands' type."""
        natural = operands_type(instruction)
        if embeds(natural, instruction.shape.element_type):
            return None
        shape = instruction.shape.with_element_type(natural)
        product = into.add(instruction.clone_with_new_operands(shape, instruction.operands))
        return into.like_source("convert", [product])
