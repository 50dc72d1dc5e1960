"""`xjit bench`: modules on xjit and XLA:CPU in turns, and how far each is from what the machine can do at its size.

A module's working set is its arguments and results. What memory allows depends on the cache that this fits in, so the
ceiling of a row is measured with streams of that size, in the same run; that of operations is the best multiplication
of f32 matrices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from xjit.comparison.agreement import agreement
from xjit.comparison.ceilings import Ceilings, measure_ceilings
from xjit.comparison.comparison import machine_name, work_of
from xjit.comparison.runners import Runner, make_runner
from xjit.comparison.timing import Times, alternate
from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import HloError
from xjit.hlo.ir.module import HloModule
from xjit.tools.inputs import make_inputs

OURS, OTHER = "cpu", "jax-cpu"
CEILING_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Side:
    """One compiler's part of a row: seconds of a call and of the compilation."""

    times: Times
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One module. `flops` and `bytes_accessed` are its operations and its working set; `other` is XLA:CPU.

    `reason` says why there is no `other`. `error` is the relative error of the worst output against it.
    """

    name: str
    flops: float
    bytes_accessed: int
    ours: Side
    other: Side | None
    ceilings: Ceilings
    ok: bool
    error: float
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as fast as XLA:CPU a call is, by medians."""
        return self.other.times.median / self.ours.times.median if self.other else None

    @property
    def compile_ratio(self) -> float | None:
        """Our compile time as a part of XLA:CPU's."""
        return self.ours.compile_seconds / self.other.compile_seconds if self.other else None

    @property
    def bytes_per_second(self) -> float:
        """The effective bandwidth: the working set over the median time."""
        return self.bytes_accessed / self.ours.times.median

    @property
    def flops_per_second(self) -> float:
        """Operations over the median time."""
        return self.flops / self.ours.times.median

    @property
    def share_of_ceiling(self) -> float:
        """The time that the work needs at the ceilings over the time it took: 1 where it cannot be faster."""
        ceilings = self.ceilings
        best = max(self.bytes_accessed / ceilings.bytes_per_second, self.flops / ceilings.flops_per_second)
        return best / self.ours.times.median


@dataclass(frozen=True, slots=True)
class Bench:
    """A run: its rows, when it was (seconds since the epoch), and on what."""

    rows: tuple[BenchRow, ...]
    when: float = field(default_factory=time.time)
    machine: str = field(default_factory=machine_name)

    @property
    def ok(self) -> bool:
        """Whether all values agree with XLA:CPU's, where there are any."""
        return all(row.ok for row in self.rows)

    @property
    def mean_ratio(self) -> float | None:
        """The geometric mean of the ratios; None if there are none."""
        return _geometric_mean([row.ratio for row in self.rows if row.ratio])

    @property
    def mean_compile_ratio(self) -> float | None:
        """The geometric mean of the compile times' ratios."""
        return _geometric_mean([row.compile_ratio for row in self.rows if row.compile_ratio])


def bench(
    modules: Sequence[HloModule],
    *,
    seed: int = 0,
    seconds: float = 1.0,
    scale: float = 1.0,
    progress: Callable[[str], None] = lambda name: None,
) -> Bench:
    """Measures modules, each for about `seconds`, with random inputs of `seed`.

    `scale` makes the programs of the ceilings smaller; `progress` is told the module that comes next. Errors: those of
    compiling a module with xjit. What XLA:CPU cannot run, or without jax, has a row of xjit alone.
    """
    ceilings = _CeilingTable(scale)
    rows: list[BenchRow] = []
    for module in modules:
        progress(module.name)
        rows.append(_row(module, ceilings, seed, seconds))
    return Bench(tuple(rows))


def _row(module: HloModule, ceilings: _CeilingTable, seed: int, seconds: float) -> BenchRow:
    flops, moved = work_of(module)
    found = ceilings.at(moved)  # first: this also loads what the first compilation of a process needs
    inputs = make_inputs(module, [], seed)
    runner, compile_seconds = _compiled(OURS, module, inputs)
    runners, reason = [(runner, compile_seconds)], ""
    try:
        runners.append(_compiled(OTHER, module, inputs))
        outputs = [[np.array(leaf) for leaf in r.outputs()] for r, _ in runners]
    except HloError as error:
        runners, reason, outputs = runners[:1], error.message, []
    times = alternate([r.call for r, _ in runners], seconds)
    sides = [Side(t, spent) for t, (_, spent) in zip(times, runners, strict=True)]
    agreements = agreement(*outputs) if outputs else ()
    ok, error = all(a.ok for a in agreements), max((a.error for a in agreements), default=0.0)
    other = sides[1] if len(sides) > 1 else None
    return BenchRow(module.name, flops, moved, sides[0], other, found, ok, error, reason)


def _compiled(target: str, module: HloModule, inputs: Sequence[Any]) -> tuple[Runner, float]:
    start = time.perf_counter()
    runner = make_runner(target, module, inputs)
    return runner, time.perf_counter() - start


class _CeilingTable:
    """Ceilings by size, each measured once: sizes are rounded to a power of two."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._found: dict[int, Ceilings] = {}

    def at(self, num_bytes: int) -> Ceilings:
        """The ceilings of a working set of that size."""
        power = max(12, round(math.log2(max(num_bytes, 1))))
        if power not in self._found:
            self._found[power] = measure_ceilings(
                "cpu", [OURS, OTHER], CEILING_SECONDS, self._scale, stream_bytes=1 << power
            )
        return self._found[power]


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
