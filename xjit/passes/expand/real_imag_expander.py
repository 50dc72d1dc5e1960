"""Parts of real numbers."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class RealImagExpander(OpExpander):
    """The real part of a real number is itself, its imaginary part 0."""

    name = "real-imag-expander"
    opcodes = frozenset({"real", "imag"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the operand or zeros; None for parts of complex numbers."""
        operand = instruction.operand(0)
        if operand.shape.element_type.is_complex:
            return None
        return operand if instruction.opcode == "real" else into.full(instruction.shape, 0)
