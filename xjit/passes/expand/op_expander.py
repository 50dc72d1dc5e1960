"""Base of passes that rewrite single instructions as several simpler ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal, Shape
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class OpExpander(HloModulePass):
    """Replaces every instruction of `opcodes` by what `expand` returns; None leaves it as it is."""

    opcodes = frozenset()

    @abstractmethod
    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the replacement, of the same shape."""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Expands, producers first; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode not in self.opcodes:
                    continue
                replacement = self.expand(instruction, Expansion(computation))
                if replacement is not None:
                    _move_control_edges(instruction, replacement)
                    instruction.replace_all_uses_with_different_shape(replacement)
                    computation.force_remove_instruction(instruction)
                    changed = True
        return changed


def _move_control_edges(old: HloInstruction, new: HloInstruction) -> None:
    """What had to wait for the old instruction waits for the new one; users wait for what the old one waited for."""
    for predecessor in list(old.control_predecessors):
        for later in (*old.users, *old.control_successors):
            predecessor.add_control_dependency_to(later)
    for successor in list(old.control_successors):
        if successor is not new:
            new.add_control_dependency_to(successor)


class Expansion:
    """Adds instructions to a computation: `into.make(...)` is `build.make` plus that."""

    def __init__(self, computation: HloComputation) -> None:
        self.computation = computation

    def add(self, instruction: HloInstruction) -> HloInstruction:
        """Adds a free instruction and returns it."""
        return self.computation.add_instruction(instruction)

    def make(self, opcode: str, *operands: HloInstruction, **options: object) -> HloInstruction:
        """Makes and adds an instruction."""
        return self.add(build.make(opcode, *operands, **options))  # type: ignore[arg-type]

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
        """Adds a computation to the module."""
        module = self.computation.parent
        assert module is not None
        return module.add_embedded_computation(computation)

    def sum(self, operand: HloInstruction, dimensions: tuple[int, ...]) -> HloInstruction:
        """The sum over some dimensions."""
        kind = operand.shape.element_type
        reducer = self.embed(build.make_binary_computation("add", kind))
        return self.add(build.make_reduce(operand, self.full(Shape.array(kind), 0), dimensions, reducer))
