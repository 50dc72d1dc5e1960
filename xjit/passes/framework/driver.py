"""Running a pass with all that is done around it: switches, invariant checkers, the changed-bit check, dumps, times."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloError, HloInstruction, HloModule
from xjit.hlo.compare.fingerprint import module_fingerprint
from xjit.hlo.diagnostics import InvalidArgument, PassError
from xjit.passes.framework.base import NO_THREADS, HloModulePass
from xjit.passes.framework.pass_text import canonical

DumpHook = Callable[[str, str, HloModule], None]
"""Called as (pass name, "before" or "after", module)."""


@dataclass(frozen=True, slots=True)
class PassSwitches:
    """Which passes run: none of `disabled`, and, if `enabled_only` is not empty, only those. Names are dashed."""

    disabled: frozenset[str] = frozenset()
    enabled_only: frozenset[str] = frozenset()

    @staticmethod
    def of(disabled: Iterable[str] = (), enabled_only: Iterable[str] = ()) -> PassSwitches:
        """Returns switches from names in any spelling."""
        return PassSwitches(frozenset(map(canonical, disabled)), frozenset(map(canonical, enabled_only)))

    def are_on(self, item: HloModulePass) -> bool:
        """Whether a pass runs; InvalidArgument if a pass is disabled that is required."""
        if self.disables(item):
            refuse_if_required(item)
            return False
        return not self.enabled_only or not self.enabled_only.isdisjoint(_names_of(item))

    def disables(self, item: HloModulePass) -> bool:
        """Whether a pass, or a whole group of them, is disabled by name."""
        return bool(self.disabled) and not self.disabled.isdisjoint(_names_of(item))


def _names_of(item: HloModulePass) -> frozenset[str]:
    return frozenset(canonical(name) for name in (item.name, *item.aliases))


def refuse_if_required(item: HloModulePass | type[HloModulePass]) -> None:
    """Raises InvalidArgument for a pass that cannot be disabled."""
    if item.is_required:
        raise InvalidArgument(f"pass '{item.name}' cannot be disabled: the compiled program would be wrong without it")


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one run of one pass did."""

    name: str
    changed: bool
    seconds: float


@dataclass(slots=True)
class PassLog:
    """The passes that ran, in order."""

    records: list[PassRecord] = field(default_factory=list[PassRecord])

    def to_text(self) -> str:
        """Returns a table: time, whether the module changed, name."""
        return "\n".join(f"{r.seconds * 1e3:9.2f} ms {'*' if r.changed else ' '} {r.name}" for r in self.records)


class StopReached(Exception):
    """The pass or rewrite that was to be the last has run."""


@dataclass(slots=True)
class StopAt:
    """Ends a run of passes after `passes` of them, or within the last of these after `rewrites` replacements.

    It counts: `ran` are the names of the passes that were begun, `rewritten` the replacements of the last, as (old
    instruction, new instruction) in text. What is left is the module as it was then.
    """

    passes: int
    rewrites: int | None = None
    ran: list[str] = field(default_factory=list[str])
    rewritten: list[tuple[str, str]] = field(default_factory=list["tuple[str, str]"])

    def begin(self, item: HloModulePass, module: HloModule) -> None:
        """Counts a pass that is about to run; StopReached if it is not to run any more."""
        module.on_rewrite = None
        if len(self.ran) == self.passes:
            raise StopReached
        self.ran.append(item.name)
        if len(self.ran) == self.passes:
            if self.rewrites == 0:
                raise StopReached
            module.on_rewrite = self._rewrite

    def _rewrite(self, old: str, new: HloInstruction) -> None:
        self.rewritten.append((old, str(new)))
        if len(self.rewritten) == self.rewrites:
            raise StopReached


@dataclass(slots=True)
class PassDriver:
    """Runs passes. Groups of passes (pipelines, fixed points) hand theirs to the driver that runs them.

    `invariant_checkers` run before the first and after every pass. `check_changed_bit` compares each pass's answer
    with a fingerprint of the module. `stop` ends the run early, after a pass or a rewrite.
    """

    switches: PassSwitches = field(default_factory=PassSwitches)
    invariant_checkers: Sequence[HloModulePass] = ()
    check_changed_bit: bool = False
    dump: DumpHook | None = None
    log: PassLog = field(default_factory=PassLog)
    stop: StopAt | None = None

    def run(
        self, passes: Iterable[HloModulePass], module: HloModule, execution_threads: Collection[str] = NO_THREADS
    ) -> bool:
        """Runs every enabled pass once, in order; True if any changed the module."""
        self.check(self.invariant_checkers, module, "before the first pass")
        changed = False
        try:
            for item in passes:
                changed |= self.run_pass(item, module, execution_threads)
        except StopReached:
            changed = True
        finally:
            module.on_rewrite = None
        return changed

    def run_pass(self, item: HloModulePass, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Runs one pass, or the passes of a group, if it is enabled; True if the module changed."""
        if isinstance(item, PassGroup):
            return not self.switches.disables(item) and item.run_in(self, module, execution_threads)
        if not self.switches.are_on(item):
            return False
        if self.stop is not None:
            self.stop.begin(item, module)
        if self.dump is not None:
            self.dump(item.name, "before", module)
        fingerprint = module_fingerprint(module) if self.check_changed_bit else b""
        start = time.perf_counter()
        try:
            changed = item.run(module, execution_threads)
        except HloError as error:
            error.notes = (*error.notes, f"while running pass {item.name}")
            raise
        self.log.records.append(PassRecord(item.name, changed, time.perf_counter() - start))
        if self.check_changed_bit and (module_fingerprint(module) != fingerprint) != changed:
            outcome = "did not change" if changed else "changed"
            raise PassError(f"pass {item.name} returned {changed}, but the module {outcome}")
        if self.dump is not None:
            self.dump(item.name, "after", module)
        self.check(self.invariant_checkers, module, f"after pass {item.name}")
        return changed

    def check(self, checkers: Sequence[HloModulePass], module: HloModule, moment: str) -> None:
        """Runs invariant checkers; their errors say when, and by whom, the fault was found."""
        for checker in checkers:
            try:
                checker.run(module)
            except HloError as error:
                error.notes = (*error.notes, f"found by {checker.name} {moment}")
                raise


class PassGroup(HloModulePass):
    """A pass that consists of passes. The driver runs them one by one: its switches and checks reach all of them."""

    passes: Sequence[HloModulePass] = ()

    @contextmanager
    def in_fixed_point(self) -> Generator[None]:
        """The contexts of all its passes."""
        with ExitStack() as stack:
            for item in self.passes:
                stack.enter_context(item.in_fixed_point())
            yield

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Runs the passes in a driver of their own."""
        return self.run_in(PassDriver(), module, execution_threads)

    @abstractmethod
    def run_in(self, driver: PassDriver, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Runs the passes in a driver; True if any changed the module."""
