"""Base of passes that replace single instructions by calls of computations that do the same."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class CallExpander(OpExpander):
    """Instructions of one thread with the same attributes and the same shapes of operands call one computation."""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Expands, producers first; True if something changed."""
        self._written = dict[Hashable, HloComputation]()
        return super().run_impl(module, execution_threads)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the call, or None for what cannot be written."""
        static = all(i.shape.is_static_array for i in instruction.operands)
        if not static or not self.applies(instruction):
            return None
        arguments = self.arguments(instruction, into)
        shapes = tuple(o.shape.with_layout(None) for o in arguments)
        key = (instruction.attributes, shapes, instruction.shape.with_layout(None), into.computation.execution_thread)
        computation = self._written.get(key)
        if computation is None:
            builder = HloComputation.Builder(instruction.opcode.replace("-", "_"))
            writer = Writer(into, builder)
            parameters = [
                writer.add(HloInstruction.create_parameter(i, o.shape, "operand")) for i, o in enumerate(arguments)
            ]
            computation = into.embed(builder.build(self.write(instruction, writer, parameters)))
            self._written[key] = computation
        shape = computation.root_instruction.shape
        return into.make("call", *arguments, called=[computation], shape=shape)

    def arguments(self, instruction: HloInstruction, into: Expansion) -> Sequence[HloInstruction]:
        """Returns what the call reads: what the instruction reads, unless it needs more, which goes into its place."""
        del into
        return instruction.operands

    def applies(self, instruction: HloInstruction) -> bool:
        """Whether the instruction is one that `write` can write."""
        del instruction
        return True

    @abstractmethod
    def write(
        self, instruction: HloInstruction, writer: Writer, parameters: Sequence[HloInstruction]
    ) -> HloInstruction:
        """Writes what the instruction does to the arguments, which are `parameters`; returns the result."""
