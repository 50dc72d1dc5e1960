"""FunctionWriter: writes the instructions of one computation of the module that is made."""

from __future__ import annotations

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape
from xjit.linalg_ext.evaluation.values import dtype_of
from xjit.linalg_ext.ir.types import Type, element_type
from xjit.passes.expand.writing import Writer

__all__ = ["FunctionWriter", "primitive_type"]


def primitive_type(t: Type) -> PrimitiveType:
    """Returns the type of the elements in HLO: index is s64, i1 is pred. LinalgError for types that it has not."""
    return PrimitiveType.from_dtype(dtype_of(element_type(t)))


class FunctionWriter(Writer):
    """A writer of a new computation of `module`; there is no instruction that it expands."""

    def __init__(self, module: HloModule, name: str) -> None:
        self.module = module
        self.builder = HloComputation.Builder(name)

    def add(self, instruction: HloInstruction) -> HloInstruction:
        return self.builder.add_instruction(instruction)

    def inner(self, name: str) -> FunctionWriter:
        """Returns a writer of another computation of the module."""
        return FunctionWriter(self.module, name)

    def finish(self, root: HloInstruction) -> HloComputation:
        """Returns the computation, which the module embeds."""
        return self.module.add_embedded_computation(self.builder.build(root))

    def parameter(self, number: int, shape: Shape) -> HloInstruction:
        return self.add(HloInstruction.create_parameter(number, shape))

    def shaped_alike(self, *operands: HloInstruction) -> list[HloInstruction]:
        """Broadcasts scalars to the shape of the arrays among the operands."""
        dimensions = next((x.shape.dimensions for x in operands if x.shape.rank), ())
        return [x if x.shape.rank or not dimensions else self.broadcast(x, dimensions) for x in operands]

    def elementwise(self, opcode: str, *operands: HloInstruction) -> HloInstruction:
        """An opcode on elements; scalars among the operands are the same everywhere."""
        return self.make(opcode, *self.shaped_alike(*operands))

    def comparison(self, direction: str, left: HloInstruction, right: HloInstruction) -> HloInstruction:
        """As `compare`, with a scalar on either side."""
        return self.compare(direction, *self.shaped_alike(left, right))
