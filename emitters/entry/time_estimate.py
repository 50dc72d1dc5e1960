"""How long a program runs in one thread, roughly: what its kernels cost, times how often loops run them."""

from __future__ import annotations

from xjit.thunks import KernelThunk, Thunk, ThunkProgram, WhileThunk, called_sequences

UNKNOWN_TRIPS = 100.0
NS_PER_STEP = 2.0
"""What a thunk in a loop, or the jump back, costs besides a kernel."""

MOST_RUNS = 1e12


def estimate_ns(program: ThunkProgram) -> float:
    """Returns the estimated time of one call of the program, in nanoseconds."""
    runs: dict[str, float] = {program.entry: 1.0}
    total = 0.0
    for sequence in reversed(list(program.sequences.values())):  # callers first
        times = runs[sequence.name]
        for thunk in sequence:
            if isinstance(thunk, KernelThunk):
                total += times * thunk.cost_ns
            for name in called_sequences(thunk):
                runs[name] = min(runs.get(name, 0.0) + times * _trips(thunk), MOST_RUNS)
                if isinstance(thunk, WhileThunk):
                    total += runs[name] * (len(program.sequences[name]) + 1) * NS_PER_STEP
    return total


def may_run_for_ever(program: ThunkProgram) -> bool:
    """Whether a loop has no known number of rounds, so that an estimate says nothing about the longest call."""
    thunks = (thunk for sequence in program.sequences.values() for thunk in sequence)
    return any(isinstance(thunk, WhileThunk) and thunk.trip_count is None for thunk in thunks)


def _trips(thunk: Thunk) -> float:
    if not isinstance(thunk, WhileThunk):
        return 1.0
    return UNKNOWN_TRIPS if thunk.trip_count is None else float(min(thunk.trip_count, int(MOST_RUNS)))
