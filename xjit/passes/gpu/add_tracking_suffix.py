"""Names that say which instructions were there before fusion."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloModule
from xjit.passes.framework.base import HloModulePass, selected_computations

_KEPT = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "while", "conditional", "call", "fusion"})


@dataclass
class AddTrackingSuffixToInstructionNames(HloModulePass):
    """Writes `.0` behind the names of instructions that compute something, so that clones, `.1`, tell their origin.

    Parameters, constants, tuples and calls keep their names, and so does what is inside of fusions. Each run adds
    one.
    """

    name = "add-tracking-suffix-to-instruction-names"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if there was such an instruction."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.instructions:
                if instruction.opcode not in _KEPT:
                    instruction.set_and_sanitize_name(f"{instruction.name}.0")
                    instruction.uniquify_name()
                    changed = True
        return changed
