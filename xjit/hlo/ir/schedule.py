"""`HloSchedule`: the order in which the instructions of each non-fusion computation run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import HloVerifyError, InvalidArgument
from xjit.hlo.ir.post_order import needs_of, post_order

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule


class HloSchedule:
    """One sequence per scheduled computation. Operands and control predecessors come before their users."""

    def __init__(self, sequences: Mapping[HloComputation, Sequence[HloInstruction]]) -> None:
        self._sequences = {computation: list(sequence) for computation, sequence in sequences.items()}
        self._complete_at = -1  # the version of the module for which the sequences are known to be complete

    @staticmethod
    def from_instruction_order(module: HloModule) -> HloSchedule:
        """Returns the schedule in which every non-fusion computation runs as its instructions are listed."""
        return HloSchedule({c: c.instructions for c in module.make_nonfusion_computations()})

    def sequence(self, computation: HloComputation) -> list[HloInstruction]:
        """Returns the order of a computation's instructions; InvalidArgument if it is not scheduled."""
        found = self._sequences.get(computation)
        if found is None:
            raise InvalidArgument(f"computation {computation.name} has no schedule")
        return found

    def is_scheduled(self, computation: HloComputation) -> bool:
        """Whether that computation has a sequence."""
        return computation in self._sequences

    def set_sequence(self, computation: HloComputation, sequence: Sequence[HloInstruction]) -> None:
        """Gives a computation another order."""
        self._complete_at = -1
        self._sequences[computation] = list(sequence)

    def remove_computation(self, computation: HloComputation) -> None:
        """Forgets the order of a computation, if there is one."""
        self._sequences.pop(computation, None)

    def update(self, module: HloModule) -> None:
        """Adapts to a changed module: gone instructions leave, new ones go just before their first user.

        The computations list (and print) their instructions in the new order.
        """
        if self._complete_at == module.version:
            return
        for computation in list(self._sequences):
            if computation.parent is not module:
                del self._sequences[computation]
        for computation in self._computations_to_schedule(module):
            order = _updated(computation, self._sequences.get(computation, []))
            self._sequences[computation] = order
            computation.reorder_instructions(order)
        self.note_complete(module)

    def note_complete(self, module: HloModule) -> None:
        """Notes that the sequences hold all instructions of the module as it is now, in a legal order."""
        self._complete_at = module.version

    def _computations_to_schedule(self, module: HloModule) -> list[HloComputation]:
        """Returns the non-fusion computations on the threads that are scheduled; without any, on that of the entry."""
        threads = {c.execution_thread for c in self._sequences} or {module.entry_computation.execution_thread}
        return [c for c in module.make_nonfusion_computations() if c.execution_thread in threads]

    def verify(self, module: HloModule) -> None:
        """Raises HloVerifyError unless every non-fusion computation of its threads has a complete, legal sequence.

        All sequences must be of computations of the module.
        """
        if foreign := next((c for c in self._sequences if c.parent is not module), None):
            raise HloVerifyError(f"schedule: computation {foreign.name} is not in module {module.name}")
        for computation in self._computations_to_schedule(module):
            sequence = self._sequences.get(computation)
            if sequence is None and _is_embedded_only(computation):
                continue
            if sequence is None:
                raise HloVerifyError(f"schedule: computation {computation.name} has no sequence")
            verify_sequence(computation, sequence)


def verify_sequence(computation: HloComputation, sequence: Sequence[HloInstruction]) -> None:
    """Raises HloVerifyError unless `sequence` holds every instruction once, behind everything it needs."""
    position = {instruction: i for i, instruction in enumerate(sequence)}
    if len(position) != len(sequence) or set(position) != set(computation.instructions):
        raise HloVerifyError(
            f"schedule: the sequence of {computation.name} has {len(sequence)} entries for "
            f"{computation.instruction_count} instructions, or entries that are not its instructions"
        )
    for instruction, i in position.items():
        for needed in (*instruction.operands, *instruction.control_predecessors):
            if position[needed] >= i:
                message = f"the schedule runs {instruction.name} before {needed.name}, which it needs"
                raise HloVerifyError(message, instruction.span, f"in computation {computation.name}")


def _is_embedded_only(computation: HloComputation) -> bool:
    return not computation.is_entry_computation() and not any(
        caller.op.has(Trait.CONTROL_FLOW) for caller in computation.caller_instructions()
    )


def _updated(computation: HloComputation, old: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Keeps the old order as far as possible; a new instruction runs just before its first user."""
    kept = [i for i in old if i.parent is computation]
    return post_order([*kept, *computation.make_instruction_post_order()], needs_of)
