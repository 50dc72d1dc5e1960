"""An operand of a dot that may be the weights of attention, and its dimensions."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction
from xjit.passes.analysis.attention.places import Space


class WeighedOperand:
    """Operand `side` of a dot, which sums over the dimension `column` of it."""

    def __init__(self, computation: HloComputation, dot: HloInstruction, side: int, column: int) -> None:
        self.computation = computation
        self.dot = dot
        self.side = side
        self.operand = dot.operand(side)
        self.column = column
        self.space = Space(self.operand.shape.dimensions)

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds an instruction to the dot's computation; returns it."""
        return self.computation.add_instruction(instruction)
