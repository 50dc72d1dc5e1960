"""Making later readers of values read copies of them, through whatever only forwards these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.schedule_and_memory.memory_profile import FORWARDS, Buffer, MemoryProfile

Insertions = dict[int, list[HloInstruction]]
"""New instructions in front of positions."""


class CloneReading:
    """The clones of values of a profile, by original: grows by what has to forward clones instead of originals."""

    def __init__(self, profile: MemoryProfile) -> None:
        self._profile = profile
        self._clones: dict[HloInstruction, HloInstruction] = {}
        self._computed: set[Buffer] = set()

    def add(self, original: HloInstruction, clone: HloInstruction) -> None:
        """Notes what stands for an instruction from now on."""
        self._clones[original] = clone
        self._computed.update(self._profile.buffers(original))

    def redirect(self, readers: Iterable[HloInstruction], new: Insertions) -> None:
        """Makes readers read the clones; what that needs is added to `new`, in front of each."""
        for reader in readers:
            before = new.setdefault(self._profile.position(reader), [])
            for number, operand in enumerate(reader.operands):
                reader.replace_operand_with(number, self.redirected(operand, before))

    def redirected(self, operand: HloInstruction, added: list[HloInstruction]) -> HloInstruction:
        """Returns what stands for an operand if the clones are read; what forwards them is written again."""
        chain: dict[HloInstruction, None] = {}
        stack = [operand]
        while stack:
            item = stack.pop()
            if item in self._clones or item in chain or item.opcode not in FORWARDS:
                continue
            if not self._computed.isdisjoint(b for b in self._profile.leaves(item) if b is not None):
                chain[item] = None
                stack.extend(item.operands)
        for item in sorted(chain, key=self._profile.position):
            operands = [self._clones.get(o, o) for o in item.operands]
            if item.opcode == "get-tuple-element" and operands[0].opcode == "tuple":
                self._clones[item] = operands[0].operand(item.attributes_as(at.GetTupleElementAttributes).index)
                continue
            self._clones[item] = clone_reading(item, operands)
            added.append(self._clones[item])
        return self._clones.get(operand, operand)


def replace_later_reads(
    profile: MemoryProfile,
    clones: CloneReading,
    moved: Sequence[Buffer],
    readers: Sequence[HloInstruction],
    new: Insertions,
    totals: Mapping[HloInstruction, int],
) -> None:
    """Makes readers, the first of which is behind what is `new`, read clones of the moved buffers; updates the profile.

    `totals` are the live bytes at the new instructions that compute.
    """
    clones.redirect(readers, new)
    for buffer in moved:
        profile.forget_readers(buffer, readers)
    profile.insert(new, totals)
    for reader in readers:
        profile.read(reader)


def clone_reading(instruction: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
    """Adds a copy of an instruction that reads other operands. The computations of a fusion are its own."""
    computation = instruction.parent
    assert computation is not None and computation.parent is not None
    called = instruction.called_computations
    if instruction.opcode == "fusion":
        called = [computation.parent.deep_clone_computation(c) for c in called]
    copy = instruction.clone_with_new_operands(instruction.shape, operands, called=called)
    return computation.add_instruction(copy, f"{instruction.name}.remat")
