"""A block of instructions that is run again, in front of the next reader of its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.schedule_and_memory.memory_profile import FORWARDS, Buffer, MemoryProfile


@dataclass(frozen=True)
class RepeatedBlock:
    """Instructions, in order, that compute the last one's value again in front of position `target`.

    `place` is the position where memory is short: the value is computed before it. `readers` are those behind it, in
    order; the first one is at the target.
    """

    profile: MemoryProfile
    instructions: Sequence[HloInstruction]
    place: int
    readers: Sequence[HloInstruction]

    @staticmethod
    def of(profile: MemoryProfile, value: HloInstruction, place: int) -> RepeatedBlock | None:
        """Returns the block of a value alone; None if what runs at the place reads it, or nothing behind it does."""
        positions = {profile.position[r]: r for b in profile.buffers(value) for r in b.readers}
        later = [positions[p] for p in sorted(positions) if p > place]
        return RepeatedBlock(profile, [value], place, later) if later and place not in positions else None

    def with_instruction(self, instruction: HloInstruction) -> RepeatedBlock:
        """Returns the block that also repeats another instruction."""
        instructions = sorted([*self.instructions, instruction], key=self.profile.position.__getitem__)
        return RepeatedBlock(self.profile, instructions, self.place, self.readers)

    @property
    def value(self) -> HloInstruction:
        """What is computed again."""
        return self.instructions[-1]

    @property
    def target(self) -> int:
        """The position in front of which the value is computed again."""
        return self.profile.position[self.readers[0]]

    def is_legal(self) -> bool:
        """Whether what the block reads still stands there at the target: no loop has overwritten it."""
        position, target = self.profile.position, self.target
        return all(b.overwriter is None or position[b.overwriter] >= target for b in self._read())

    def extended(self) -> list[Buffer]:
        """Returns the buffers that must be kept for longer for the block to read them."""
        return [b for b in self._read() if self.profile.last(b) < self.target]

    def _read(self) -> list[Buffer]:
        inside = set(self.instructions)
        operands = dict.fromkeys(o for i in self.instructions for o in i.operands)
        read = dict.fromkeys(b for o in operands for b in self.profile.leaves(o) if b is not None)
        return [b for b in read if b.definition not in inside]

    def saved(self) -> int:
        """Returns by how many bytes less are live at the place."""
        longer = sum(b.byte_size for b in self.extended() if self.profile.last(b) < self.place)
        return sum(b.byte_size for b in self._moved()) - longer

    def apply(self, limit: int) -> bool:
        """Repeats the block; False, and nothing changes, if that takes too much elsewhere.

        No instruction may go over the limit for it, unless it stays below what the place takes now.
        """
        profile, target = self.profile, self.target
        changes = [(self._kept(b) + 1, -b.byte_size) for b in self._moved()]
        changes += [(profile.last(b) + 1, b.byte_size) for b in self.extended()]
        start = min(first for first, _ in changes)
        old = profile.totals[start:target]
        new = old.copy()
        for first, size in changes:
            new[first - start :] += size
        during = self._during()
        bound = max(limit, int(profile.totals[self.place]) - 1)
        if max(during) > bound or bool(((new > old) & (new > bound)).any()):
            return False
        old[:] = new
        self._repeat(during)
        return True

    def _moved(self) -> list[Buffer]:
        """Returns the value's buffers that are read behind the place."""
        return [b for b in self.profile.buffers(self.value) if self.profile.last(b) > self.place]

    def _kept(self, buffer: Buffer) -> int:
        """Returns the position up to which the first copy of a buffer is read."""
        positions = (self.profile.position[r] for r in buffer.readers)
        return max((p for p in positions if p < self.place), default=self.profile.position[buffer.definition])

    def _during(self) -> list[int]:
        """Returns the bytes live while each repeated instruction runs."""
        profile, reader = self.profile, self.readers[0]
        live = int(profile.totals[self.target]) - profile.own_bytes(reader)
        live += sum(b.byte_size for b in self.extended()) - sum(b.byte_size for b in self._moved())
        sizes: list[int] = []
        for instruction in self.instructions:
            live += profile.own_bytes(instruction)
            sizes.append(live)
        return sizes

    def _repeat(self, during: Sequence[int]) -> None:
        """Writes the clones, and makes the readers read them."""
        profile, moved = self.profile, self._moved()
        clones: dict[HloInstruction, HloInstruction] = {}
        new: dict[int, list[HloInstruction]] = {self.target: []}
        for instruction in self.instructions:
            operands = [self._redirected(o, clones, new[self.target]) for o in instruction.operands]
            clones[instruction] = _clone(instruction, operands)
            new[self.target].append(clones[instruction])
        sizes = {clones[i]: size for i, size in zip(self.instructions, during, strict=True)}
        for reader in self.readers:
            before = new.setdefault(profile.position[reader], [])
            for number, operand in enumerate(reader.operands):
                reader.replace_operand_with(number, self._redirected(operand, clones, before))
        for buffer in moved:
            profile.forget_readers(buffer, self.readers)
        places = [place for place, instructions in new.items() for _ in instructions]
        totals = [sizes.get(i, 0) for instructions in new.values() for i in instructions]
        profile.totals = np.insert(profile.totals, places, totals)
        profile.insert(new)
        for reader in self.readers:
            profile.read(reader)

    def _redirected(
        self, operand: HloInstruction, clones: dict[HloInstruction, HloInstruction], added: list[HloInstruction]
    ) -> HloInstruction:
        """Returns what stands for an operand if the clones are read; what forwards them is written again."""
        profile = self.profile
        computed = {b for i in self.instructions if i in clones for b in profile.buffers(i)}
        chain: dict[HloInstruction, None] = {}
        stack = [operand]
        while stack:
            item = stack.pop()
            if item in clones or item in chain or item.opcode not in FORWARDS:
                continue
            if not computed.isdisjoint(b for b in profile.leaves(item) if b is not None):
                chain[item] = None
                stack.extend(item.operands)
        for item in sorted(chain, key=profile.position.__getitem__):
            operands = [clones.get(o, o) for o in item.operands]
            if item.opcode == "get-tuple-element" and operands[0].opcode == "tuple":
                clones[item] = operands[0].operand(item.attributes_as(at.GetTupleElementAttributes).index)
                continue
            clones[item] = _clone(item, operands)
            added.append(clones[item])
        return clones.get(operand, operand)


def _clone(instruction: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
    """Adds a copy of an instruction that reads other operands. The computations of a fusion are its own."""
    computation = instruction.parent
    assert computation is not None and computation.parent is not None
    called = instruction.called_computations
    if instruction.opcode == "fusion":
        called = [computation.parent.deep_clone_computation(c) for c in called]
    copy = instruction.clone_with_new_operands(instruction.shape, operands, called=called)
    return computation.add_instruction(copy, f"{instruction.name}.remat")
