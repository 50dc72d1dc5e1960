"""The values that are alive at a place of a sequence, and which of them costs least to do without for a while."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape, Trait
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.schedule_and_memory.compressed_value import CompactShape, CompressedValue
from xjit.passes.schedule_and_memory.memory_profile import FORWARDS, MemoryProfile, ShapeSize
from xjit.passes.schedule_and_memory.repeated_block import RepeatedBlock

Step = RepeatedBlock | CompressedValue

_Entry = tuple[float, int, HloInstruction]
"""A candidate: what it costs at least per byte saved, its number, the value."""

_LOOKS_PER_FAILURE = 4
"""What a step that turns out to take too much elsewhere counts as, of the looks that a sweep may take."""


@dataclass(frozen=True, slots=True)
class Strategies:
    """What may be done with a value, and what that costs.

    A value is computed again with up to `block_size_limit` instructions (0: never), or waits in the layout that
    `compact_shape` returns (None: never). `factor` bounds the blocks looked at, in live values per search; values below
    `min_bytes` are kept.
    """

    effects: SideEffects
    costs: HloCostAnalysis
    byte_size: ShapeSize
    block_size_limit: int
    compact_shape: CompactShape | None
    factor: int
    min_bytes: int

    def may_repeat(self, profile: MemoryProfile, instruction: HloInstruction) -> bool:
        """Whether an instruction may run twice, its buffers being its own."""
        op = instruction.op
        if op.has(Trait.CONTROL_FLOW) or op.has(Trait.COLLECTIVE) or op.has(Trait.ASYNC) or op.has(Trait.FORWARDS):
            return False
        if (
            instruction.opcode == "custom-call"
            or op.name.startswith("rng")
            or not _owns_its_buffers(profile, instruction)
        ):
            return False
        return not has_control_dependencies(instruction) and not self.effects.of_instruction(instruction)

    def bound(self, profile: MemoryProfile, value: HloInstruction) -> float | None:
        """Returns the least that a byte saved may cost; None for a value that is kept."""
        size = sum(b.byte_size for b in profile.buffers(value))
        if size < max(self.min_bytes, 1) or not _owns_its_buffers(profile, value):
            return None
        costs: list[float] = []
        if self.block_size_limit and self.may_repeat(profile, value):
            costs.append(self.cost(value) / size)
        if self.compact_shape is not None and value.shape.is_array:
            costs.append(self.packing_cost(value.shape) / size)
        return min(costs, default=None)

    def steps(self, profile: MemoryProfile, value: HloInstruction, place: int) -> list[tuple[float, Step]]:
        """Returns what may be done with a value that is not read at a place, with its cost per byte saved there."""
        found: list[tuple[float, Step]] = []
        if self.block_size_limit and self.may_repeat(profile, value):
            for block in self._blocks(profile, value, place):
                saved = block.saved()
                if saved > 0:
                    found.append((sum(map(self.cost, block.instructions)) / saved, block))
        if self.compact_shape is not None:
            compressed = CompressedValue.of(profile, value, place, self.compact_shape, self.byte_size)
            if compressed is not None:
                found.append((self.packing_cost(value.shape) / compressed.saved, compressed))
        return sorted(found, key=lambda entry: entry[0])

    def _blocks(self, profile: MemoryProfile, value: HloInstruction, place: int) -> Iterator[RepeatedBlock]:
        """Yields blocks that compute a value, the next larger by what computes a missing operand."""
        block = RepeatedBlock.of(profile, value, place)
        while block is not None and block.is_legal():
            yield block
            missing = [b.definition for b in block.extended() if self.may_repeat(profile, b.definition)]
            if not missing or len(block.instructions) >= self.block_size_limit:
                return
            block = block.with_instruction(missing[0])

    def cost(self, instruction: HloInstruction) -> float:
        """What one run of an instruction costs: operations and bytes."""
        cost = self.costs.instruction(instruction)
        return cost.flops + cost.transcendentals + cost.bytes_accessed

    def packing_cost(self, shape: Shape) -> float:
        """What two copies cost at least: the bytes that they read and write on one side."""
        return 2.0 * self.byte_size(shape)


def _owns_its_buffers(profile: MemoryProfile, instruction: HloInstruction) -> bool:
    buffers = profile.leaves(instruction)
    return bool(buffers) and instruction.opcode not in FORWARDS and not any(b is None or b.pinned for b in buffers)


class LiveCandidates:
    """The live values of a sweep over a profile that may be done without, by what that costs per byte saved.

    Costs are the least that they can be, or what they were when a value was last looked at: the further a sweep comes,
    the more of what a value is computed from is gone. So few are looked at for each step. A value that saves nothing
    is not looked at again in this sweep. One whose steps take too much elsewhere sleeps until that may be otherwise.
    At most `looks` are taken in all, so that a limit that cannot be kept ends in time.
    """

    def __init__(self, profile: MemoryProfile, strategies: Strategies, looks: int) -> None:
        self.profile = profile
        self.looks = looks
        self._strategies = strategies
        self._live: set[HloInstruction] = set()
        self._entered = 0
        self._queue: list[_Entry] = []  # with what has died since it was put there
        self._asleep: dict[HloInstruction, _Entry] = {}
        self._wake_at: list[tuple[int, int, HloInstruction]] = []  # heap of (bytes that it needs, number, value)
        self._wake_behind: list[tuple[int, int, HloInstruction]] = []  # heap of (behind its next reader, number, value)

    def enter(self, value: HloInstruction) -> None:
        """Takes in a value from its definition on, if it may be done without."""
        bound = self._strategies.bound(self.profile, value)
        if bound is not None:
            self._live.add(value)
            heapq.heappush(self._queue, (bound, self._entered, value))
            self._entered += 1

    def leave(self, value: HloInstruction) -> None:
        """Forgets a value: it is dead, or is done without."""
        self._live.discard(value)
        self._asleep.pop(value, None)

    def relieve(self, place: int, limit: int) -> bool:
        """Takes the step that costs least per byte that it frees at a place; False if there is none.

        No other instruction may go over the limit for it, unless it stays below what the place takes now.
        """
        allowed = max(limit, int(self.profile.totals[place]) - 1)
        self._wake(place, allowed)
        tries = self._strategies.factor * len(self._live)
        later: list[_Entry] = []  # what cannot go at this place
        taken = False
        while self._queue and tries > 0 and self.looks > 0 and not taken:
            known, number, value = heapq.heappop(self._queue)
            if value not in self._live:
                continue
            if self.profile.is_read_at(value, place):
                later.append((known, number, value))
                continue
            steps = self._strategies.steps(self.profile, value, place)
            self.looks -= 1
            tries -= max(len(steps), 1)
            if not steps:
                continue
            if self._queue and steps[0][0] > max(known, self._queue[0][0]):
                heapq.heappush(self._queue, (steps[0][0], number, value))
                continue
            needed = [step.needed() for _, step in steps]
            if min(needed) <= allowed:
                next(step for (_, step), most in zip(steps, needed, strict=True) if most <= allowed).apply()
                self.leave(value)
                taken = True
            else:
                self.looks -= _LOOKS_PER_FAILURE
                self._put_to_sleep((steps[0][0], number, value), place, min(needed))
        if taken:
            later += self._asleep.values()
            self._asleep.clear()
            self._wake_at.clear()
            self._wake_behind.clear()
        for entry in later:
            heapq.heappush(self._queue, entry)
        return taken

    def _put_to_sleep(self, entry: _Entry, place: int, needed: int) -> None:
        """Leaves a value alone until a step is taken, so many bytes are allowed, or its next reader has passed.

        Until then its steps change the same bytes in the same places.
        """
        _, number, value = entry
        self._asleep[value] = entry
        reader = self.profile.readers_behind(value, place)[0]
        heapq.heappush(self._wake_at, (needed, number, value))
        heapq.heappush(self._wake_behind, (self.profile.position(reader) + 1, number, value))

    def _wake(self, place: int, allowed: int) -> None:
        for heap, now in ((self._wake_at, allowed), (self._wake_behind, place)):
            while heap and heap[0][0] <= now:
                entry = self._asleep.pop(heapq.heappop(heap)[2], None)
                if entry is not None:
                    heapq.heappush(self._queue, entry)
