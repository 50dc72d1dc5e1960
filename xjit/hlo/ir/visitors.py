"""Visitors: an object with `handle_<opcode>` methods is shown instructions, operands first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.post_order import needs_of, post_order

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction


class HloVisitor(Protocol):
    """What `accept` needs of a visitor."""

    def visit(self, instruction: HloInstruction) -> None:
        """Handles one instruction; its operands and control predecessors were visited before."""
        ...

    def finish_visit(self, root: HloInstruction) -> None:
        """Is called once, after the last instruction, with the root of the walk."""
        ...


class DfsHloVisitor:
    """Base of visitors: `visit` calls `preprocess`, `handle_<opcode>` (dashes are underscores) and `postprocess`.

    Opcodes without a handler go to `default_action`, which does nothing unless it is overridden.
    """

    def visit(self, instruction: HloInstruction) -> None:
        """Handles one instruction."""
        self.preprocess(instruction)
        handler = getattr(self, "handle_" + instruction.opcode.replace("-", "_"), self.default_action)
        handler(instruction)
        self.postprocess(instruction)

    def default_action(self, instruction: HloInstruction) -> None:
        """Handles the opcodes that have no handler."""

    def preprocess(self, instruction: HloInstruction) -> None:
        """Is called before the handler of every instruction."""

    def postprocess(self, instruction: HloInstruction) -> None:
        """Is called after the handler of every instruction."""

    def finish_visit(self, root: HloInstruction) -> None:
        """Is called once, after the last instruction."""


def accept_computation(computation: HloComputation, visitor: HloVisitor) -> None:
    """Shows all instructions of a computation in post order, dead ones included."""
    for instruction in computation.make_instruction_post_order():
        visitor.visit(instruction)
    visitor.finish_visit(computation.root_instruction)


def accept_ordered(computation: HloComputation, visitor: HloVisitor, order: Sequence[HloInstruction]) -> None:
    """Shows the instructions in the given order.

    Errors: InvalidArgument, before anything is shown, unless `order` has every instruction that the root needs, each
    once and behind what it needs.
    """
    seen: set[HloInstruction] = set()
    for instruction in order:
        if instruction.parent is not computation:
            raise InvalidArgument(f"{instruction.name} is not in computation {computation.name}")
        if instruction in seen:
            raise InvalidArgument(f"the order has {instruction.name} twice")
        for needed in (*instruction.operands, *instruction.control_predecessors):
            if needed not in seen:
                raise InvalidArgument(f"the order has {instruction.name} before {needed.name}, which it needs")
        seen.add(instruction)
    if computation.root_instruction not in seen:
        raise InvalidArgument(f"the order lacks {computation.root_instruction.name}, the root of {computation.name}")
    for instruction in order:
        visitor.visit(instruction)
    visitor.finish_visit(computation.root_instruction)


def accept_instruction(instruction: HloInstruction, visitor: HloVisitor) -> None:
    """Shows everything that an instruction needs (operands, control predecessors), then itself."""
    for needed in post_order([instruction], needs_of):
        visitor.visit(needed)
    visitor.finish_visit(instruction)
