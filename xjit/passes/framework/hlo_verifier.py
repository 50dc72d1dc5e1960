"""The verifier as a pass, to be put between passes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloModule
from xjit.ops.verifier import verify_module
from xjit.passes.framework.base import HloModulePass


@dataclass
class HloVerifier(HloModulePass):
    """Raises HloVerifyError for a module that breaks a rule of the IR; never changes anything."""

    name = "hlo-verifier"
    aliases = ("verify",)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Checks the whole module (and its schedule, if it has one); always False."""
        verify_module(module)
        if module.has_schedule():
            module.schedule.verify(module)
        return False
