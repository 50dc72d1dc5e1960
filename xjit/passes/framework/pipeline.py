"""Running passes: pipelines, fixed points, names, and the checks around each pass."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xjit.hlo import HloError, HloModule
from xjit.hlo.diagnostics import InvalidArgument, PassError
from xjit.passes.analysis.structural import module_fingerprint
from xjit.passes.framework.base import NO_THREADS, HloModulePass

DumpHook = Callable[[str, str, HloModule], None]
"""Called as (pass name, "before" or "after", module)."""

ITERATION_LIMIT = 25
"""Runs of a fixed point before it is an error (XLA's limit)."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one run of one pass did."""

    name: str
    changed: bool
    seconds: float


@dataclass
class HloPassPipeline(HloModulePass):
    """Runs passes in order. Pipelines are passes and nest.

    `invariant_checkers` run before the first and after every pass. `check_changed_bit` compares each pass's answer
    with a
    fingerprint of the module (tests always do). `disabled` skips passes by name; `enabled_only`, if not empty, skips
    all others.
    """

    name: ClassVar[str] = "pipeline"
    passes: Sequence[HloModulePass] = ()
    invariant_checkers: Sequence[HloModulePass] = ()
    check_changed_bit: bool = False
    disabled: Collection[str] = ()
    enabled_only: Collection[str] = ()
    dump: DumpHook | None = None
    records: list[PassRecord] = field(default_factory=list, repr=False)

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Runs every enabled pass once; True if any changed the module."""
        changed = False
        self._check(module, "before the first pass")
        for item in self.passes:
            if self._is_enabled(item):
                changed |= self._run_one(item, module, execution_threads)
        return changed

    def _is_enabled(self, item: HloModulePass) -> bool:
        names = {canonical(n) for n in (item.name, *item.aliases)}
        if isinstance(item, HloPassFix | HloPassPipeline):
            return True  # the passes inside are asked one by one
        if self.enabled_only and not names & {canonical(n) for n in self.enabled_only}:
            return False
        return not names & {canonical(n) for n in self.disabled}

    def _run_one(self, item: HloModulePass, module: HloModule, threads: Collection[str]) -> bool:
        if isinstance(item, HloPassFix):
            return item.run_in(self, module, threads)
        if self.dump is not None:
            self.dump(item.name, "before", module)
        fingerprint = module_fingerprint(module) if self.check_changed_bit else b""
        start = time.perf_counter()
        try:
            changed = item.run(module, threads)
        except HloError as error:
            error.notes = (*error.notes, f"while running pass {item.name}")
            raise
        self.records.append(PassRecord(item.name, changed, time.perf_counter() - start))
        if self.check_changed_bit and (module_fingerprint(module) != fingerprint) != changed:
            raise PassError(
                f"pass {item.name} returned {changed}, but the module {'did not change' if changed else 'changed'}"
            )
        if self.dump is not None:
            self.dump(item.name, "after", module)
        self._check(module, f"after pass {item.name}")
        return changed

    def _check(self, module: HloModule, moment: str) -> None:
        for checker in self.invariant_checkers:
            try:
                checker.run(module)
            except HloError as error:
                error.notes = (*error.notes, f"found by {checker.name} {moment}")
                raise

    def profile(self) -> str:
        """Returns a table of the passes that ran: time, whether they changed something, name."""
        return "\n".join(f"{r.seconds * 1e3:9.2f} ms {'*' if r.changed else ' '} {r.name}" for r in self.records)


@dataclass
class HloPassFix(HloModulePass):
    """Runs a list of passes again and again until none changes the module."""

    name: ClassVar[str] = "fixed-point"
    passes: Sequence[HloModulePass] = ()
    iteration_limit: int = ITERATION_LIMIT

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Runs to the fixed point; PassError naming the passes that still change after the limit."""
        return self.run_in(HloPassPipeline(), module, execution_threads)

    def run_in(self, pipeline: HloPassPipeline, module: HloModule, threads: Collection[str]) -> bool:
        """As `run`, with the checks, records and switches of a pipeline."""
        changed = False
        still: list[str] = []
        enabled = [p for p in self.passes if pipeline._is_enabled(p)]
        quiet = 0  # passes in a row that changed nothing
        for _ in range(self.iteration_limit):
            still = []
            for item in enabled:
                if quiet == len(enabled):
                    return changed
                quiet += 1
                if pipeline._run_one(item, module, threads):
                    still.append(item.name)
                    quiet, changed = 0, True
            if not still:
                return changed
        raise PassError(f"no fixed point after {self.iteration_limit} iterations; still changing: {', '.join(still)}")


def canonical(name: str) -> str:
    """Returns the dashed spelling of a pass name: `hlo_dce` and `hlo-dce` are one."""
    return name.strip().replace("_", "-").lower()


def find_pass(passes: Mapping[str, type[HloModulePass]], name: str) -> type[HloModulePass]:
    """Returns the pass of that name or alias; InvalidArgument with the nearest names if there is none."""
    found = passes.get(name) or passes.get(canonical(name))
    if found is not None:
        return found
    near = difflib.get_close_matches(canonical(name), list(passes), n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(repr(n) for n in near)}?" if near else f"known passes: {', '.join(sorted(passes))}"
    )
    raise InvalidArgument(f"unknown pass '{name}'", None, hint)


def run_named_passes(
    passes: Mapping[str, type[HloModulePass]],
    module: HloModule,
    names: Iterable[str],
    checkers: Sequence[HloModulePass] = (),
) -> bool:
    """Runs passes by name with their default options; True if any changed the module."""
    if isinstance(names, str):
        raise InvalidArgument(f"expected a list of pass names, found the string '{names}'")
    chosen = [find_pass(passes, name)() for name in names]  # all names are looked up before anything runs
    return HloPassPipeline(passes=chosen, invariant_checkers=checkers).run(module)
