"""Products of what was widened without the conversion."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloError, HloInstruction
from xjit.ops.shape_inference import infer_shape
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.operand_upcaster import PRODUCTS
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.algebra.kinds import embeds

_MOVES = frozenset({"dynamic-slice", "gather", "reshape", "slice", "transpose"})


@dataclass
class ConvertOperandFolding(OpExpander):
    """Lets dots and convolutions read integers as they were before a conversion to a type that holds them all.

    The conversion may lie behind what only moves elements. The type of the result stays.
    """

    name = "convert-operand-folding"
    opcodes = PRODUCTS

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the product of narrower operands; None if nothing was widened."""
        if not instruction.shape.element_type.is_integer or not any(map(_is_widened, instruction.operands)):
            return None
        operands = [_narrow(into, o) if _is_widened(o) else o for o in instruction.operands]
        product = into.add(instruction.clone_with_new_operands(instruction.shape, operands))
        try:
            infer_shape(product)
        except HloError:  # the types do not go together
            return None
        return product


def _is_widened(value: HloInstruction) -> bool:
    """Whether a value is a conversion from a type whose values its own has, or moves one."""
    while value.opcode in _MOVES:
        value = value.operand(0)
    if value.opcode != "convert" or not value.shape.element_type.is_integer:
        return False
    source = value.operand(0).shape.element_type
    return source.is_integer and embeds(source, value.shape.element_type)


def _narrow(into: Expansion, value: HloInstruction) -> HloInstruction:
    if value.opcode == "convert":
        return value.operand(0)
    source = _narrow(into, value.operand(0))
    shape = value.shape.with_element_type(source.shape.element_type)
    return into.add(value.clone_with_new_operands(shape, [source, *value.operands[1:]]))
