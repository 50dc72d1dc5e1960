"""Reductions have no dimensions of size 1."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.ops import build
from xjit.passes.expand.map_inliner import is_elementwise, write_on_arrays
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
    starts_with_identity,
)


@dataclass
class ReductionDegenerateDimRemover(OpExpander):
    """Drops the dimensions of size 1 by bitcasts of arrays and results.

    Where only such dimensions are reduced, all that is left is to combine the initial value with each element, which
    changes nothing if it is the identity. Reductions by what is not elementwise stay then.
    """

    name = "reduction-degenerate-dim-remover"
    opcodes = frozenset({"reduce"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the results, or None if there is no such dimension."""
        sizes = arrays_of(instruction)[0].shape.dimensions
        if not may_rewrite(instruction) or 1 not in sizes:
            return None
        dimensions = [d for d in reduced_dimensions(instruction) if sizes[d] != 1]
        if not dimensions and not is_elementwise(instruction.to_apply):
            return None
        arrays = [bitcast(into, a, without_ones(a.shape)) for a in arrays_of(instruction)]
        kept = [d for d, size in enumerate(sizes) if size != 1]
        shapes = [without_ones(shape) for shape in result_shapes(instruction)]
        if dimensions:
            reduce = reduce_again(into, arrays, [kept.index(d) for d in dimensions], shapes)
            return bitcast_results(into, reduce)
        layout = arrays[0].shape.layout
        results = _combined(into, [_in_layout(into, a, a.shape.with_layout(layout)) for a in arrays])
        results = [
            bitcast(into, _in_layout(into, value, small), shape)
            for value, small, shape in zip(results, shapes, result_shapes(instruction), strict=True)
        ]
        return into.tuple_of(*results) if instruction.shape.is_tuple else results[0]


def _in_layout(into: Expansion, array: HloInstruction, shape: Shape) -> HloInstruction:
    """Returns an array as one of a shape that differs in nothing but the layout."""
    return array if array.shape == shape else into.add(HloInstruction.create("copy", shape, [array]))


def _combined(into: Expansion, arrays: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Returns the initial values combined with every element, for each array."""
    source, shape = into.source, arrays[0].shape
    if starts_with_identity(source):
        return [arrays[0]]
    inits = source.operands[len(arrays) :]
    scalars_and_arrays = zip(inits, arrays, strict=True)
    full = [into.add(build.broadcast_scalar(i, a.shape)) if a.shape.rank else i for i, a in scalars_and_arrays]
    values = write_on_arrays(into.add, source.to_apply, [*full, *arrays], shape)
    root = source.to_apply.root_instruction
    return [values[o] for o in root.operands] if source.shape.is_tuple else [values[root]]


def without_ones(shape: Shape) -> Shape:
    """Returns a shape without its dimensions of size 1, and the layout of the others."""
    kept = [d for d, size in enumerate(shape.dimensions) if size != 1]
    order = [kept.index(d) for d in shape.minor_to_major if d in kept]
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in kept], order)
