"""Computing values again, or packing them, where a scheduled module would take too much memory to keep them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.analysis.side_effects import SideEffects
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.compressed_value import CompactShape, untiled
from xjit.passes.schedule_and_memory.live_candidates import LiveCandidates, Strategies
from xjit.passes.schedule_and_memory.memory_profile import FORWARDS, MemoryProfile, ShapeSize
from xjit.passes.simplify.hlo_dce import remove_dead_instructions

MODES = {"recompute": (True, False), "compress": (False, True), "recompute-and-compress": (True, True)}
"""By name: whether values are computed again, whether they are packed."""

_MIN_LOOKS = 50_000
_LOOKS_PER_INSTRUCTION = 16
"""Values looked at in a computation, before it is left as it is: seconds, also where a limit cannot be kept."""


@dataclass
class HloRematerialization(HloModulePass):
    """Recomputes values in front of their next use until every instruction runs within `memory_limit_bytes` (0: none).

    Of the values that an instruction over the limit neither reads nor computes, the one goes whose recomputation costs
    least per byte saved. Together with a value up to `block_size_limit` - 1 of the instructions that it is computed
    from are repeated where their values are gone; `block_rematerialization_factor` bounds how many such blocks are
    looked at for each live value. Values below `min_remat_size` bytes are kept. What an instruction calls is treated
    the same, with what the caller leaves of the limit. No step makes another instruction go over the limit, or up to
    the present peak. With the `mode` "compress" or "recompute-and-compress" a value may also wait in the layout that
    `compact_shape_function` returns, by default its own without tiles. `sizes` are the peaks before and after the last
    run. `size_function` says what an array takes.
    """

    name = "hlo-rematerialization"
    memory_limit_bytes: int = 0
    block_size_limit: int = 1
    block_rematerialization_factor: int = 1
    min_remat_size: int = 0
    mode: str = "recompute"
    size_function: ShapeSize | None = None
    compact_shape_function: CompactShape | None = None

    def __post_init__(self) -> None:
        self.sizes = (0, 0)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rematerializes; True if a value was. InvalidArgument for an unknown mode, or a module without a schedule."""
        if self.mode not in MODES:
            raise InvalidArgument(f"{self.name}: unknown mode '{self.mode}', expected one of {', '.join(MODES)}")
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
        self.effects = analyses.get(SideEffects, module)
        self.threads = threads
        self.peaks: dict[HloComputation, int] = {}
        recompute, compress = MODES[options.mode]
        self._byte_size = options.size_function or physical_byte_size
        self._strategies = Strategies(
            self.effects,
            HloCostAnalysis.of(module),
            self._byte_size,
            options.block_size_limit if recompute else 0,
            (options.compact_shape_function or untiled) if compress else None,
            options.block_rematerialization_factor,
            options.min_remat_size,
        )
        for computation in module.make_nonfusion_computations():
            self.peaks[computation] = int(self._profile(computation).totals.max(initial=0))

    def _profile(self, computation: HloComputation) -> MemoryProfile:
        return MemoryProfile(computation, self.module.schedule.sequence(computation), self.peaks, self._byte_size)

    def reduce(self, computation: HloComputation, limit: int) -> bool:
        """Rematerializes in a computation and in what it calls; True if anything was repeated."""
        changed = False
        profile = self._profile(computation)
        if not self.threads or computation.execution_thread in self.threads:
            looks = max(_MIN_LOOKS, _LOOKS_PER_INSTRUCTION * len(profile.order))
            while (left := _sweep(LiveCandidates(profile, self._strategies, looks), limit)) is not None:
                changed, looks = True, left
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


def _sweep(live: LiveCandidates, limit: int) -> int | None:
    """Goes once through a sequence; returns how many candidates may still be looked at, None if nothing changed."""
    profile, changed, place = live.profile, False, 0
    while place < len(profile.order):
        instruction = profile.order[place]
        if instruction.opcode not in FORWARDS:
            while profile.totals[place] > limit and live.relieve(place, limit):
                changed = True
                if profile.order[place] is not instruction:  # a copy was put in front of it
                    place = profile.position(instruction)
        live.enter(instruction)
        for passed in _ending(profile, instruction, place):
            live.leave(passed)
        place += 1
    return live.looks if changed else None


def _ending(profile: MemoryProfile, instruction: HloInstruction, place: int) -> Iterator[HloInstruction]:
    """Yields what has no reader behind a place: of the instruction's operands, and the instruction itself."""
    leaves = [*profile.leaves(instruction), *(b for o in instruction.operands for b in profile.leaves(o))]
    for definition in dict.fromkeys(b.definition for b in leaves if b is not None):
        if all(profile.last(b) <= place for b in profile.buffers(definition)):
            yield definition
