"""Base of passes that make convolutions something else."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConvolutionAttributes
from xjit.passes.expand.op_expander import OpExpander


@dataclass
class ConvolutionExpander(OpExpander):
    """Expands convolutions of arrays whose sizes are known, all of whose elements are there."""

    opcodes = frozenset({"convolution"})

    def instruction_matches_pattern(self, instruction: HloInstruction) -> bool:
        """Whether sizes are static and no operand is sparse."""
        arrays = (instruction.shape, *(o.shape for o in instruction.operands))
        if not all(shape.is_static_array for shape in arrays):
            return False
        dense = not instruction.attributes_as(ConvolutionAttributes).sparsity_config
        return dense and super().instruction_matches_pattern(instruction)
