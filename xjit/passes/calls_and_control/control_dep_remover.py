"""Removes all control edges."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.passes.framework.base import HloModulePass, has_control_dependencies


@dataclass
class ControlDepRemover(HloModulePass):
    """Drops the control predecessors and successors of every instruction."""

    name = "control-dep-remover"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if there was an edge."""
        changed = False
        for computation in module.computations():
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            for instruction in computation.instructions:
                if has_control_dependencies(instruction):
                    instruction.drop_all_control_deps()
                    changed = True
        return changed
