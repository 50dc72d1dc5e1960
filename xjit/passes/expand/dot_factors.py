"""Operands of dots as factors of an array of all products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.framework.expansion import Expansion

WIDE = {kind: PrimitiveType.F32 for kind in PrimitiveType if kind.is_float and kind.bit_width < 32}
"""What products are added up in, where that is not the type of the result."""


def free_dimensions(dot: HloInstruction) -> tuple[list[int], list[int]]:
    """Returns the dimensions of each operand that are neither of the batch nor contracted."""
    a = dot.attributes_as(DotAttributes)
    taken = ((*a.lhs_batch_dims, *a.lhs_contracting_dims), (*a.rhs_batch_dims, *a.rhs_contracting_dims))
    left, right = ([d for d in range(o.shape.rank) if d not in t] for o, t in zip(dot.operands, taken))
    return left, right


def spread(
    into: Expansion, operand: HloInstruction, kind: PrimitiveType, sizes: Sequence[int], places: Mapping[int, int]
) -> HloInstruction:
    """An operand in the type of the sums, repeated along the dimensions that it does not have."""
    if operand.shape.element_type is not kind:
        operand = into.add(build.convert(operand, kind))
    order = sorted(places, key=lambda d: places[d])
    if order != list(range(len(order))):
        operand = into.add(build.transpose(operand, order))
    if len(order) == len(sizes):
        return operand
    shape = Shape.array(kind, sizes)
    return into.add(build.broadcast(operand, shape, sorted(places.values())))


def sum_type(dot: HloInstruction) -> PrimitiveType | None:
    """Returns a type for sums of products that holds the operands' numbers as they are; None if there is none."""
    kinds: Sequence[PrimitiveType] = [i.shape.element_type for i in (*dot.operands, dot)]
    if all(kind.is_float for kind in kinds):
        return max((WIDE.get(kind, kind) for kind in kinds), key=lambda kind: kind.bit_width)
    *operands, result = kinds
    if all(k.is_integer and k.bit_width + (result.is_signed and not k.is_signed) <= result.bit_width for k in kinds):
        return result if result.is_signed or not any(k.is_signed for k in operands) else None
    return result if len(set(kinds)) == 1 else None
