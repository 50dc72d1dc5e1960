"""ragged-dot, scaled-dot, dots of complex numbers or with such results, and of floats to integers, as plain dots."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DotAttributes, RaggedDotAttributes
from xjit.ops import build
from xjit.ops.shape_inference.common import higher_precision
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.ragged_dot_rewriter import group_mask
from xjit.passes.framework.expansion import Expansion

_MIN_PARTS_SIZE = 16  # rows, columns and terms: with less, taking numbers apart costs as much as it gains


@dataclass
class DotExpander(OpExpander):
    """Groups of a ragged dot are selected by masks; the scales of a scaled dot are multiplied in before, in f32.

    A dot of floats whose result is an integer, or of complex numbers whose result is real, is computed in their type
    and converted, as in XLA; real operands of one whose result is complex are converted first. With `splits_complex` a
    large dot of complex numbers becomes four of their parts.
    """

    name = "dot-expander"
    splits_complex: bool = False
    opcodes = frozenset({"dot", "ragged-dot", "scaled-dot"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the result, or None for a ragged dot of several ragged dimensions."""
        if instruction.opcode == "scaled-dot":
            return _scaled(instruction, into)
        if instruction.opcode == "dot" and instruction.shape.element_type.is_complex:
            if not instruction.operand(0).shape.element_type.is_complex:
                return _complex_of_reals(instruction, into)
            return _of_parts(instruction, into) if self.splits_complex and _is_large(instruction) else None
        if instruction.opcode == "dot":
            return _converted(instruction, into)
        attributes = instruction.attributes_as(RaggedDotAttributes)
        if len(attributes.lhs_ragged_dims) != 1 or instruction.operand(2).shape.rank != 1:
            return None
        ragged = attributes.lhs_ragged_dims[0]
        if ragged in attributes.lhs_batch_dims:
            return into.add(_dot(instruction.operand(0), instruction.operand(1), attributes, instruction.shape))
        if ragged in attributes.lhs_contracting_dims:
            return _ragged_contracting(instruction, attributes, into)
        return _ragged_rows(instruction, attributes, into)


def _dot(
    lhs: HloInstruction, rhs: HloInstruction, a: RaggedDotAttributes | DotAttributes, like: Shape
) -> HloInstruction:
    dims = (a.lhs_batch_dims, a.lhs_contracting_dims, a.rhs_batch_dims, a.rhs_contracting_dims)
    return build.make_dot(lhs, rhs, DotAttributes(*dims, operand_precision=a.operand_precision), like.element_type)


def _is_large(dot: HloInstruction) -> bool:
    """Whether a dot has rows, columns and terms enough for a multiplication to be faster than loops."""
    attributes = dot.attributes_as(DotAttributes)
    sizes = [o.shape.dimensions for o in dot.operands]
    terms = math.prod(sizes[0][d] for d in attributes.lhs_contracting_dims)
    batches = math.prod(sizes[0][d] for d in attributes.lhs_batch_dims)
    rows, columns = (math.prod(s) // max(1, terms * batches) for s in sizes)
    return min(rows, columns, terms) >= _MIN_PARTS_SIZE


def _of_parts(dot: HloInstruction, into: Expansion) -> HloInstruction:
    """(a + bi) (c + di) = (ac - bd) + (ad + bc) i, each product a dot."""
    attributes, kind = dot.attributes_as(DotAttributes), dot.shape.element_type.component
    (a, b), (c, d) = ([into.make(part, o) for part in ("real", "imag")] for o in dot.operands)
    ac, bd, ad, bc = (into.add(build.make_dot(x, y, attributes, kind)) for x, y in ((a, c), (b, d), (a, d), (b, c)))
    return into.make("complex", into.make("subtract", ac, bd), into.make("add", ad, bc))


def _complex_of_reals(dot: HloInstruction, into: Expansion) -> HloInstruction:
    kind = dot.shape.element_type
    lhs, rhs = (into.add(build.convert(o, kind)) for o in dot.operands)
    return into.add(build.make_dot(lhs, rhs, dot.attributes_as(DotAttributes), kind))


def _converted(dot: HloInstruction, into: Expansion) -> HloInstruction | None:
    """The dot in the type of its float or complex operands, converted; None if its result is of such a type."""
    lhs, rhs = dot.operands[:2]
    kinds, result = [o.shape.element_type for o in (lhs, rhs)], dot.shape.element_type
    inexact = [kind for kind in kinds if kind.is_float or kind.is_complex]
    if not inexact or not (result.is_integer or inexact[0].is_complex):
        return None
    natural, bits = reduce(higher_precision, inexact), max(kind.bit_width for kind in kinds)
    wide = natural if bits <= natural.bit_width else PrimitiveType.F32 if bits <= 32 else PrimitiveType.F64
    product = into.add(build.make_dot(lhs, rhs, dot.attributes_as(DotAttributes), wide))
    rounded = product if wide is natural else into.add(build.convert(product, natural))
    return into.add(build.convert(rounded, result))


def _scaled(instruction: HloInstruction, into: Expansion) -> HloInstruction:
    operands = list(instruction.operands)
    attributes = instruction.attributes_as(DotAttributes)
    factors = [into.add(build.convert(o, PrimitiveType.F32)) for o in operands[:2]]
    for i, scale in enumerate(operands[2:]):
        wide = into.add(build.convert(scale, PrimitiveType.F32))
        factors[i] = into.make("multiply", factors[i], _spread_scale(wide, factors[i].shape, into))
    product = into.add(_dot(factors[0], factors[1], attributes, factors[0].shape))
    kind = instruction.shape.element_type
    return product if kind is PrimitiveType.F32 else into.add(build.convert(product, kind))


def _spread_scale(scale: HloInstruction, shape: Shape, into: Expansion) -> HloInstruction:
    """Every element of the scale repeated over its block."""
    if not scale.shape.rank:
        return into.add(build.broadcast_scalar(scale, shape))
    blocks: list[int] = []
    places: list[int] = []
    for have, want in zip(scale.shape.dimensions, shape.dimensions, strict=True):
        places.append(len(blocks))
        blocks += [have, want // max(have, 1)]
    spread = into.add(build.broadcast(scale, Shape.array(PrimitiveType.F32, blocks), places))
    return into.add(build.reshape(spread, shape.dimensions))


def _ragged_rows(instruction: HloInstruction, a: RaggedDotAttributes, into: Expansion) -> HloInstruction:
    """All groups' products side by side, then each row keeps that of its group. Rows of no group are zero."""
    lhs, rhs, sizes = instruction.operands
    everything = into.add(_dot(lhs, rhs, a, instruction.shape))
    free_lhs = [d for d in range(lhs.shape.rank) if d not in a.lhs_batch_dims and d not in a.lhs_contracting_dims]
    free_rhs = [d for d in range(rhs.shape.rank) if d not in a.rhs_batch_dims and d not in a.rhs_contracting_dims]
    row = len(a.lhs_batch_dims) + free_lhs.index(a.lhs_ragged_dims[0])
    group = len(a.lhs_batch_dims) + len(free_lhs) + free_rhs.index(a.rhs_group_dims[0])
    shape = everything.shape
    mask = group_mask(sizes, shape.dimensions, row, (group,), into)
    kept = into.make("select", mask, everything, into.full(shape, 0))
    return into.sum(kept, (group,))


def _ragged_contracting(instruction: HloInstruction, a: RaggedDotAttributes, into: Expansion) -> HloInstruction:
    """One batch element per group, in which both operands are zero outside of the group."""
    sizes = instruction.operand(2)
    groups = sizes.shape.dimensions[0]
    ragged = a.lhs_ragged_dims[0]
    other = a.rhs_contracting_dims[a.lhs_contracting_dims.index(ragged)]
    masked: list[HloInstruction] = []
    for operand, dimension in ((instruction.operand(0), ragged), (instruction.operand(1), other)):
        shape = Shape.array(operand.shape.element_type, (groups, *operand.shape.dimensions))
        spread = into.add(build.broadcast(operand, shape, range(1, shape.rank)))
        mask = group_mask(sizes, shape.dimensions, dimension + 1, (0,), into)
        masked.append(into.make("select", mask, spread, into.full(shape, 0)))

    def moved(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d + 1 for d in dims)

    attributes = DotAttributes(
        (0, *moved(a.lhs_batch_dims)), moved(a.lhs_contracting_dims), (0, *moved(a.rhs_batch_dims)),
        moved(a.rhs_contracting_dims), a.operand_precision,
    )  # fmt: skip
    return into.add(build.make_dot(masked[0], masked[1], attributes, instruction.shape.element_type))
