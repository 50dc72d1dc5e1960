"""How long a program runs in one thread, roughly: what its kernels cost, times how often loops run them."""

from __future__ import annotations

from collections.abc import Iterable

from xjit.emitters.unnested import LaunchedKernel
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.passes.loops.while_loop_trip_count_annotator import known_trip_count

UNKNOWN_TRIPS = 100.0
NS_PER_INSTRUCTION = 1.0
"""What an instruction in a loop costs besides its kernel, or without having one."""
MOST_RUNS = 1e12


def estimate_ns(module: HloModule, launched: Iterable[LaunchedKernel]) -> float:
    """Returns the estimated time of one call of the entry computation, in nanoseconds."""
    runs: dict[HloComputation, float] = {module.entry_computation: 1.0}
    for computation in reversed(module.make_computation_post_order()):  # callers first
        for instruction in computation.instructions:
            for called in instruction.called_computations:
                times = runs.get(computation, 0.0) * _trips(instruction)
                runs[called] = min(runs.get(called, 0.0) + times, MOST_RUNS)
    own = [c for c in module.make_nonfusion_computations() if any(i.opcode == "while" for i in c.caller_instructions())]
    total = sum(runs[c] * c.instruction_count * NS_PER_INSTRUCTION for c in own)
    for launch in launched:
        where = launch.instruction.parent
        assert where is not None
        total += runs[where] * launch.kernel.cost_ns
    return total


def _trips(caller: HloInstruction) -> float:
    if caller.opcode != "while":
        return 1.0
    known = known_trip_count(caller)
    return UNKNOWN_TRIPS if known is None else float(min(known, int(MOST_RUNS)))
