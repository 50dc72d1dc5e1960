"""The values that are alive at a place of a sequence, and which of them costs least to do without for a while."""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.schedule_and_memory.compressed_value import CompactShape, CompressedValue
from xjit.passes.schedule_and_memory.memory_profile import FORWARDS, MemoryProfile, ShapeSize
from xjit.passes.schedule_and_memory.repeated_block import RepeatedBlock

Step = RepeatedBlock | CompressedValue


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

    def steps(self, profile: MemoryProfile, value: HloInstruction, place: int) -> Iterator[tuple[float, Step]]:
        """Yields what may be done with a value at a place, with its cost per byte saved; infinite if it saves none."""
        if self.block_size_limit and self.may_repeat(profile, value):
            for block in self._blocks(profile, value, place):
                saved = block.saved()
                yield sum(map(self.cost, block.instructions)) / saved if saved > 0 else math.inf, block
        if self.compact_shape is not None:
            compressed = CompressedValue.of(profile, value, place, self.compact_shape, self.byte_size)
            if compressed is not None:
                yield self.packing_cost(value.shape) / compressed.saved, compressed

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
    """The live values of a sweep over a profile that may be done without, by the least that this can cost per byte.

    At most `looks` steps are looked at in all, so that a limit that cannot be kept ends in time.
    """

    def __init__(self, profile: MemoryProfile, strategies: Strategies, looks: int) -> None:
        self.profile = profile
        self.looks = looks
        self._strategies = strategies
        self._entered = 0
        self._live: set[HloInstruction] = set()
        self._sorted: list[tuple[float, int, HloInstruction]] = []  # with what has died since it was sorted

    def enter(self, value: HloInstruction) -> None:
        """Takes in a value from its definition on, if it may be done without."""
        bound = self._strategies.bound(self.profile, value)
        if bound is not None:
            self._live.add(value)
            insort(self._sorted, (bound, self._entered, value))
            self._entered += 1

    def leave(self, value: HloInstruction) -> None:
        """Forgets a value: it is dead, or is done without."""
        self._live.discard(value)
        if len(self._sorted) > 2 * len(self._live) + 64:
            self._sorted = [entry for entry in self._sorted if entry[2] in self._live]

    def relieve(self, place: int, limit: int) -> bool:
        """Takes the step that costs least per byte that it frees at a place; False if there is none."""
        for step in self._cheapest_first(place):
            if step.apply(limit):
                self.leave(step.value)
                return True
        return False

    def _cheapest_first(self, place: int) -> Iterator[Step]:
        """Yields the steps that free bytes at a place; looks at values no further than it has to."""
        found: list[tuple[float, int, int, Step]] = []
        tries = self._strategies.factor * len(self._live)
        for bound, number, value in self._sorted:
            if value not in self._live:
                continue
            while found and found[0][0] < bound:
                yield heapq.heappop(found)[-1]
            if tries <= 0 or self.looks <= 0:
                break
            self.looks -= 1
            for place_in_value, (cost, step) in enumerate(self._strategies.steps(self.profile, value, place)):
                tries -= 1
                if cost < math.inf:
                    heapq.heappush(found, (cost, number, place_in_value, step))
        while found:
            yield heapq.heappop(found)[-1]
