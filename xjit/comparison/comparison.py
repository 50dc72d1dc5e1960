"""A module on several targets, side by side: what they compute, how long they take, and what the machine allows."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from xjit.api import ModuleLike, evaluate, load_module
from xjit.comparison.agreement import OutputAgreement, agreement
from xjit.comparison.ceilings import Ceilings, measure_ceilings
from xjit.comparison.runners import MAKERS, KernelTime, Runner, make_runner
from xjit.comparison.timing import Times, alternate
from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import FailedPrecondition, HloError, InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.runtime.thread_pool import num_threads
from xjit.tools.inputs import make_inputs
from xjit.tools.leaf_comparison import leaves_of

EVALUATOR = "evaluator"
DEFAULT_TARGETS = ("cpu", "cuda", "jax-cpu", "jax-cuda")


def machine_name() -> str:
    """Returns what a report calls this machine."""
    return f"{platform.machine()}, {num_threads()} threads"


@dataclass(frozen=True, slots=True)
class TargetResult:
    """One target that ran. `agreement` is with the reference; of the simulator there are no `times`."""

    target: str
    device: str
    agreement: tuple[OutputAgreement, ...]
    times: Times | None
    kernels: tuple[KernelTime, ...]

    @property
    def ok(self) -> bool:
        """Whether every output is within the tolerance of its type."""
        return all(output.ok for output in self.agreement)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found. `missing` are the targets that did not run, and why.

    `flops` and `bytes_accessed` are those of the module: `HloCostAnalysis` of it as it was given, and the bytes of its
    arguments and results, which must move at least.
    """

    module: str
    reference: str
    flops: float
    bytes_accessed: int
    results: tuple[TargetResult, ...]
    missing: tuple[tuple[str, str], ...]
    ceilings: tuple[Ceilings, ...]
    machine: str = field(default_factory=machine_name)

    @property
    def ok(self) -> bool:
        """Whether all targets that ran agree with the reference."""
        return all(result.ok for result in self.results)

    def result(self, target: str) -> TargetResult:
        """Returns what a target did. Errors: FailedPrecondition says why it did not run; InvalidArgument."""
        for found in self.results:
            if found.target == target:
                return found
        for name, reason in self.missing:
            if name == target:
                raise FailedPrecondition(f"target '{target}' did not run: {reason}")
        raise InvalidArgument(f"target '{target}' was not asked for")

    def ceilings_of(self, device: str) -> Ceilings | None:
        """Returns the ceilings of a device, if they were measured."""
        return next((c for c in self.ceilings if c.device == device), None)

    def share_of_ceiling(self, device: str, flops: float, moved: float, seconds: float) -> float | None:
        """Returns what part of its time work needs at the device's measured rates: 1 where it cannot be faster."""
        ceilings = self.ceilings_of(device)
        if ceilings is None or not seconds:
            return None
        at_best = [amount / rate for amount, rate in ((flops, ceilings.flops_per_second),
                                                      (moved, ceilings.bytes_per_second)) if rate]  # fmt: skip
        return max(at_best, default=0.0) / seconds

    def to_text(self) -> str:
        """Returns tables for a terminal."""
        from xjit.comparison.text_report import to_text

        return to_text(self)

    def to_html(self) -> str:
        """Returns one page with everything in it, plots too."""
        from xjit.comparison.html_report import to_html

        return to_html(self)

    def to_json(self) -> str:
        """Returns all numbers as a JSON object."""
        from xjit.comparison.records import to_json

        return to_json(self)

    def to_csv(self) -> str:
        """Returns a line for each target and each of its kernels."""
        from xjit.comparison.records import to_csv

        return to_csv(self)


def compare(
    module: ModuleLike,
    targets: Sequence[str] = DEFAULT_TARGETS,
    inputs: Sequence[Any] | None = None,
    *,
    reference: str | None = None,
    seed: int = 0,
    seconds: float = 2.0,
    ceilings: bool = True,
    scale: float = 1.0,
) -> Comparison:
    """Runs a module on targets, with the same inputs, and compares values and times.

    `targets` are of "cpu", "cuda", "cuda-sim", "jax-cpu" and "jax-cuda"; what this machine lacks is listed as missing.
    Inputs that are not given are random, of `seed`. The `reference` of all values is the first target that runs, or
    "evaluator", or another of the targets. Targets take turns for about `seconds` in all; ceilings are measured with
    programs that `scale` makes smaller. Errors: InvalidArgument for unknown targets; those of the module.
    """
    _check(targets, reference)
    loaded = load_module(module)
    given = make_inputs(loaded, [], seed) if inputs is None else list(inputs)
    runners, outputs, missing = _start(loaded, given, targets)
    if reference == EVALUATOR:
        expected, name = leaves_of(evaluate(loaded, *given)), EVALUATOR
    else:
        name = next((t for t in ([reference] if reference else list(outputs)) if t in outputs), "")
        if outputs and not name:
            raise FailedPrecondition(
                f"the reference '{reference}' did not run: {dict(missing).get(reference or '', '')}"
            )
        expected = outputs.get(name, [])
    timed = [runner for runner in runners if runner.timed]
    measured = dict(zip((r.target for r in timed), alternate([r.call for r in timed], seconds), strict=True))
    results = tuple(_result(runner, outputs[runner.target], expected, measured) for runner in runners)
    devices = dict.fromkeys(runner.device for runner in timed) if ceilings else {}
    found = tuple(measure_ceilings(d, [r.target for r in timed if r.device == d], scale=scale) for d in devices)
    flops, moved = work_of(loaded)
    return Comparison(loaded.name, name, flops, moved, results, tuple(missing), found)


def _check(targets: Iterable[str], reference: str | None) -> None:
    known = [*MAKERS, EVALUATOR]
    for name in targets:
        if name not in MAKERS:
            raise InvalidArgument(f"unknown target '{name}': expected some of {', '.join(MAKERS)}")
    if reference is not None and reference not in known:
        raise InvalidArgument(f"unknown reference '{reference}': expected one of {', '.join(known)}")


def _start(
    module: HloModule, inputs: Sequence[Any], targets: Iterable[str]
) -> tuple[list[Runner], dict[str, list[Any]], list[tuple[str, str]]]:
    """Compiles the module for every target that is here, and runs it once."""
    runners: list[Runner] = []
    outputs: dict[str, list[Any]] = {}
    missing: list[tuple[str, str]] = []
    for target in dict.fromkeys(targets):
        try:
            runner = make_runner(target, module, inputs)
            outputs[target] = [np.array(leaf) for leaf in runner.outputs()]
            runner.call()  # a second call must work, too: times are of many
            runners.append(runner)
        except HloError as error:
            outputs.pop(target, None)
            missing.append((target, error.message))
    return runners, outputs, missing


def _result(runner: Runner, actual: Sequence[Any], expected: Sequence[Any], measured: dict[str, Times]) -> TargetResult:
    times = measured.get(runner.target)
    kernels = () if times is None else tuple(runner.kernel_times(times.median))
    return TargetResult(runner.target, runner.device, agreement(actual, expected), times, kernels)


def work_of(module: HloModule) -> tuple[float, int]:
    """Returns the operations of a module, and the bytes of its arguments and results."""
    cost = HloCostAnalysis.of(module).computation(module.entry_computation)
    entry = module.entry_computation
    shapes = [*(p.shape for p in entry.parameter_instructions), entry.root_instruction.shape]
    return cost.flops + cost.transcendentals, sum(shape.byte_size for shape in shapes)
