"""Largest and smallest elements of narrow floats as those of integers, which are in the same order."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.ops.build import make_binary_computation
from xjit.ops.reducers import single_operation
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

_KEYED = {
    PrimitiveType.BF16: (PrimitiveType.S16, PrimitiveType.U16, 0x7F80),
    PrimitiveType.F16: (PrimitiveType.S16, PrimitiveType.U16, 0x7C00),
}
"""Narrow floats, integers as wide, and the bits of infinity."""


@dataclass
class ExtremumRewriter(OpExpander):
    """Reduces floats of 16 bits to their extrema as unsigned integers of the same order, with NaNs first.

    As floats they are extended to 32 bits: half as many lanes, and several instructions each. Numbers below the normal
    ones are kept, as XLA:CPU keeps them in large arrays. Reductions of fewer elements than `min_elements` stay: there,
    and in the evaluator, such bf16 numbers count as zeros, as in XLA:CPU's small ones.
    """

    name = "extremum-rewriter"
    opcodes = frozenset({"reduce"})
    min_elements: int = 4096

    def instruction_matches_pattern(self, instruction: HloInstruction) -> bool:
        """Whether it is a reduction of many narrow floats to their extrema."""
        if not instruction.shape.is_static_array or not instruction.operand(0).shape.is_static_array:
            return False
        if instruction.shape.element_type not in _KEYED or not super().instruction_matches_pattern(instruction):
            return False
        many = instruction.operand(0).shape.num_elements >= self.min_elements
        return many and single_operation(instruction.to_apply) in ("maximum", "minimum")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction:
        """Returns the extrema."""
        return _by_keys(Writer(into), instruction, *_KEYED[instruction.shape.element_type])


def _by_keys(
    writer: Writer, reduce: HloInstruction, signed: PrimitiveType, unsigned: PrimitiveType, infinity: int
) -> HloInstruction:
    """Numbers in order, as bits: those of negative ones are turned around, and all are moved such that the NaNs of both
    signs are the largest, or the smallest for minima.
    """
    (array, init), opcode = reduce.operands, reduce.to_apply.root_instruction.opcode
    bits = unsigned.bit_width
    lowest = infinity + 1 if opcode == "minimum" else (1 << bits) - 1 - infinity

    def turned(value: HloInstruction, shape: Shape) -> HloInstruction:
        """Bits of numbers as integers that are in order, and back."""
        sign = writer.make("shift-right-arithmetic", value, writer.into.full(shape, bits - 1), shape=shape)
        mask = writer.make("and", sign, writer.into.full(shape, (1 << bits - 1) - 1), shape=shape)
        return writer.make("xor", value, mask, shape=shape)

    def keys(value: HloInstruction) -> HloInstruction:
        shape = value.shape.with_element_type(signed)
        ordered = turned(writer.make("bitcast-convert", value, shape=shape), shape)
        shape = shape.with_element_type(unsigned)
        ordered = writer.make("bitcast-convert", ordered, shape=shape)
        return writer.make("subtract", ordered, writer.into.full(shape, lowest), shape=shape)

    shape = reduce.shape.with_element_type(unsigned)
    best = _reduce(writer, reduce, keys(array), keys(init), opcode, shape)
    moved = writer.make("add", best, writer.into.full(shape, lowest), shape=shape)
    shape = shape.with_element_type(signed)
    ordered = writer.make("bitcast-convert", moved, shape=shape)
    return writer.into.like_source("bitcast-convert", [turned(ordered, shape)])


def _reduce(
    writer: Writer, old: HloInstruction, array: HloInstruction, init: HloInstruction, opcode: str, shape: Shape
) -> HloInstruction:
    reducer = writer.into.embed(make_binary_computation(opcode, array.shape.element_type))
    return writer.make("reduce", array, init, attributes=old.attributes, called=[reducer], shape=shape)
