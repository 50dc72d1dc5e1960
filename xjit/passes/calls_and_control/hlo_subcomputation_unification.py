"""Equal computations become one."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloModule
from xjit.hlo.compare.structural_key import StructuralKeys
from xjit.passes.framework.base import HloModulePass


@dataclass
class HloSubcomputationUnification(HloModulePass):
    """Makes what calls a computation call the first structurally equal one, layouts included.

    The entry and the computations of fusions stay: a fusion owns its own. Run it before call graphs are flattened.
    """

    name = "hlo-subcomputation-unification"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Unifies, callees first; True if two computations were equal."""
        keys = StructuralKeys()  # equal callees have equal numbers, so one instance may number everything
        first: dict[tuple[int, str], HloComputation] = {}
        replacements: dict[HloComputation, HloComputation] = {}
        for computation in module.make_computation_post_order():
            if computation.is_entry_computation() or computation.is_fusion_computation():
                continue
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            original = first.setdefault((keys.computation(computation), computation.execution_thread), computation)
            if original is not computation:
                replacements[computation] = original
        if replacements:
            module.replace_computations(replacements)
        return bool(replacements)
