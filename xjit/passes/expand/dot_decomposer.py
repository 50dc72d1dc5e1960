"""Dots in canonical form: [batch, M, K] times [batch, K, N]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class DotDecomposer(OpExpander):
    """Transposes and reshapes operands so that batch dimensions lead in the same order, and one contracting and at most
    one free dimension follow: free, contracting on the left, contracting, free on the right. Free dimensions of one
    element are none. Sparse dots stay.
    """

    name = "dot-decomposer"
    opcodes = frozenset({"dot"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the canonical dot, reshaped; None if the dot is canonical."""
        attributes = instruction.attributes_as(DotAttributes)
        lhs, rhs = instruction.operands[:2]
        if attributes.sparsity or is_canonical(instruction):
            return None
        batch, left = attributes.lhs_batch_dims, attributes.lhs_contracting_dims
        rhs_batch, right = attributes.rhs_batch_dims, attributes.rhs_contracting_dims
        lhs_free = _free(lhs, batch, left)
        rhs_free = _free(rhs, rhs_batch, right)
        new_lhs = _group(into, lhs, batch, [lhs_free, left], contracting=1)
        new_rhs = _group(into, rhs, rhs_batch, [right, rhs_free], contracting=0)
        leading = tuple(range(len(batch)))
        canonical = replace(
            attributes,
            lhs_batch_dims=leading,
            rhs_batch_dims=leading,
            lhs_contracting_dims=(new_lhs.shape.rank - 1,),
            rhs_contracting_dims=(len(batch),),
        )
        dot = into.add(build.make_dot(new_lhs, new_rhs, canonical, instruction.shape.element_type))
        dot.raw_backend_config = instruction.raw_backend_config
        if dot.shape.dimensions == instruction.shape.dimensions:
            return dot
        return into.like_source("reshape", [dot])


def is_canonical(dot: HloInstruction) -> bool:
    """Whether the batch dimensions lead and one contracting and at most one free dimension follow, in that order."""
    attributes = dot.attributes_as(DotAttributes)
    count = len(attributes.lhs_batch_dims)
    leading = tuple(range(count))
    lhs_rank, rhs_rank = (o.shape.rank for o in dot.operands[:2])
    return (
        attributes.lhs_batch_dims == attributes.rhs_batch_dims == leading
        and count < lhs_rank <= count + 2
        and count < rhs_rank <= count + 2
        and attributes.lhs_contracting_dims == (lhs_rank - 1,)
        and attributes.rhs_contracting_dims == (count,)
    )


def _free(operand: HloInstruction, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {d for dims in used for d in dims}
    return tuple(d for d in range(operand.shape.rank) if d not in taken)


def _group(
    into: Expansion, operand: HloInstruction, batch: Sequence[int], groups: list[Sequence[int]], contracting: int
) -> HloInstruction:
    """Returns the operand with the batch dimensions first and each group of dimensions as one dimension behind them.

    A free group of one element is no dimension. Merged dimensions are dynamic if one of them is.
    """
    order = (*batch, *groups[0], *groups[1])
    shape = operand.shape
    if order != tuple(range(shape.rank)):
        operand = into.add(build.transpose(operand, order))
    sizes = [math.prod(shape.dimensions[d] for d in group) for group in groups]
    kept = [(d,) for d in batch] + [g for i, g in enumerate(groups) if sizes[i] != 1 or i == contracting]
    merged = Shape.array(shape.element_type, [math.prod(shape.dimensions[d] for d in group) for group in kept])
    if not shape.is_static:
        dynamic = tuple(any(map(shape.is_dynamic_dimension, group)) for group in kept)
        merged = replace(merged, dynamic_dimensions=dynamic)
    if merged.dimensions == operand.shape.dimensions:
        return operand
    return into.add(HloInstruction.create("reshape", merged, [operand]))
