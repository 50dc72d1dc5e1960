"""Instructions about dynamic sizes that turn out to be about static shapes."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule
from xjit.ops import build
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table
from xjit.passes.simplify.algebra.table import ALGEBRA


@dataclass
class DynamicDimensionSimplifier(HloModulePass):
    """Setting the size of a static dimension, or reshaping to a static shape, needs no sizes.

    Sizes are computed as integers and vectors of them: a size that was put into a vector and taken out again is taken
    from where it was.
    """

    name = "dynamic-dimension-simplifier"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, _RULES, _may_hold_sizes)
        return changed


def _may_hold_sizes(instruction: HloInstruction) -> bool:
    if instruction.opcode in _ABOUT_SIZES:
        return True
    shape = instruction.shape
    return shape.is_static_array and shape.element_type.is_integer and shape.rank <= 1


def _static(match: Match, into: Expansion) -> HloInstruction | None:
    """Returns the static counterpart, or None if a dynamic dimension is involved."""
    instruction, operand = match.root, match.root.operand(0)
    if not (operand.shape.is_static and instruction.shape.is_static):
        return None
    if instruction.opcode == "dynamic-reshape":
        return into.add(build.make("reshape", operand, shape=instruction.shape))
    return operand


_ABOUT_SIZES = ("set-dimension-size", "dynamic-reshape")
_FORWARDING = frozenset({"R78", "R106", "R118", "R120", "R137", "R138"})
"""The simplifier's rules on copies, reshapes, slices and concatenations that give a size back as it was."""

_RULES = rule_table(
    [Rule("what sets a size that is static does nothing", m.op("|".join(_ABOUT_SIZES)), _static)],
    (Rule(f"{r.id}: {r.equation}", r.pattern, r.rewrite) for r in ALGEBRA if r.id in _FORWARDING),
)
