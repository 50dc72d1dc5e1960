"""The fastest right algorithm of a library call, on any device that runs such calls: what algorithm pickers ask."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.diagnostics import HloError
from xjit.ops.library_calls.targets import CONV_FUSED, call_target, library_config
from xjit.passes.framework.base import PassWarning
from xjit.passes.gpu.algorithm_pickers import Choices, GemmAlgorithmPicker, GpuConvAlgorithmPicker, Measured

Array = np.ndarray[Any, Any]

MAX_RUNS = 10
"""Runs that are timed of one algorithm, after one to warm up."""

STEADY = 1.05
"""A run whose time is within that factor of the shortest before it ends the measurement."""

TOLERANCE = 0.1
"""The relative difference from the first algorithm's result from which one is wrong; of elements below 1, the absolute
one."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What a device has for a call. `forces_relu`: it applies max(., 0) whether that is asked for or not."""

    number: int
    scratch_bytes: int = 0
    tensor_ops_enabled: bool = False
    forces_relu: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of an algorithm: its time, its result, and whether what lies around its buffers was left alone."""

    seconds: float
    result: Array
    red_zones_are_intact: bool = True


class TuningDevice(Protocol):
    """A device that runs library calls for measurement. `lock`: nothing else runs on it while that is held."""

    description: str
    lock: AbstractContextManager[Any]

    def algorithms(self, call: HloInstruction) -> Sequence[Algorithm]:
        """Returns what it has for a call, the library's own choice first."""
        ...

    def free_bytes(self) -> int:
        """Returns how much scratch memory it can give."""
        ...

    def run(self, call: HloInstruction, algorithm: Algorithm, operands: Sequence[Array], with_red_zones: bool) -> Trial:
        """Runs a call once; what it writes over is written over in `operands`. Errors: HloError if it fails."""
        ...


@dataclass
class Autotuner:
    """Measures the algorithms of a call on a device and returns the fastest one, or None.

    `level` is XLA's `autotune_level`: 0 measures nothing; 1 times algorithms on zeros; 2 on random numbers, the same in
    every run; 3 gives them anew where the call writes over them; 4 also rejects algorithms that write beyond their
    buffers, or whose results are not near the first one's. `deterministic` takes the library's choice, untimed.
    `denied` are (target, algorithm) that are known to be wrong.
    """

    device: TuningDevice
    level: int = 4
    deterministic: bool = False
    denied: frozenset[tuple[str, int]] = field(default=frozenset())

    def __call__(self, call: HloInstruction) -> Measured | None:
        """Returns the choice; None if nothing is to be measured, or no algorithm is right."""
        if self.level <= 0:
            return None
        with self.device.lock:
            candidates = self._candidates(call)
            chosen = candidates[0] if self.deterministic and candidates else self._fastest(call, candidates)
        if chosen is None:
            warnings.warn(f"no algorithm of {call.name} runs and is right", PassWarning, stacklevel=2)
            return None
        return Measured(chosen.number, chosen.scratch_bytes, chosen.tensor_ops_enabled)

    def _candidates(self, call: HloInstruction) -> list[Algorithm]:
        target, free = call_target(call), self.device.free_bytes()
        mode = str(library_config(call).get("activation_mode", "none")).lower().removeprefix("k")
        is_linear = target == CONV_FUSED and mode == "none"
        return [
            a
            for a in self.device.algorithms(call)
            if (target, a.number) not in self.denied and a.scratch_bytes <= free and not (is_linear and a.forces_relu)
        ]

    def _fastest(self, call: HloInstruction, candidates: Sequence[Algorithm]) -> Algorithm | None:
        operands, best, reference = self._operands(call), (float("inf"), -1), None
        for position, algorithm in enumerate(candidates):
            try:
                trial = self._timed(call, algorithm, operands)
            except HloError:
                continue  # the library lists what it then refuses
            if self.level >= 4:
                reference = trial.result if reference is None and trial.red_zones_are_intact else reference
                if wrong := _what_is_wrong(trial, reference):
                    message = f"algorithm {algorithm.number} of {call.name} {wrong}"
                    warnings.warn(message, PassWarning, stacklevel=4)
                    continue
            best = min(best, (trial.seconds, position))
        return candidates[best[1]] if best[1] >= 0 else None

    def _timed(self, call: HloInstruction, algorithm: Algorithm, operands: Sequence[Array]) -> Trial:
        """Runs an algorithm until its time is steady; returns the last run with the shortest time."""
        trial, shortest = self._run(call, algorithm, operands), float("inf")
        for _ in range(MAX_RUNS):
            trial = self._run(call, algorithm, operands)
            is_steady = shortest / STEADY <= trial.seconds <= STEADY * shortest
            shortest = min(shortest, trial.seconds)
            if is_steady:
                break
        return Trial(shortest, trial.result, trial.red_zones_are_intact)

    def _run(self, call: HloInstruction, algorithm: Algorithm, operands: Sequence[Array]) -> Trial:
        given = [o.copy() for o in operands] if self.level >= 3 and library_config(call).get("beta") else operands
        return self.device.run(call, algorithm, given, self.level >= 4)

    def _operands(self, call: HloInstruction) -> list[Array]:
        """Returns arrays for the operands: zeros, or small random numbers that depend on shapes alone."""
        shapes = [o.shape for o in call.operands]
        if self.level == 1:
            return [np.zeros(s.dimensions, s.dtype) for s in shapes]
        rng = np.random.default_rng(zlib.crc32(" ".join(map(str, shapes)).encode()))
        return [
            rng.integers(-4, 5, s.dimensions).astype(s.dtype)
            if s.element_type.is_integer
            else rng.uniform(-1, 1, s.dimensions).astype(s.dtype)
            for s in shapes
        ]


def _what_is_wrong(trial: Trial, reference: Array | None) -> str:
    if not trial.red_zones_are_intact or reference is None:
        return "writes beyond its buffers"
    got, wanted = (np.nan_to_num(a.astype(np.complex128)) for a in (trial.result, reference))
    allowed = TOLERANCE * (1 + np.maximum(np.abs(got), np.abs(wanted)))
    return "" if bool(np.all(np.abs(got - wanted) <= allowed)) else "gives another result than the first one"


def tuned_pickers(
    tuner: Autotuner, choices: Choices | None = None
) -> tuple[GpuConvAlgorithmPicker, GemmAlgorithmPicker]:
    """Returns both pickers with one cache, `choices`, which modules that are compiled later may be given, too."""
    known = {} if choices is None else choices
    device = tuner.device.description
    return GpuConvAlgorithmPicker(tuner, known, device), GemmAlgorithmPicker(tuner, known, device)
