"""Comparators that sort the elements of the first operand from the largest to the smallest."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at

_LARGEST = 0x7FFFFFFF


def descending_order(comparator: HloComputation) -> str:
    """Returns "total" for a descending comparator by total order, "partial" for a plain GT, and "" for any other.

    A total order of floats is a comparison of that type, or one of the bits as s32, those of negative numbers flipped.
    """
    root = _always_taken(comparator.root_instruction)
    if root.opcode != "compare":
        return ""
    attributes = root.attributes_as(at.CompareAttributes)
    sides = {"GT": (0, 1), "LT": (1, 0)}.get(attributes.direction)
    if sides is None:
        return ""
    parameters = comparator.parameter_instructions
    expected = [parameters[n] for n in sides]
    if list(root.operands) == expected:
        return "total" if attributes.type == "TOTALORDER" else "partial"
    flipped = all(_is_ordered_bits_of(value, of) for value, of in zip(root.operands, expected, strict=True))
    return "total" if flipped and attributes.type in ("", "SIGNED") else ""


def _always_taken(value: HloInstruction) -> HloInstruction:
    """Returns what a select between a value and another one selects if its predicate is constant true."""
    while value.opcode == "select":
        predicate = value.operand(0)
        while predicate.opcode in ("broadcast", "reshape"):
            predicate = predicate.operand(0)
        if not _is_constant(predicate, True):
            break
        value = value.operand(1)
    return value


def _is_ordered_bits_of(value: HloInstruction, parameter: HloInstruction) -> bool:
    """Whether a value is `b < 0 ? MAX - b : b`, b being the bits of a parameter as f32."""
    if value.opcode != "select" or value.shape.element_type is not PrimitiveType.S32:
        return False
    test, flipped, bits = value.operands
    if test.opcode != "compare" or test.attributes_as(at.CompareAttributes).direction != "LT":
        return False
    if not _is_bits_of(test.operand(0), parameter, PrimitiveType.S32) or not _is_constant(test.operand(1), 0):
        return False
    if flipped.opcode == "bitcast-convert":
        flipped = flipped.operand(0)
    if flipped.opcode != "subtract" or not _is_constant(flipped.operand(0), _LARGEST):
        return False
    negative = flipped.operand(1)
    return _is_bits_of(bits, parameter, PrimitiveType.S32) and (
        _is_bits_of(negative, parameter, PrimitiveType.U32) or _is_bits_of(negative, parameter, PrimitiveType.S32)
    )


def _is_bits_of(value: HloInstruction, parameter: HloInstruction, kind: PrimitiveType) -> bool:
    if value.opcode != "bitcast-convert" or value.shape.element_type is not kind:
        return False
    source = value.operand(0)
    if source.opcode == "convert" and source.operand(0).shape.element_type is PrimitiveType.BF16:
        source = source.operand(0)  # exact, and of the same order
    elif source.shape.element_type is not PrimitiveType.F32:
        return False
    return source is parameter


def _is_constant(value: HloInstruction, expected: int) -> bool:
    if value.opcode == "convert":
        value = value.operand(0)
    if value.opcode != "constant" or not value.shape.is_scalar:
        return False
    return bool(value.attributes_as(at.ConstantAttributes).literal.array[()] == expected)
