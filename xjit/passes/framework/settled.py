"""Fixed points run passes again. A pass that has left a computation as it was would do so again, until that changes.

That holds for passes that say so by `is_local`: what they do to a computation depends on what is in it, and in what it
calls, alone. Between two runs a fixed point keeps which computations they left, and in which version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloModule
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass

Versions = dict[HloComputation, int]


@dataclass(frozen=True, slots=True)
class ComputationVersions:
    """Since which version of the module each computation, with all that it calls, is what it is."""

    versions: Versions

    @classmethod
    def of(cls, module: HloModule) -> ComputationVersions:
        """Looks at all computations, callees first."""
        found: Versions = {}
        whole = module.whole_version
        for computation in module.make_computation_post_order():
            below = [found[callee] for callee in computation.callees()]
            found[computation] = max(whole, computation.version, *below)
        return cls(found)


@dataclass(slots=True)
class SettledComputations:
    """What passes have left as it is, by pass. An instance is of one run of a fixed point."""

    _left: dict[int, Versions] = field(default_factory=dict[int, Versions])

    def run(self, item: HloModulePass, module: HloModule, run: Callable[[], bool]) -> bool:
        """Runs a pass by `run`; tells it which computations it need not look at, and notes what it leaves as it was."""
        start = module.version
        if left := self._left.get(id(item)):
            versions = analyses.get(ComputationVersions, module).versions
            item.settled = {c for c, version in left.items() if versions.get(c) == version}
        try:
            changed = run()
        finally:
            item.settled = frozenset()
        if item.is_local:
            versions = analyses.get(ComputationVersions, module).versions
            seen = {c: version for c, version in versions.items() if version <= start}
            self._left[id(item)] = {c: version for c, version in seen.items() if c not in item.unfinished}
        return changed
