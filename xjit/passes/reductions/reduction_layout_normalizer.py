"""Arrays that are reduced are row-major."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import (
    arrays_of,
    bitcast,
    bitcast_results,
    is_row_major,
    may_rewrite,
    reduce_again,
    reduced_dimensions,
    result_shapes,
)


@dataclass
class ReductionLayoutNormalizer(OpExpander):
    """Views arrays by bitcasts as row-major ones, with their dimensions in the order of memory, and renumbers.

    Nothing moves, but where several arrays that are reduced together differ in layout: they are copied into the first
    one's. The bytes of the results stay the same.
    """

    name = "reduction-layout-normalizer"
    opcodes = frozenset({"reduce"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the results, or None if all arrays are row-major."""
        arrays = arrays_of(instruction)
        if not may_rewrite(instruction) or all(map(is_row_major, arrays)):
            return None
        order = arrays[0].shape.minor_to_major[::-1]
        views = [bitcast(into, array, _permuted(array.shape, order)) for array in self._of_one_layout(into, arrays)]
        dimensions = sorted(order.index(d) for d in reduced_dimensions(instruction))
        kept = [d for d in range(len(order)) if d not in reduced_dimensions(instruction)]
        physical = [kept.index(d) for d in order if d in kept]
        shapes = [_relabelled(shape, physical) for shape in result_shapes(instruction)]
        return bitcast_results(into, reduce_again(into, views, dimensions, shapes))

    @staticmethod
    def _of_one_layout(into: Expansion, arrays: tuple[HloInstruction, ...]) -> list[HloInstruction]:
        layout = arrays[0].shape.layout
        return [
            a if a.shape.layout == layout else into.add(HloInstruction.create("copy", a.shape.with_layout(layout), [a]))
            for a in arrays
        ]


def _permuted(shape: Shape, order: tuple[int, ...]) -> Shape:
    """Returns the row-major shape whose dimension i is dimension `order[i]`."""
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in order])


def _relabelled(shape: Shape, order: list[int]) -> Shape:
    """Returns the shape of the same bytes whose dimension i is dimension `order[i]`."""
    minor_to_major = [order.index(d) for d in shape.minor_to_major]
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in order], minor_to_major)
