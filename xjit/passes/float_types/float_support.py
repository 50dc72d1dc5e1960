"""What a backend can compute in a narrow floating-point type (`low`) instead of a wide one (`high`)."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.ops.evaluation.reduction import simple_opcode

MOVES_DATA = frozenset({
    "bitcast", "broadcast", "concatenate", "copy", "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "gather",
    "pad", "reshape", "reverse", "select", "slice", "transpose",
})  # fmt: skip
"""Opcodes whose results are elements of their operands, chosen without looking at them."""

HANDS_ON = frozenset({"call", "conditional", "custom-call", "domain", "get-tuple-element", "opt-barrier", "tuple"}) | {
    "convert", "fusion", "while",
}  # fmt: skip
"""Opcodes that have no arithmetic of their own."""

COMMUTES_WITH_ROUNDING = MOVES_DATA | {"abs", "clamp", "maximum", "minimum", "negate"}
"""Opcodes of which the rounded result is the result of rounded operands: they choose elements, or change signs."""

_DATA_OPERANDS = {"dynamic-slice": (0,), "dynamic-update-slice": (0, 1), "gather": (0,), "select": (1, 2)}
_SELECTING_REDUCERS = frozenset({"maximum", "minimum"})


@dataclass(frozen=True)
class FloatSupport:
    """By default data movement is possible in the narrow type, and nothing else."""

    low: PrimitiveType = PrimitiveType.BF16
    high: PrimitiveType = PrimitiveType.F32

    def supports_low_precision_operand(self, instruction: HloInstruction, index: int) -> bool:
        """Whether operand `index` may have the narrow type."""
        del index
        return instruction.opcode in MOVES_DATA or instruction.opcode in HANDS_ON

    def supports_low_precision_output(self, instruction: HloInstruction) -> bool:
        """Whether the result may have the narrow type."""
        return instruction.opcode in MOVES_DATA or instruction.opcode in HANDS_ON

    def supports_mixed_precisions(self, instruction: HloInstruction) -> bool:
        """Whether operands and result may have different types."""
        return instruction.opcode in HANDS_ON

    def effective_operand_precision_is_low_precision(self, instruction: HloInstruction, index: int) -> bool:
        """Whether the instruction rounds operand `index` to the narrow type before it computes."""
        return index == 0 and instruction.opcode == "convert" and instruction.shape.element_type is self.low


@dataclass(frozen=True)
class ExactFloatSupport(FloatSupport):
    """What xjit computes with the same values: what commutes with rounding, and products summed in the wide type."""

    def supports_low_precision_operand(self, instruction: HloInstruction, index: int) -> bool:
        """Whether operand `index` may have the narrow type."""
        is_product = instruction.opcode in ("dot", "convolution")
        return is_product or _commutes(instruction) or super().supports_low_precision_operand(instruction, index)

    def supports_low_precision_output(self, instruction: HloInstruction) -> bool:
        """Whether the result may have the narrow type."""
        return _commutes(instruction) or super().supports_low_precision_output(instruction)

    def supports_mixed_precisions(self, instruction: HloInstruction) -> bool:
        """Whether operands and result may have different types."""
        return instruction.opcode == "dot" or super().supports_mixed_precisions(instruction)


@dataclass(frozen=True)
class UniformFloatSupport(FloatSupport):
    """Everything is possible in the narrow type, but nothing in both types at once."""

    def supports_low_precision_operand(self, instruction: HloInstruction, index: int) -> bool:
        """Whether operand `index` may have the narrow type."""
        del instruction, index
        return True

    def supports_low_precision_output(self, instruction: HloInstruction) -> bool:
        """Whether the result may have the narrow type."""
        del instruction
        return True


def effective_operand_precision_is_output_precision(instruction: HloInstruction, index: int) -> bool:
    """Whether rounding operand `index` to the type of the result leaves the rounded result as it is."""
    if instruction.opcode in ("reduce", "reduce-window"):
        return _commutes(instruction)
    if instruction.opcode not in COMMUTES_WITH_ROUNDING:
        return False
    return index in _DATA_OPERANDS.get(instruction.opcode, (index,))


def _commutes(instruction: HloInstruction) -> bool:
    if instruction.opcode in ("reduce", "reduce-window"):
        reducer = instruction.to_apply
        is_plain = reducer.instruction_count == 3 and simple_opcode(reducer) in _SELECTING_REDUCERS
        return is_plain and instruction.shape.is_array
    return instruction.opcode in COMMUTES_WITH_ROUNDING
