"""Base of passes that rewrite single instructions as several simpler ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, has_opcodes, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table


@dataclass
class OpExpander(HloModulePass):
    """Replaces every instruction of `opcodes` by what `expand` returns; None leaves it as it is."""

    opcodes = frozenset[str]()

    @abstractmethod
    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the replacement, of the same shape."""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Expands, producers first; True if something changed."""
        computations = selected_computations(module, execution_threads)
        if not any(has_opcodes(computation, self.opcodes) for computation in computations):
            return False
        pattern = m.op("|".join(sorted(self.opcodes)))
        rules = rule_table([Rule(self.name, pattern, lambda match, into: self.expand(match.root, into))])
        changed = False
        for computation in computations:
            changed |= apply_rules(computation, rules)
        return changed
