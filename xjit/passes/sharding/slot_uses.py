"""How often arrays are used: what has another use is passed on later than what has none (Shardy's order)."""

from __future__ import annotations

from collections import Counter

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.sharding_slots import ShardingSlots, Slot

_NAMES = frozenset({"call", "conditional", "get-tuple-element", "tuple", "while"})


class SlotUses:
    """The uses of arrays, other names of them aside; those within a loop and outside of it are counted apart."""

    def __init__(self, slots: ShardingSlots) -> None:
        self._slots = slots
        self._loops: dict[HloComputation, HloComputation] = {}
        self._find_loops()
        self._from_outside = self._find_handed_on()
        self._uses = self._count()

    def _find_loops(self) -> None:
        """Finds the computation of a loop, or the entry, that each computation runs in."""
        for computation in (self._slots.entry, *reversed(self._slots.computations)):  # callers first
            own = self._loops.setdefault(computation, computation)
            for caller in computation.instructions:
                for callee in caller.called_computations if caller.op.has(Trait.CONTROL_FLOW) else ():
                    self._loops.setdefault(callee, callee if caller.opcode == "while" else own)

    def _find_handed_on(self) -> dict[tuple[HloComputation, Slot], HloComputation]:
        """The loop around, for each loop and each array that its body leaves as it is."""
        return {
            (self._loops[loop.while_body], edge.target): self._loop_of(loop)
            for loop, edges in self._slots.edges.items()
            for edge in edges
            if loop.opcode == "while" and edge.is_closed
        }

    def _loop_of(self, instruction: HloInstruction) -> HloComputation:
        assert instruction.parent is not None
        return self._loops[instruction.parent]

    def _count(self) -> Counter[tuple[HloComputation, Slot]]:
        """Counts operands, but of what only names arrays, and what leaves a computation: by an edge, or as a result."""
        uses = Counter[tuple[HloComputation, Slot]]()
        for instruction in self._slots.slots:
            loop = self._loop_of(instruction)
            if instruction.opcode not in _NAMES:
                uses.update((loop, slot) for slot in self._slots.of_all(instruction.operands))
            for edge in self._slots.edges.get(instruction, ()):
                if instruction.opcode == "while":
                    first, last = edge.sources
                    uses[loop, first] += 1
                    uses[self._loops[instruction.while_body], last] += not edge.is_closed
                else:
                    uses.update((loop, source) for source in edge.sources)
        result = self._slots.entry.root_instruction
        if result in self._slots.slots:
            given = self._slots.of_all(result.operands if result.opcode == "tuple" else [result])
            uses.update((self._loop_of(result), slot) for slot in given)
        return uses

    def is_shared(self, instruction: HloInstruction) -> bool:
        """Whether an operand, but for scalars, has another use."""
        loop = self._loop_of(instruction)
        operands = (slot for o in instruction.operands for slot in self._slots[o])
        return any(slot.shape.is_array and slot.shape.rank and self._has_others(loop, slot) for slot in operands)

    def _has_others(self, loop: HloComputation, slot: Slot) -> bool:
        """Whether an array has several uses in a loop, or outside, if it comes from there."""
        while self._uses[loop, slot] <= 1 and (loop, slot) in self._from_outside:
            loop = self._from_outside[loop, slot]
        return self._uses[loop, slot] > 1
