"""Groups of passes: pipelines and fixed points. Both are passes, and nest."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.hlo.compare.hashing import module_hash
from xjit.passes.framework.base import HloModulePass, PassWarning
from xjit.passes.framework.driver import PassDriver, PassGroup
from xjit.passes.framework.settled import SettledComputations

ITERATION_LIMIT = 25
"""Rounds of a fixed point before it is left as it is, with a warning (XLA's limit)."""

SETTLING_ROUNDS = 4
"""Rounds before a fixed point looks for graphs that return: it is not worth the hashing while passes still succeed."""

P = TypeVar("P", bound=HloModulePass)


class HloPassPipeline(PassGroup):
    """Runs passes in order, checked by its invariant checkers and by those of the driver it runs in.

    Without a driver around it, `driver` says which passes run and what is checked, dumped and recorded.
    """

    def __init__(
        self, name: str = "pipeline", passes: Iterable[HloModulePass] = (), driver: PassDriver | None = None
    ) -> None:
        self.name = name
        self.passes = list(passes)
        self.invariant_checkers: list[HloModulePass] = []
        self.driver = driver or PassDriver()

    def add_pass(self, item: P | type[P], *arguments: Any, **options: Any) -> P:
        """Appends a pass, or one made of a class and its options; returns it."""
        made = item(*arguments, **options) if isinstance(item, type) else item
        self.passes = [*self.passes, made]
        return made

    def add_invariant_checker(self, item: P | type[P], *arguments: Any, **options: Any) -> P:
        """Appends a pass that runs before the first and after every other pass; returns it."""
        made = item(*arguments, **options) if isinstance(item, type) else item
        self.invariant_checkers.append(made)
        return made

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Runs in the pipeline's own driver."""
        self.driver.check(self.driver.invariant_checkers, module, "before the first pass")
        return self.run_in(self.driver, module, execution_threads)

    def run_in(self, driver: PassDriver, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Runs every enabled pass once; True if any changed the module."""
        driver.check(self.invariant_checkers, module, f"before the first pass of {self.name}")
        if self.invariant_checkers:
            driver = replace(driver, invariant_checkers=(*driver.invariant_checkers, *self.invariant_checkers))
        changed = False
        for item in self.passes:
            changed |= driver.run_pass(item, module, execution_threads)
        return changed


@dataclass
class HloPassFix(PassGroup):
    """Runs a list of passes again and again until none of them changes the module, at most `iteration_limit` times.

    It also ends when a round leaves a graph that an earlier round left: passes undo each other's work. What is not at
    rest then is still a correct module: a PassWarning names the passes that go on changing it.
    """

    name = "fixed-point"
    passes: Sequence[HloModulePass] = ()
    iteration_limit: int = ITERATION_LIMIT

    def run_in(self, driver: PassDriver, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Runs to the fixed point; True if anything changed."""
        with self.in_fixed_point():
            return self._run_rounds(driver, module, execution_threads)

    def _run_rounds(self, driver: PassDriver, module: HloModule, execution_threads: Collection[str]) -> bool:
        active: list[list[str]] = []  # the passes that changed something, by round
        graphs: dict[int, int] = {}  # rounds by the graph that they left
        quiet = 0  # passes in a row that changed nothing
        settled = SettledComputations()
        while len(active) < self.iteration_limit:
            active.append([])
            for item in self.passes:
                if quiet == len(self.passes):
                    return any(active)
                quiet += 1
                changed = settled.run(item, module, partial(driver.run_pass, item, module, execution_threads))
                if changed:
                    active[-1].append(item.name)
                    quiet = 0
            if not active[-1]:
                return any(active)
            if len(active) >= SETTLING_ROUNDS:
                before = graphs.setdefault(module_hash(module), len(active))
                if before != len(active):
                    _warn(
                        f"passes undo each other's work, round {len(active)} left the graph of round {before}",
                        active[before:],
                    )
                    return True
        _warn(f"no fixed point after {self.iteration_limit} rounds; still changing", active[-1:])
        return any(active)


def _warn(message: str, active: Sequence[Sequence[str]]) -> None:
    names = dict.fromkeys(name for names in active for name in names)
    warnings.warn(f"{message}: {', '.join(names)}", PassWarning, stacklevel=3)
