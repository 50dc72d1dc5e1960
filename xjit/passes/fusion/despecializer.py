"""Undoes what fits a module to one backend, so that another can run it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.passes.calls_and_control.control_dep_remover import ControlDepRemover
from xjit.passes.float_types.float_normalization import BFloat16MixedPrecisionRemoval
from xjit.passes.framework.base import HloModulePass
from xjit.passes.fusion.defuser import Defuser
from xjit.passes.schedule_and_memory.hlo_descheduler import HloDescheduler


@dataclass
class Despecializer(HloModulePass):
    """Drops the schedule and all control edges, takes fusions apart and removes mixed precision.

    Edges that order side effects go, too: the result is for reference runs. `extra_passes` run last.
    """

    extra_passes: Sequence[HloModulePass] = ()

    name = "despecializer"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if one of the passes changed something."""
        passes = (HloDescheduler(), ControlDepRemover(), Defuser(), BFloat16MixedPrecisionRemoval(), *self.extra_passes)
        changed = False
        for item in passes:
            changed |= item.run(module, execution_threads)
        return changed
