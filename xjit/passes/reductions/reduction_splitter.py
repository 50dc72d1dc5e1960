"""Reductions of several separate dimensions are done one large dimension at a time."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import (
    arrays_of,
    is_row_major,
    may_apply_init_twice,
    may_rewrite,
    reduced_dimensions,
    sum_in_two_steps,
)


@dataclass
class ReductionSplitter(OpExpander):
    """Reduces the largest dimension first, with its neighbours, and then the others, where neither the reduced nor the
    kept dimensions are neighbours in row-major arrays. Batched rows, [R, K, R], have an emitter and stay; so does a
    reduction none of whose dimensions is larger than `min_split_dim`, of fewer than `min_elements` elements, or whose
    initial value must not be used twice; and sums and products of floats below 32 bits, whose partial results would be
    rounded.
    """

    name = "reduction-splitter"
    opcodes = frozenset({"reduce"})
    min_split_dim: int = 8
    min_elements: int = 0

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the second reduction, or None."""
        array, reduced = arrays_of(instruction)[0], reduced_dimensions(instruction)
        sizes = array.shape.dimensions
        if (
            len(reduced) < 2
            or array.shape.num_elements < self.min_elements
            or not may_rewrite(instruction)
            or not may_apply_init_twice(instruction)
        ):
            return None
        kept = [d for d in range(len(sizes)) if d not in reduced]
        if not is_row_major(array) or _are_consecutive(reduced) or _are_consecutive(kept):
            return None
        largest = max(reduced, key=lambda d: sizes[d])
        if sizes[largest] <= self.min_split_dim or _rounds(instruction):
            return None
        first = _neighbours(reduced, largest)
        return sum_in_two_steps(into, array, first, [d for d in reduced if d not in first])


def _rounds(reduce: HloInstruction) -> bool:
    """Whether a reduction by one operation rounds its results to a narrow float."""
    kind = reduce.shape.element_type
    return kind.is_float and kind.bit_width < 32 and reduce.to_apply.root_instruction.opcode in ("add", "multiply")


def _neighbours(dimensions: list[int], one: int) -> list[int]:
    """Returns those of ascending dimensions that lie next to one, without a gap."""
    place = dimensions.index(one)
    return [d for i, d in enumerate(dimensions) if d - one == i - place]


def _are_consecutive(dimensions: list[int]) -> bool:
    return dimensions[-1] - dimensions[0] == len(dimensions) - 1 if dimensions else True
