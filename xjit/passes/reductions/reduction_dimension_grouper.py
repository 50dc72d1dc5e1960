"""Reduced dimensions that are neighbours become one."""

from __future__ import annotations

import math

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import (
    arrays_of,
    bitcast,
    may_rewrite,
    reduce_again,
    reduced_dimensions,
    result_shapes,
)


@dataclass
class ReductionDimensionGrouper(OpExpander):
    """Merges each run of adjacent reduced dimensions of row-major arrays by a bitcast. The results stay as they are."""

    name = "reduction-dimension-grouper"
    opcodes = frozenset({"reduce"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the reduction of merged dimensions, or None if no two are neighbours in row-major arrays."""
        arrays, reduced = arrays_of(instruction), reduced_dimensions(instruction)
        if not may_rewrite(instruction) or not any(d + 1 in reduced for d in reduced):
            return None
        if any(
            a.shape != a.shape.with_default_layouts() or not a.shape.layout.is_row_major()
            for a in arrays
            if a.shape.layout
        ):
            return None
        groups: list[list[int]] = []
        for d in range(arrays[0].shape.rank):
            if d in reduced and d - 1 in reduced:
                groups[-1].append(d)
            else:
                groups.append([d])
        sizes = [math.prod(arrays[0].shape.dimensions[d] for d in group) for group in groups]
        merged = [bitcast(into, a, Shape.array(a.shape.element_type, sizes)) for a in arrays]
        dimensions = [i for i, group in enumerate(groups) if group[0] in reduced]
        return reduce_again(into, merged, dimensions, result_shapes(instruction))
