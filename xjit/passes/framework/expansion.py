"""Writing the instructions that take the place of one: they inherit its annotations, and can be taken back."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloComputation, HloInstruction, Literal, Shape
from xjit.hlo.annotations.metadata import NO_METADATA
from xjit.hlo.attributes import Attributes
from xjit.hlo.edit.replacing import inherit_annotations, replace
from xjit.ops import build


class Expansion:
    """What is made for one instruction, `source`, in its computation: `into.make(...)` is `build.make` plus that.

    Everything that is added gets the source's metadata, place and frontend attributes, and its sharding where the
    shapes agree.
    """

    def __init__(self, source: HloInstruction) -> None:
        computation = source.parent
        assert computation is not None
        self.source = source
        self.computation: HloComputation = computation
        self.made: list[HloInstruction] = []
        self._embedded: list[HloComputation] = []

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds a free instruction and returns it."""
        self.computation.add_instruction(instruction)
        inherit_annotations(instruction, self.source)
        self.made.append(instruction)
        return instruction

    def make(self, opcode: str, *operands: HloInstruction, **options: object) -> HloInstruction:
        """Makes and adds an instruction whose shape is inferred."""
        return self.add(build.make(opcode, *operands, **options))  # type: ignore[arg-type]

    def like_source(
        self, opcode: str, operands: Sequence[HloInstruction], attributes: Attributes | None = None
    ) -> HloInstruction:
        """Makes and adds an instruction of the shape, layout and name of the source."""
        return self.add(HloInstruction.create(opcode, self.source.shape, operands, attributes, name=self.source.name))

    def full(self, shape: Shape, value: float) -> HloInstruction:
        """A constant with every element equal to `value`."""
        scalar = build.make_constant(value, shape.element_type)
        if not shape.rank:
            return self.add(scalar)
        return self.add(build.broadcast_scalar(self.add(scalar), shape))

    def constant(self, literal: Literal) -> HloInstruction:
        """A constant."""
        return self.add(HloInstruction.create_constant(literal))

    def element(self, operand: HloInstruction, index: int) -> HloInstruction:
        """An element of a tuple."""
        return self.add(HloInstruction.create_get_tuple_element(operand, index))

    def tuple_of(self, *operands: HloInstruction) -> HloInstruction:
        """A tuple."""
        return self.add(HloInstruction.create_tuple(operands))

    def embed(self, computation: HloComputation) -> HloComputation:
        """Adds a computation to the module; what has no metadata in it gets the source's."""
        module = self.computation.parent
        assert module is not None
        for instruction in computation.instructions:
            if instruction.metadata == NO_METADATA:
                instruction.metadata, instruction.place = self.source.metadata, instruction.place or self.source.place
        self._embedded.append(computation)
        return module.add_embedded_computation(computation, self.computation)

    def sum(self, operand: HloInstruction, dimensions: tuple[int, ...]) -> HloInstruction:
        """The sum over some dimensions."""
        kind = operand.shape.element_type
        reducer = self.embed(build.make_binary_computation("add", kind))
        return self.add(build.make_reduce(operand, self.full(Shape.array(kind), 0), dimensions, reducer))

    def replace_source(self, new: HloInstruction) -> list[HloInstruction]:
        """Puts `new` in the place of the source, which goes with what only it needed; returns what lost a user."""
        return replace(self.source, new, [i for i in self.made if i.parent is self.computation])

    def discard(self) -> None:
        """Takes back all that was added: the source stays as it is after all."""
        for instruction in reversed(self.made):
            if instruction.parent is self.computation:
                self.computation.force_remove_instruction(instruction)
        for computation in reversed(self._embedded):
            if computation.parent is not None and not computation.caller_instructions():
                computation.parent.remove_embedded_computation(computation)
        self.made, self._embedded = [], []
