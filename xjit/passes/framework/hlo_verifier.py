"""The verifier as a pass, for use as an invariant checker."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions
from xjit.passes.framework.base import HloModulePass


@dataclass
class HloVerifier(VerifierOptions, HloModulePass):
    """Raises HloVerifyError for a module that breaks a rule of the IR; never changes anything.

    Its options say which further rules hold, as `VerifierOptions` tells.
    """

    name = "hlo-verifier"
    aliases = ("verify",)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Checks the whole module, with its schedule, if it has one; always False."""
        verify_module(module, self)
        return False
