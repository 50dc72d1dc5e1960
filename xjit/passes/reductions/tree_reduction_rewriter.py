"""Sums as trees, for precision."""

from __future__ import annotations

import math

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import Window, WindowAttributes, WindowDimension
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import (
    arrays_of,
    may_apply_init_twice,
    may_rewrite,
    reduce_again,
    reduced_dimensions,
)


@dataclass
class TreeReductionRewriter(OpExpander):
    """Reduces windows of `reduce_window_size` elements first, again and again: the error grows with the logarithm.

    A reduction is left alone if all its dimensions are at most the window, or, with `skip_if_any_small`, if one is.
    """

    name = "tree-reduction-rewriter"
    opcodes = frozenset({"reduce"})
    reduce_window_size: int = 32
    skip_if_any_small: bool = False

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reduction of the windows' results, or None."""
        array, reduced = arrays_of(instruction)[0], reduced_dimensions(instruction)
        if not reduced or not may_rewrite(instruction) or not may_apply_init_twice(instruction):
            return None
        small = [array.shape.dimensions[d] <= self.reduce_window_size for d in reduced]
        if all(small) or (self.skip_if_any_small and any(small)):
            return None
        windows = [
            _same_window(size, min(size, self.reduce_window_size) if d in reduced else 1)
            for d, size in enumerate(array.shape.dimensions)
        ]
        sizes = [math.ceil(size / window.size) for size, window in zip(array.shape.dimensions, windows, strict=True)]
        shape = Shape.array(array.shape.element_type, sizes, array.shape.minor_to_major)
        attributes = WindowAttributes(Window(tuple(windows)))
        operands = [array, instruction.operand(1)]
        partial = into.add(HloInstruction.create("reduce-window", shape, operands, attributes, [instruction.to_apply]))
        return reduce_again(into, [partial], reduced, [instruction.shape])


def _same_window(size: int, window: int) -> WindowDimension:
    """Returns windows side by side that cover a dimension; of the padding, the smaller half is in front."""
    padding = -size % window
    return WindowDimension(size=window, stride=window, padding_low=padding // 2, padding_high=padding - padding // 2)
