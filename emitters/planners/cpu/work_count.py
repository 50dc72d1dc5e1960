"""What a kernel costs: operations where they are evaluated, elements read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xjit.emitters.access.access_analysis import AccessAnalysis, Accesses
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape


class WorkCount:
    """Sums over the spaces of a kernel. `repeated` are operations that any part of the units needs all of."""

    def __init__(self, analysis: AccessAnalysis) -> None:
        self._analysis = analysis
        self._reads: dict[HloInstruction, int] = {}
        self.operations = 0
        self.repeated = 0

    def add(self, space: IterationSpace, accesses: Sequence[Accesses]) -> None:
        """Adds the operations and reads of a space; what does not depend on a loop is computed outside of it."""
        sizes = {position: space.size(position) for position in space.loops}
        for mask, count in (item for a in accesses for item in a.evaluations.items()):
            work = count * self._values_of(mask, sizes)
            self.operations += work
            if space.loops and mask & self._analysis.range_mask and not mask >> space.loops[0] & 1:
                self.repeated += work
        points = math.prod(sizes.values())
        reduced = self._values_of(self._analysis.range_mask, {})
        for leaf, loads in (item for a in accesses for item in a.loads.items()):
            self._reads[leaf] = self._reads.get(leaf, 0) + points * loads * reduced

    def read_bytes(self) -> int:
        """Returns the bytes read: no element is counted twice, none that is not touched."""
        return sum(part_of(leaf.shape, reads) for leaf, reads in self._reads.items())

    def _values_of(self, mask: int, loops: Mapping[int, int]) -> int:
        """Returns how many values the loops and range variables of a bit set go through together."""
        count = math.prod(size for position, size in loops.items() if mask >> position & 1)
        ranges = mask & self._analysis.range_mask
        while ranges:
            count *= self._analysis.table.size((ranges & -ranges).bit_length() - 1)
            ranges &= ranges - 1
        return count


def part_of(shape: Shape, elements: int) -> int:
    """Returns the bytes of some elements of an array, at most of all of them."""
    return shape.byte_size * min(elements, shape.num_elements) // max(1, shape.num_elements)
