"""Sizes of dimensions as what they are: constants, or the scalars that dynamic dimensions got their size from."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, Literal
from xjit.hlo.attributes import DimensionAttributes
from xjit.passes.analysis.dynamic_dimensions import DynamicDimensionInference
from xjit.passes.framework import analyses
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table


@dataclass
class HloGetDimensionSizeRewriter(HloModulePass):
    """Replaces get-dimension-size by the size, where it is static or can be told from what was set before."""

    name = "hlo-get-dimension-size-rewriter"
    opcodes = frozenset({"get-dimension-size"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites in every computation; True if something changed."""
        computations = selected_computations(module, execution_threads)
        inference = analyses.get(DynamicDimensionInference, module)

        def size(match: Match, into: Expansion) -> HloInstruction | None:
            operand = match.root.operand(0)
            dimension = match.root.attributes_as(DimensionAttributes).dimension
            if not operand.shape.is_dynamic_dimension(dimension):
                return into.constant(Literal.from_array(np.asarray(operand.shape.dimensions[dimension], np.int32)))
            found = inference.get_dynamic_size(operand, (), dimension)
            return None if found is None else found.make(into)

        rules = rule_table([Rule("get-dimension-size(x) = the size", m.op("get-dimension-size"), size)])
        changed = False
        for computation in computations:
            changed |= apply_rules(computation, rules)
        return changed
