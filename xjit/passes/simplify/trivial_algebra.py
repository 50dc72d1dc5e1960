"""Rewrites that need no thought: identities, and pairs of index-only operations that are one.

The equations are exact (no arithmetic is changed). They are rules in `algebra/`, one file per theme.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.rewriting import apply_rules, rule_table
from xjit.passes.simplify.algebra.identities import IDENTITIES
from xjit.passes.simplify.algebra.movement import MOVEMENT

RULES = rule_table(IDENTITIES, MOVEMENT)


@dataclass
class TrivialAlgebra(HloModulePass):
    """Applies RULES until none matches. Layout-sensitive, it keeps copies that change a layout."""

    name = "trivial-algebra"
    is_layout_sensitive: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every non-fusion computation; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, RULES, _is_plain, self._keeps_layout)
        return changed

    def _keeps_layout(self, old: HloInstruction, new: HloInstruction) -> bool:
        return not self.is_layout_sensitive or old.shape.layout == new.shape.layout


def _is_plain(instruction: HloInstruction) -> bool:
    return instruction.shape.is_static and not has_control_dependencies(instruction)
