"""Removes tuples that are taken apart again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules_to_all, rule_table, takes_sharding


@dataclass
class TupleSimplifier(HloModulePass):
    """get-tuple-element(tuple(a, b), i) = operand i; tuple(t{0}, ..., t{n-1}) = t if that is all of t, in order.

    What ran before or after one that goes runs before what read it, or after what it was.
    """

    name = "tuple-simplifier"
    opcodes = frozenset({"tuple"})
    is_local = True
    exclude_entry_computation: bool = False

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Simplifies every non-fusion computation; True if something changed."""
        computations = self.unsettled(selected_computations(module, execution_threads))
        if self.exclude_entry_computation:
            computations = [c for c in computations if not c.is_entry_computation()]
        return apply_rules_to_all(computations, RULES, accept=takes_sharding)


def _element(match: Match, _into: Expansion) -> HloInstruction:
    return match["tuple"].operand(match.root.attributes_as(at.GetTupleElementAttributes).index)


def _whole(match: Match, _into: Expansion) -> HloInstruction:
    return match.root.operand(0).operand(0)


def _is_whole(instruction: HloInstruction) -> bool:
    """Whether a tuple lists all elements of another one, in order."""
    if not instruction.operand_count or instruction.operand(0).opcode != "get-tuple-element":
        return False
    source = instruction.operand(0).operand(0)
    return source.shape == instruction.shape and all(
        o.opcode == "get-tuple-element"
        and o.operand(0) is source
        and o.attributes_as(at.GetTupleElementAttributes).index == i
        for i, o in enumerate(instruction.operands)
    )


RULES = rule_table((
    Rule("get-tuple-element(tuple(a, b), i) = operand i",
         m.op("get-tuple-element", m.op("tuple", name="tuple")), _element),
    Rule("tuple(t{0}, ..., t{n-1}) = t", m.op("tuple").where(_is_whole), _whole),
))  # fmt: skip
