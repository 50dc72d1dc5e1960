"""Writes the computation that a call means: parameters like the call's operands, instructions, a root."""

from __future__ import annotations

from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops import build


class Body:
    """A computation under construction. Every method returns an instruction that was added."""

    def __init__(self, call: HloInstruction) -> None:
        self._builder = HloComputation.Builder(f"plain_{call.name}")
        self.parameters = [
            self.add(HloInstruction.create_parameter(i, o.shape, f"p{i}")) for i, o in enumerate(call.operands)
        ]

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds a free instruction."""
        return self._builder.add_instruction(instruction)

    def op(self, opcode: str, *operands: HloInstruction) -> HloInstruction:
        """An instruction without attributes."""
        return self.add(build.make(opcode, *operands))

    def full(self, shape: Shape, value: complex) -> HloInstruction:
        """An array of one value."""
        return self.add(build.constant_like(shape, value))

    def scaled(self, array: HloInstruction, factor: complex) -> HloInstruction:
        """The array times a number; the array itself if that is 1."""
        return array if factor == 1 else self.op("multiply", array, self.full(array.shape, factor))

    def convert(self, array: HloInstruction, kind: PrimitiveType) -> HloInstruction:
        """The array in another element type."""
        return array if array.shape.element_type is kind else self.add(build.convert(array, kind))

    def build(self, result: HloInstruction, shape: Shape) -> HloComputation:
        """The computation that returns `result`, followed by zeros for what else `shape`, a tuple, holds."""
        if shape.is_tuple and not result.shape.is_tuple:
            result = self.add(HloInstruction.create_tuple([result, *(self.full(s, 0) for s in shape.tuple_shapes[1:])]))
        return self._builder.build(result)
