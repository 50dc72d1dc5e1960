"""Computing values again instead of keeping them, where a scheduled module would take too much memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.schedule_and_memory.memory_profile import FORWARDS, MemoryProfile, ShapeSize
from xjit.passes.schedule_and_memory.repeated_block import RepeatedBlock
from xjit.passes.simplify.hlo_dce import remove_dead_instructions


@dataclass
class HloRematerialization(HloModulePass):
    """Recomputes values in front of their next use until every instruction runs within `memory_limit_bytes` (0: none).

    Of the values that an instruction over the limit neither reads nor computes, the one goes whose recomputation costs
    least per byte saved. Together with a value up to `block_size_limit` - 1 of the instructions that it is computed
    from are repeated where their values are gone; `block_rematerialization_factor` bounds how many such blocks are
    looked at for each live value. Values below `min_remat_size` bytes are kept. What an instruction calls is treated
    the same, with what the caller leaves of the limit. No step makes another instruction go over the limit, or up to
    the present peak. `sizes` are the peaks before and after the last run. `size_function` says what an array takes.
    """

    name = "hlo-rematerialization"
    memory_limit_bytes: int = 0
    block_size_limit: int = 1
    block_rematerialization_factor: int = 1
    min_remat_size: int = 0
    size_function: ShapeSize | None = None

    def __post_init__(self) -> None:
        self.sizes = (0, 0)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rematerializes; True if an instruction was repeated. InvalidArgument for a module without a schedule."""
        if self.memory_limit_bytes <= 0:
            return False
        if not module.has_schedule():
            raise InvalidArgument(f"{self.name}: module {module.name} has no schedule")
        work = _Module(module, self, execution_threads)
        entry = module.entry_computation
        before = work.peaks[entry]
        changed = before > self.memory_limit_bytes and work.reduce(entry, self.memory_limit_bytes)
        self.sizes = (before, work.peaks[entry])
        return changed


class _Module:
    """The computations of a module, and their peaks as far as they are known."""

    def __init__(self, module: HloModule, options: HloRematerialization, threads: Collection[str]) -> None:
        self.module = module
        self.options = options
        self.effects = analyses.get(SideEffects, module)
        self.costs = HloCostAnalysis.of(module)
        self.threads = threads
        self.peaks: dict[HloComputation, int] = {}
        for computation in module.make_nonfusion_computations():
            self.peaks[computation] = int(self._profile(computation).totals.max(initial=0))

    def _profile(self, computation: HloComputation) -> MemoryProfile:
        order = self.module.schedule.sequence(computation)
        return MemoryProfile(computation, order, self.peaks, self.options.size_function or physical_byte_size)

    def reduce(self, computation: HloComputation, limit: int) -> bool:
        """Rematerializes in a computation and in what it calls; True if anything was repeated."""
        changed = False
        profile = self._profile(computation)
        if not self.threads or computation.execution_thread in self.threads:
            while self._sweep(profile, limit):
                changed = True
                self._reschedule(profile)
                profile = self._profile(computation)  # what is dead now is gone
        for place, caller in enumerate(profile.order):
            if (inner := profile.inner_peak(caller)) and profile.totals[place] > limit:
                left = limit - (int(profile.totals[place]) - inner)
                for callee in caller.called_computations:
                    changed |= self.peaks[callee] > left and self.reduce(callee, left)
                profile.totals[place] += profile.inner_peak(caller) - inner
        self.peaks[computation] = int(profile.totals.max(initial=0))
        return changed

    def _reschedule(self, profile: MemoryProfile) -> None:
        computation = profile.computation
        remove_dead_instructions(computation, self.effects)
        alive = set(computation.instructions)
        order = [i for i in profile.order if i in alive]
        computation.reorder_instructions(order)
        self.module.schedule.set_sequence(computation, order)

    def _sweep(self, profile: MemoryProfile, limit: int) -> bool:
        """Goes once through a sequence; True if anything was repeated."""
        changed, place = False, 0
        live: dict[HloInstruction, None] = {}
        while place < len(profile.order):
            instruction = profile.order[place]
            if instruction.opcode not in FORWARDS:
                while profile.totals[place] > limit and self._repeat_one(profile, live, place, limit):
                    changed = True
            if self._may_repeat(profile, instruction):
                live[instruction] = None
            for passed in _ending(profile, instruction, place):
                live.pop(passed, None)
            place += 1
        return changed

    def _may_repeat(self, profile: MemoryProfile, instruction: HloInstruction) -> bool:
        """Whether an instruction may run twice, its buffers being its own."""
        op = instruction.op
        if op.has(Trait.CONTROL_FLOW) or op.has(Trait.COLLECTIVE) or op.has(Trait.ASYNC) or op.has(Trait.FORWARDS):
            return False
        if instruction.opcode in FORWARDS or instruction.opcode == "custom-call" or op.name.startswith("rng"):
            return False
        buffers = profile.leaves(instruction)
        if not buffers or any(b is None or b.pinned for b in buffers) or has_control_dependencies(instruction):
            return False
        return not self.effects.of_instruction(instruction)

    def _repeat_one(self, profile: MemoryProfile, live: dict[HloInstruction, None], place: int, limit: int) -> bool:
        """Repeats the value that costs least per byte that it frees at a place; False if there is none."""
        found: list[tuple[float, RepeatedBlock]] = []
        tries = self.options.block_rematerialization_factor * len(live)
        for value in live:
            if sum(b.byte_size for b in profile.buffers(value)) < self.options.min_remat_size:
                continue
            for block in self._blocks(profile, value, place):
                if (saved := block.saved()) > 0 and tries > 0:
                    found.append((sum(map(self._cost, block.instructions)) / saved, block))
                tries -= 1
        found.sort(key=lambda entry: entry[0])
        for _, block in found:
            if block.apply(limit):
                del live[block.value]
                return True
        return False

    def _cost(self, instruction: HloInstruction) -> float:
        cost = self.costs.instruction(instruction)
        return cost.flops + cost.transcendentals + cost.bytes_accessed

    def _blocks(self, profile: MemoryProfile, value: HloInstruction, place: int) -> Iterator[RepeatedBlock]:
        """Yields blocks that compute a value, the next larger by what computes a missing operand."""
        block = RepeatedBlock.of(profile, value, place)
        while block is not None and block.is_legal():
            yield block
            missing = [b.definition for b in block.extended() if self._may_repeat(profile, b.definition)]
            if not missing or len(block.instructions) >= self.options.block_size_limit:
                return
            block = block.with_instruction(missing[0])


def _ending(profile: MemoryProfile, instruction: HloInstruction, place: int) -> Iterator[HloInstruction]:
    """Yields what has no reader behind a place: of the instruction's operands, and the instruction itself."""
    leaves = [*profile.leaves(instruction), *(b for o in instruction.operands for b in profile.leaves(o))]
    for definition in dict.fromkeys(b.definition for b in leaves if b is not None):
        if all(profile.last(b) <= place for b in profile.buffers(definition)):
            yield definition
