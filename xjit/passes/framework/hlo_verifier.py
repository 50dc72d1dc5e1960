"""The verifier as a pass, to be put between passes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from xjit.hlo import HloModule
from xjit.ops.verifier import verify_module
from xjit.passes.framework.base import NO_THREADS, HloModulePass


@dataclass
class HloVerifier(HloModulePass):
    """Raises HloVerifyError for a module that breaks a rule of the IR; never changes anything."""

    name: ClassVar[str] = "hlo-verifier"
    aliases: ClassVar[tuple[str, ...]] = ("verify",)

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Checks the whole module (and its schedule, if it has one); always False."""
        verify_module(module)
        if module.has_schedule():
            module.schedule.verify(module)
        return False
