"""Reductions to tuples that reduce nothing, one array or a few stacked ones, and reductions of negated numbers."""

from __future__ import annotations

import math

from xjit.hlo import HloInstruction, Shape
from xjit.hlo import attributes as at
from xjit.hlo.attributes import SliceDimension
from xjit.passes.expand.map_inliner import is_elementwise, write_on_arrays
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.kinds import is_float, is_integer
from xjit.passes.simplify.algebra.padding import along
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


_FEW = 8
"""Elements that are combined one after the other, without a loop."""


@m.of_shapes
def _is_of_few(reduction: HloInstruction) -> bool:
    dimensions = dimensions_of(reduction)
    return reduction.operand_count > 2 and len(dimensions) == 1 and _count(reduction) <= _FEW


def _count(reduction: HloInstruction) -> int:
    return math.prod(reduction.operand(0).shape.dimensions[d] for d in dimensions_of(reduction))


def _of_stacks(match: Match, into: Expansion) -> HloInstruction | None:
    """Stacks, that nothing else reads, and numbers of their elements: what was stacked is combined in order."""
    root, count = match.root, _count(match.root)
    (dimension,) = dimensions_of(root)
    shapes = root.shape.tuple_shapes
    arrays, inits = root.operands[: len(shapes)], root.operands[len(shapes) :]
    are_stacks = [_is_stack(array, dimension, count) for array in arrays]
    others = [array for array, is_stack in zip(arrays, are_stacks, strict=True) if not is_stack]
    if not any(are_stacks) or not all(_is_numbering(other, dimension) for other in others):
        return None
    result = root.to_apply.root_instruction
    if not is_elementwise(root.to_apply) or result.opcode != "tuple":
        return None
    everywhere = at.DimensionsAttributes(())
    found = [into.make("broadcast", i, shape=s, attributes=everywhere) for i, s in zip(inits, shapes, strict=True)]
    for number in range(count):
        pieces = [_piece(into, array, dimension, number, s) for array, s in zip(arrays, shapes, strict=True)]
        made = write_on_arrays(into.add, root.to_apply, [*found, *pieces], shapes[0])
        found = [made[element] for element in result.operands]
    return into.tuple_of(*found)


def _is_stack(array: HloInstruction, dimension: int, count: int) -> bool:
    is_whole = array.opcode == "concatenate" and along(array) == dimension and array.operand_count == count
    return is_whole and array.user_count == 1


def _is_numbering(array: HloInstruction, dimension: int) -> bool:
    """Whether each of the elements along a dimension is a number, the same in all rows."""
    if array.opcode == "broadcast":
        kept = dimensions_of(array)
        return not kept or (tuple(kept) == (dimension,) and array.operand(0).opcode in ("iota", "constant"))
    return array.opcode == "iota" and array.attributes_as(at.IotaAttributes).iota_dimension == dimension


def _piece(into: Expansion, array: HloInstruction, dimension: int, number: int, shape: Shape) -> HloInstruction:
    """One of the elements along a dimension, without that."""
    if array.opcode == "concatenate":
        return into.make("reshape", array.operand(number), shape=shape)
    source = array.operand(0) if array.opcode == "broadcast" else array
    if source.opcode == "iota":
        return into.full(shape, number)
    if source.shape.rank:
        rows = at.SliceAttributes((SliceDimension(number, number + 1, 1),))
        scalar = source.shape.with_dimensions(())
        source = into.make("reshape", into.make("slice", source, attributes=rows), shape=scalar)
    return into.make("broadcast", source, shape=shape, attributes=at.DimensionsAttributes(()))


_NEGATED = m.op("reduce", m.op("negate", m.any("x")).one_use(), m.any("init"))

VARIADIC_REDUCTIONS = (
    AlgebraRule("N27", "reduce(nothing, inits) = tuple(broadcast(inits))", m.op("reduce").where(_is_over_nothing),
                _inits_everywhere),
    AlgebraRule("N28", "reduce(several, neutral inits) over dimensions of size 1 = tuple(reshape(several))",
                m.op("reduce").where(_is_over_ones), _elements, Exactness.XLA),
    AlgebraRule("N31", "reduce(x) to a tuple of one = tuple(reduce(x))",
                m.op("reduce|reduce-window").where(_is_tuple_of_one), _only_element, Exactness.ORDER),
    AlgebraRule("N81", "reduce(concatenate(x, y, ...), numbers) of few rows = reducer(.., reducer(inits, x, 0), ..)",
                m.op("reduce").where(_is_of_few), _of_stacks, Exactness.ORDER),
    AlgebraRule("N29", "sum(negate(x)) = negate(sum(x))", _NEGATED.where(is_integer), _of_negated),
    AlgebraRule("N29x", "sum(negate(x)) = negate(sum(x)) of floats", _NEGATED.where(is_float), _of_negated,
                Exactness.XLA),
)  # fmt: skip
