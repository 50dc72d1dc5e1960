"""Base of passes that rewrite single instructions as several simpler ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, has_opcodes, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table


@dataclass
class OpExpander(HloModulePass):
    """Replaces every instruction of `opcodes` by what `expand` returns; None leaves it as it is.

    With `extra_filter` only those are expanded for which it is true; a derived class may ask for more in
    `instruction_matches_pattern`. Control edges, metadata and shardings go over.
    """

    opcodes = frozenset[str]()
    extra_filter: Callable[[HloInstruction], bool] | None = field(default=None, kw_only=True)

    def instruction_matches_pattern(self, instruction: HloInstruction) -> bool:
        """Whether an instruction of these opcodes is one to expand."""
        return self.extra_filter is None or self.extra_filter(instruction)

    @abstractmethod
    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the replacement, of the same shape."""

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Expands, producers first; True if something changed."""
        computations = selected_computations(module, execution_threads)
        if not any(has_opcodes(computation, self.opcodes) for computation in computations):
            return False
        pattern = m.op("|".join(sorted(self.opcodes))).where(self.instruction_matches_pattern)
        rules = rule_table([Rule(self.name, pattern, lambda match, into: self.expand(match.root, into))])
        changed = False
        for computation in computations:
            changed |= apply_rules(computation, rules)
        return changed
