"""Removes the schedule of a module."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.passes.framework.base import HloModulePass


@dataclass
class HloDescheduler(HloModulePass):
    """Clears the schedule, so that passes may add instructions freely. Nothing else changes."""

    name = "hlo-descheduler"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if there was a schedule."""
        changed = module.has_schedule()
        module.clear_schedule()
        return changed
