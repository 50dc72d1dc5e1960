"""The computation of a fusion in the making: what it takes in is moved into it, or cloned if it stays outside, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction


class FusionBody:
    """Fills an empty computation of a module with instructions of another one, and with the bodies of its fusions.

    `parameters` are those of the computation by the values outside that they stand for: the operands of the fusion.
    """

    def __init__(self, computation: HloComputation) -> None:
        self.computation = computation
        self.parameters: dict[HloInstruction, HloInstruction] = {}
        self._values: dict[HloInstruction, HloInstruction] = {}

    def take(self, unit: HloInstruction, stays: bool) -> HloInstruction:
        """Takes in an instruction, or what a fusion computes; returns what stands for its value inside.

        What it reads is read inside if it was taken in before. What does not stay outside is moved. Of a fusion only
        the call is left then, without a body: whoever asked removes it. Nothing with control edges may be moved.
        """
        values = self._values
        operands = [values[o] if o in values else self.parameter_for(o) for o in unit.operands]
        if unit.opcode == "fusion":
            value = self._inline(unit, operands, stays)
        elif stays:
            value = self.computation.add_instruction(unit.clone_with_new_operands(unit.shape, operands))
        else:
            value = self.computation.take_instruction(unit, operands)
        self._values[unit] = value
        return value

    def parameter_for(self, operand: HloInstruction) -> HloInstruction:
        """Returns the parameter that stands for a value outside; a new one is the last."""
        value = self.parameters.get(operand)
        if value is None:
            number = len(self.parameters)
            parameter = operand.create_parameter(number, operand.shape, f"param_{number}")
            value = self.parameters[operand] = self.computation.add_instruction(parameter)
        return value

    def _inline(self, fusion: HloInstruction, operands: Sequence[HloInstruction], stays: bool) -> HloInstruction:
        body = fusion.fused_instructions_computation
        root = body.root_instruction
        bound = dict(zip(body.parameter_instructions, operands, strict=True))
        if stays:
            return body.clone_instructions(self.computation, bound)[root]
        for instruction in body.make_instruction_post_order():
            if instruction not in bound:
                self.computation.take_instruction(instruction, [bound.get(o, o) for o in instruction.operands])
        return bound.get(root, root)
