"""Reductions have no dimensions of size 1."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, Shape
from xjit.ops import build
from xjit.ops.reducers import reduction_identity
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import (
    arrays_of,
    bitcast,
    bitcast_results,
    may_rewrite,
    reduce_again,
    reduced_dimensions,
    result_shapes,
)


@dataclass
class ReductionDegenerateDimRemover(OpExpander):
    """Drops the dimensions of size 1 by bitcasts of arrays and results.

    Where only such dimensions are reduced, all that is left is to combine the initial value with each element.
    """

    name = "reduction-degenerate-dim-remover"
    opcodes = frozenset({"reduce"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the results, or None if there is no such dimension."""
        sizes = arrays_of(instruction)[0].shape.dimensions
        if not may_rewrite(instruction) or 1 not in sizes:
            return None
        dimensions = [d for d in reduced_dimensions(instruction) if sizes[d] != 1]
        combiner = reduction_identity(instruction.to_apply)
        if not dimensions and (instruction.shape.is_tuple or combiner is None):
            return None
        arrays = [bitcast(into, a, without_ones(a.shape)) for a in arrays_of(instruction)]
        kept = [d for d, size in enumerate(sizes) if size != 1]
        shapes = [without_ones(shape) for shape in result_shapes(instruction)]
        if dimensions or combiner is None:
            reduce = reduce_again(into, arrays, [kept.index(d) for d in dimensions], shapes)
            return bitcast_results(into, reduce)
        return bitcast(into, _combine(into, arrays[0], combiner[0]), instruction.shape)


def _combine(into: Expansion, array: HloInstruction, opcode: str) -> HloInstruction:
    """Returns the initial value combined with every element."""
    init = into.source.operand(1)
    return into.make(opcode, into.add(build.broadcast_scalar(init, array.shape)) if array.shape.rank else init, array)


def without_ones(shape: Shape) -> Shape:
    """Returns a shape without its dimensions of size 1, and the layout of the others."""
    kept = [d for d, size in enumerate(shape.dimensions) if size != 1]
    order = [kept.index(d) for d in shape.minor_to_major if d in kept]
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in kept], order)
