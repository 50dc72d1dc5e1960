"""Products of a matrix and a vector as sums of products: there is nothing to reuse, so they are reductions.

Reductions run at the speed of memory where tiles of one row would be empty. XLA's algebraic simplifier has the same
idea (its dot strength reduction), for vectors alone here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.dot_factors import WIDE, free_dimensions, spread
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class VectorDotRewriter(OpExpander):
    """Writes dots with a vector on one side, in each batch, as `reduce(multiply(broadcast, broadcast))`.

    Dots of fewer than `min_steps` products a result are left alone, and sparse ones.
    """

    name = "vector-dot-rewriter"
    opcodes = frozenset({"dot"})
    min_steps: int = 32

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the sum in the dot's type; None for a dot of matrices."""
        attributes = instruction.attributes_as(DotAttributes)
        if attributes.sparsity or instruction.operand_count != 2 or not instruction.shape.is_static_array:
            return None
        lhs, rhs = instruction.operands
        free = free_dimensions(instruction)
        steps = [lhs.shape.dimensions[d] for d in attributes.lhs_contracting_dims]
        vectors = [math.prod(o.shape.dimensions[d] for d in dims) == 1 for o, dims in zip((lhs, rhs), free)]
        if not any(vectors) or math.prod(steps) < self.min_steps or not instruction.shape.num_elements:
            return None
        kind = WIDE.get(instruction.shape.element_type, instruction.shape.element_type)
        sizes = [*instruction.shape.dimensions, *steps]
        batch, rank = len(attributes.lhs_batch_dims), instruction.shape.rank
        leading, summed = range(batch), range(rank, len(sizes))
        rows = range(batch, batch + len(free[0]))
        places = (
            _places((attributes.lhs_batch_dims, free[0], attributes.lhs_contracting_dims), (leading, rows, summed)),
            _places(
                (attributes.rhs_batch_dims, free[1], attributes.rhs_contracting_dims),
                (leading, range(rows.stop, rank), summed),
            ),
        )
        factors = [spread(into, o, kind, sizes, place) for o, place in zip((lhs, rhs), places, strict=True)]
        products = into.make("multiply", *factors)
        zero = into.add(build.make_constant(0, kind))
        add = into.embed(build.make_binary_computation("add", kind, "add"))
        total = into.add(build.make_reduce(products, zero, list(summed), add))
        if kind is instruction.shape.element_type:
            return total
        return into.add(build.convert(total, instruction.shape.element_type))


def _places(groups: Sequence[Sequence[int]], targets: Sequence[range]) -> dict[int, int]:
    """Where each dimension of an operand stands among those of the products."""
    return {d: t for group, target in zip(groups, targets, strict=True) for d, t in zip(group, target, strict=True)}
