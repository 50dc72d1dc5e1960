"""Instructions about dynamic sizes that turn out to be about static shapes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
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

    A size that was put into a vector and taken out again is taken from where it was: concatenations of concatenations
    are one, a slice of a vector that is one of its pieces is that piece, and what a second reshape makes of a first, or
    of the broadcast of a scalar, as it was, is that. Conversions and reshapes that change nothing go.
    """

    name = "dynamic-dimension-simplifier"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, _RULES)
        return changed


def _static(match: Match, into: Expansion) -> HloInstruction | None:
    """Returns the static counterpart, or None if a dynamic dimension is involved."""
    instruction, operand = match.root, match.root.operand(0)
    if not (operand.shape.is_static and instruction.shape.is_static):
        return None
    if instruction.opcode == "dynamic-reshape":
        return into.add(build.make("reshape", operand, shape=instruction.shape))
    return operand


def _piece(match: Match, into: Expansion) -> HloInstruction | None:
    """The piece of a concatenated vector that a slice reads, no more and no less."""
    (read,) = match.root.attributes_as(at.SliceAttributes).slice
    if read.stride != 1:
        return None
    start = 0
    for piece in match["whole"].operands:
        size = piece.shape.dimensions[0]
        if (start, start + size) == (read.start, read.limit):
            return piece if size else None
        start += size
    return None


def _as_it_was(match: Match, into: Expansion) -> HloInstruction | None:
    first = match["x"]
    return first if first.shape == match.root.shape else None


def _is_vector(instruction: HloInstruction) -> bool:
    return instruction.shape.rank == 1


_MAKES_VECTOR = m.op("broadcast", m.any("x").where(lambda i: not i.shape.rank)).where(_is_vector)

_RULES = rule_table(
    [
        Rule("what sets a size that is static does nothing", m.op("set-dimension-size|dynamic-reshape"), _static),
        Rule(
            "slice(concatenate(a, b)) = b", m.op("slice", m.op("concatenate", name="whole")).where(_is_vector), _piece
        ),
        Rule("reshape(broadcast(x)) = x", m.op("reshape", _MAKES_VECTOR), _as_it_was),
        Rule("reshape(reshape(x)) = x", m.op("reshape", m.op("reshape", m.any("x"))), _as_it_was),
        Rule("convert(x) = x, reshape(x) = x", m.op("convert|reshape", m.any("x")), _as_it_was),
    ],
    (Rule(f"{r.id}: {r.equation}", r.pattern, r.rewrite) for r in ALGEBRA if r.id == "R138"),
)
