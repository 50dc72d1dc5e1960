"""A block of instructions that is run again, in front of the next reader of its value."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.passes.schedule_and_memory.clone_reading import CloneReading, Insertions, clone_reading, replace_later_reads
from xjit.passes.schedule_and_memory.memory_profile import Buffer, MemoryProfile, Profile


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
        """Returns the block of a value alone; None if nothing behind the place reads it.

        What runs at the place must not read it.
        """
        later = profile.readers_behind(value, place)
        return RepeatedBlock(profile, [value], place, later) if later else None

    def with_instruction(self, instruction: HloInstruction) -> RepeatedBlock:
        """Returns the block that also repeats another instruction."""
        instructions = sorted([*self.instructions, instruction], key=self.profile.position)
        return RepeatedBlock(self.profile, instructions, self.place, self.readers)

    @property
    def value(self) -> HloInstruction:
        """What is computed again."""
        return self.instructions[-1]

    @property
    def target(self) -> int:
        """The position in front of which the value is computed again."""
        return self.profile.position(self.readers[0])

    def is_legal(self) -> bool:
        """Whether what the block reads still stands there at the target: no loop has overwritten it."""
        target = self.target
        return all(b.overwriter is None or self.profile.position(b.overwriter) >= target for b in self._read())

    def extended(self) -> list[Buffer]:
        """Returns the buffers that must be kept for longer for the block to read them."""
        target = self.target
        return [b for b in self._read() if self.profile.last(b) < target]

    def _read(self) -> list[Buffer]:
        inside = set(self.instructions)
        operands = dict.fromkeys(o for i in self.instructions for o in i.operands)
        read = dict.fromkeys(b for o in operands for b in self.profile.leaves(o) if b is not None)
        return [b for b in read if b.definition not in inside]

    def saved(self) -> int:
        """Returns by how many bytes less are live at the place."""
        longer = sum(b.byte_size for b in self.extended() if self.profile.last(b) < self.place)
        return sum(b.byte_size for b in self._moved()) - longer

    def needed(self) -> int:
        """Returns the most that an instruction takes which takes more for it, or is repeated."""
        start, new = self._totals()
        grown = new[new > self.profile.totals[start : self.target]]
        return max(*self._during(), int(grown.max(initial=0)))

    def apply(self) -> None:
        """Repeats the block."""
        start, new = self._totals()
        during = self._during()
        self.profile.totals[start : self.target] = new
        self._repeat(during)

    def _totals(self) -> tuple[int, Profile]:
        """Returns from where on live bytes change, and what they are then up to the target."""
        profile = self.profile
        changes = [(profile.last_before(b, self.place) + 1, -b.byte_size) for b in self._moved()]
        changes += [(profile.last(b) + 1, b.byte_size) for b in self.extended()]
        start = min(first for first, _ in changes)
        new = profile.totals[start : self.target].copy()
        for first, size in changes:
            new[first - start :] += size
        return start, new

    def _moved(self) -> list[Buffer]:
        """Returns the value's buffers that are read behind the place."""
        return [b for b in self.profile.buffers(self.value) if self.profile.last(b) > self.place]

    def _during(self) -> list[int]:
        """Returns the bytes live while each repeated instruction runs."""
        live = self.profile.entering(self.target)
        live += sum(b.byte_size for b in self.extended()) - sum(b.byte_size for b in self._moved())
        sizes: list[int] = []
        for instruction in self.instructions:
            live += self.profile.own_bytes(instruction)
            sizes.append(live)
        return sizes

    def _repeat(self, during: Sequence[int]) -> None:
        """Writes the clones, and makes the readers read them."""
        profile, moved = self.profile, self._moved()
        clones = CloneReading(profile)
        new: Insertions = {self.target: []}
        totals: dict[HloInstruction, int] = {}
        for instruction, size in zip(self.instructions, during, strict=True):
            operands = [clones.redirected(o, new[self.target]) for o in instruction.operands]
            clone = clone_reading(instruction, operands)
            clones.add(instruction, clone)
            new[self.target].append(clone)
            totals[clone] = size
        replace_later_reads(profile, clones, moved, self.readers, new, totals)
