"""Products of matrices and vectors as products of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class GemvRewriter(OpExpander):
    """Makes the vector a matrix of one column, where one operand of a dot is a matrix and the other a vector."""

    name = "gemv-rewriter"
    opcodes = frozenset({"dot"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the product without its dimension of size 1; None if both operands are of one rank, or larger."""
        a = instruction.attributes_as(DotAttributes)
        batch, operands = len(a.lhs_batch_dims), list(instruction.operands)
        shapes = [o.shape for o in (*operands, instruction)]
        free = [shape.rank - batch - len(a.lhs_contracting_dims) for shape in shapes[:2]]
        if sorted(free) != [0, 1] or len(a.lhs_contracting_dims) != 1:
            return None
        if not all(shape.is_static_array and shape.is_row_major for shape in shapes):
            return None
        position = free.index(0)
        operands[position] = into.add(build.reshape(operands[position], (*shapes[position].dimensions, 1)))
        sizes = list(instruction.shape.dimensions)
        sizes.insert(batch + position, 1)
        product = instruction.clone_with_new_operands(instruction.shape.with_dimensions(sizes), operands)
        return into.like_source("reshape", [into.add(product)])
