"""Times of several functions that take turns, so that what else the machine does falls on all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from xjit.dataclass import dataclass

MIN_BLOCK_SECONDS = 2e-3  # calls that take less are timed several at once
MIN_ROUNDS, MAX_ROUNDS = 3, 200


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per call: the median of all rounds, and the best one."""

    median: float
    best: float
    rounds: int


def alternate(functions: Sequence[Callable[[], object]], seconds: float) -> list[Times]:
    """Times each function, in turns, for about so many seconds in all. Each is called once before that.

    A function returns when its work is done.
    """
    if not functions:
        return []
    blocks = [max(1, round(MIN_BLOCK_SECONDS / max(_warm(function), 1e-7))) for function in functions]
    found: list[list[float]] = [[] for _ in functions]
    start = time.perf_counter()
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.perf_counter() - start > seconds:
            break
        for function, calls, times in zip(functions, blocks, found, strict=True):
            times.append(_seconds(function, calls))
    return [Times(statistics.median(times), min(times), len(times)) for times in found]


def _warm(function: Callable[[], object]) -> float:
    _seconds(function, 1)
    return _seconds(function, 1)


def _seconds(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls
