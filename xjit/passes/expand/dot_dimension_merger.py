"""Several batch dimensions as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import DotAttributes
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class DotDimensionMerger(OpExpander):
    """Merges the batch dimensions of dots where they are neighbours, in order, in both operands and in memory."""

    name = "dot-dimension-merger"
    opcodes = frozenset({"dot"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reshaped product; None for less than two batch dimensions, and where they lie apart."""
        a = instruction.attributes_as(DotAttributes)
        batches = (a.lhs_batch_dims, a.rhs_batch_dims, tuple(range(len(a.lhs_batch_dims))))
        shapes = [i.shape for i in (*instruction.operands, instruction)]
        if len(a.lhs_batch_dims) < 2 or not all(map(_are_neighbours, shapes, batches)):
            return None
        operands = [
            into.add(HloInstruction.create("reshape", _merged(shape, batch), [operand]))
            for operand, shape, batch in zip(instruction.operands, shapes[:2], batches[:2], strict=True)
        ]
        product = instruction.clone_with_new_operands(_merged(shapes[2], batches[2]), operands)
        product.attributes = replace(
            a,
            lhs_batch_dims=batches[0][:1],
            rhs_batch_dims=batches[1][:1],
            lhs_contracting_dims=_renumbered(a.lhs_contracting_dims, batches[0]),
            rhs_contracting_dims=_renumbered(a.rhs_contracting_dims, batches[1]),
        )
        product.sharding = None
        return into.like_source("reshape", [into.add(product)])


def _are_neighbours(shape: Shape, dims: Sequence[int]) -> bool:
    """Whether dimensions follow each other, in the shape and, from major to minor, in memory."""
    if not shape.is_static_array or list(dims) != list(range(dims[0], dims[0] + len(dims))):
        return False
    order = list(reversed(shape.minor_to_major))
    first = order.index(dims[0])
    return order[first : first + len(dims)] == list(dims)


def _renumbered(dims: Sequence[int], merged: Sequence[int]) -> tuple[int, ...]:
    return tuple(d - len(merged) + 1 if d > merged[0] else d for d in dims)


def _merged(shape: Shape, dims: Sequence[int]) -> Shape:
    """The shape with one dimension in the place of several; the others keep their order in memory."""
    sizes = [n for d, n in enumerate(shape.dimensions) if d not in dims[1:]]
    sizes[dims[0]] = math.prod(shape.dimensions[d] for d in dims)
    order = [d for d in shape.minor_to_major if d not in dims[1:]]
    return Shape.array(shape.element_type, sizes, _renumbered(order, dims))
