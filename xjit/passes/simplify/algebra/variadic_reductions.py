"""Reductions to tuples that reduce nothing or one array, and reductions of negated numbers."""

from __future__ import annotations

import math

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.kinds import is_float, is_integer
from xjit.passes.simplify.algebra.reductions import operation
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


@m.of_shapes
def _is_over_nothing(reduction: HloInstruction) -> bool:
    return reduction.operand_count > 2 and not reduction.operand(0).shape.num_elements


def _inits_everywhere(match: Match, into: Expansion) -> HloInstruction:
    inits = match.root.operands[match.root.operand_count // 2 :]
    shapes = match.root.shape.tuple_shapes
    everywhere = at.DimensionsAttributes(())
    full = [into.make("broadcast", i, shape=s, attributes=everywhere) for i, s in zip(inits, shapes, strict=True)]
    return into.tuple_of(*full)


@m.of_shapes
def _is_over_ones(reduction: HloInstruction) -> bool:
    sizes = reduction.operand(0).shape.dimensions
    return reduction.operand_count > 2 and math.prod([sizes[d] for d in dimensions_of(reduction)]) == 1


def _elements(match: Match, into: Expansion) -> HloInstruction:
    arrays = match.root.operands[: match.root.operand_count // 2]
    shapes = match.root.shape.tuple_shapes
    return into.tuple_of(*[into.make("reshape", a, shape=s) for a, s in zip(arrays, shapes, strict=True)])


@m.of_shapes
def _is_tuple_of_one(reduction: HloInstruction) -> bool:
    return reduction.shape.is_tuple and reduction.operand_count == 2


def _only_element(match: Match, into: Expansion) -> HloInstruction | None:
    """A reducer that returns a tuple of one element: one that returns the element."""
    root = match.root
    if root.to_apply.root_instruction.opcode != "tuple":
        return None
    reducer = root.to_apply.clone()
    elements = reducer.root_instruction
    reducer.set_root_instruction(elements.operand(0), accept_different_shape=True)
    reducer.remove_instruction(elements)
    called = [into.embed(reducer)]
    return into.tuple_of(into.make(root.opcode, *root.operands, attributes=root.attributes, called=called))


def _of_negated(match: Match, into: Expansion) -> HloInstruction | None:
    start = value_of(match["init"])
    if operation(match.root) != "add" or start is None or start != 0:
        return None
    reduced = into.make("reduce", match["x"], match["init"], attributes=match.root.attributes,
                        called=[match.root.to_apply])  # fmt: skip
    return into.make("negate", reduced)


_NEGATED = m.op("reduce", m.op("negate", m.any("x")).one_use(), m.any("init"))

VARIADIC_REDUCTIONS = (
    AlgebraRule("N27", "reduce(nothing, inits) = tuple(broadcast(inits))", m.op("reduce").where(_is_over_nothing),
                _inits_everywhere),
    AlgebraRule("N28", "reduce(several, neutral inits) over dimensions of size 1 = tuple(reshape(several))",
                m.op("reduce").where(_is_over_ones), _elements, Exactness.XLA),
    AlgebraRule("N31", "reduce(x) to a tuple of one = tuple(reduce(x))",
                m.op("reduce|reduce-window").where(_is_tuple_of_one), _only_element, Exactness.ORDER),
    AlgebraRule("N29", "sum(negate(x)) = negate(sum(x))", _NEGATED.where(is_integer), _of_negated),
    AlgebraRule("N29x", "sum(negate(x)) = negate(sum(x)) of floats", _NEGATED.where(is_float), _of_negated,
                Exactness.XLA),
)  # fmt: skip
