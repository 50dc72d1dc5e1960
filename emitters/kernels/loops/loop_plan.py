"""What the loops of a loop kernel are: its iteration space, cut into parts that need no divisions.

The loops follow the result's memory order. Divisions are split away, loops that walk memory as one are merged, the
innermost loop is vectorised unless a reduction along contiguous memory hangs on it, and the outermost loop is the
parallel range. A concatenate at the root becomes one part per operand, so no element tests which operand it is in.
Where a transposed operand pays for it, whole tiles are a part of their own (see xjit.emitters.transpose_tile).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, dim
from xjit.emitters.access_analysis import AccessAnalysis, Accesses, Index
from xjit.emitters.iteration_space import (
    IterationSpace,
    collapse_loops,
    merge_short_innermost,
    remove_divisions,
    sort_loops,
)
from xjit.emitters.kernels.kernel import KernelContext, KernelView, lanes_for
from xjit.emitters.loop_nest import LoopNest
from xjit.emitters.physical_offsets import physical_offset
from xjit.emitters.variables import factor_of
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

MIN_PARALLEL_UNITS = 64
MAX_TILED_OPERATIONS = 12


@dataclass(slots=True)
class Part:
    """One loop nest of the kernel: its space, its vector width (0: scalar), its units, and its transpose tile if any.

    With a tile the loops end in (..., u outer, v vector, u inner): the last one is unrolled.
    """

    space: IterationSpace
    width: int
    units: int
    tiled: bool = False


class LoopPlanner:
    """Plans the parts of one kernel function. Subclasses say what is stored, and may change what is looped over."""

    def __init__(self, context: KernelContext, view: KernelView, suffix: str = "") -> None:
        self.view = view
        self.roots = view.roots
        self.maps = context.maps
        self.function, self.leaves, self.results = context.new_kernel(view, suffix)
        self.nest = LoopNest(context.module, self.function, context.target)
        self.analysis = AccessAnalysis(self.nest.table, {i: b.shape for i, b in self.leaves.items()}, context.maps)
        self.shape = view.result_shapes[0]
        self.operations = 0
        self.repeated = 0  # operations that any part of the units needs all of
        self._reads: dict[HloInstruction, int] = {}
        self._collected: dict[Index, list[Accesses]] = {}

    def plan(self) -> list[Part]:
        """Returns the parts in the order of their units; counts the operations of all of them."""
        return [part for region in self._regions() for part in self._plan(region)]

    def _regions(self) -> list[IterationSpace]:
        """The result cut into boxes in which the root reads one operand of a concatenate."""
        order = self.shape.minor_to_major[::-1]
        root = self.roots[0]
        if root.opcode != "concatenate" or len(self.roots) != 1:
            return [IterationSpace.over(self.nest.table, self.shape.dimensions, order)]
        axis = root.attributes_as(at.ConcatenateAttributes).dimension
        spaces: list[IterationSpace] = []
        start = 0
        for operand in root.operands:
            size = operand.shape.dimensions[axis]
            if size:
                space = IterationSpace.over(self.nest.table, self.shape.dimensions, order)
                old = space.index[axis].position
                piece = self.nest.new_variable(size)
                loops = [piece if p == old else p for p in space.loops]
                spaces.append(space.replace({old: dim(piece) + start}, loops))
            start += size
        return spaces

    def _accesses(self, space: IterationSpace) -> list[Accesses]:
        found = self._collected.get(space.index)
        if found is None:
            found = self._collected[space.index] = [self.analysis.collect(root, space.index) for root in self.roots]
        return found

    def _expressions(self, space: IterationSpace) -> list[AffineExpr]:
        found = [e for a in self._accesses(space) for e in (*a.offsets, *a.others)]
        found += [physical_offset(self.nest.table, b.shape, space.index) for b in self.results]
        return list(dict.fromkeys(found))

    def _plan(self, region: IterationSpace) -> list[Part]:
        parts: list[Part] = []
        for space in remove_divisions(region, self._expressions, self._may_split):
            space = sort_loops(space, physical_offset(self.nest.table, self.shape, space.index))
            space = collapse_loops(space, self._expressions)
            space = self._drop_single_trips(space)
            if not self._has_row_reductions(space):
                space = merge_short_innermost(space, self._lanes())
            parts += self._parts(space)
        return parts

    def _parts(self, space: IterationSpace) -> list[Part]:
        """The loop nests for a space without needless loops and divisions."""
        width = self._vector_width(space)
        across = self._transposed_loop(space, width) if width else None
        return [self._finish_part(space, width)] if across is None else self._tile(space, width, across)

    def _finish_part(self, space: IterationSpace, width: int, tiled: bool = False) -> Part:
        keep = (1 if width else 0) + (2 if tiled else 0)
        space = self._merge_outer(space, keep)
        self._count(space, self._accesses(space))
        return Part(space, width, self._units(space, width), tiled)

    def _transposed_loop(self, space: IterationSpace, width: int) -> int | None:
        """The loop along which operands are contiguous that the innermost loop walks across, if tiles pay."""
        innermost = space.loops[-1]
        if space.size(innermost) < width:
            return None
        accesses = self._accesses(space)
        if sum(a.operations for a in accesses) > MAX_TILED_OPERATIONS:
            return None
        votes: dict[int, int] = {}
        for offset in (o for a in accesses for o in a.offsets):
            if abs(factor_of(offset, innermost) or 0) <= 1:
                continue
            for position in space.loops[:-1]:
                if factor_of(offset, position) == 1 and space.size(position) >= width:
                    votes[position] = votes.get(position, 0) + 1
        return max(votes, key=lambda p: votes[p]) if votes else None

    def _tile(self, space: IterationSpace, width: int, across: int) -> list[Part]:
        """Cuts the space into whole tiles and the rest, which keeps plain loops."""
        parts: list[Part] = []
        for number, strip in enumerate(space.peel(across, width)):
            whole_rows = number == 0
            for column, piece in enumerate(strip.peel(strip.loops[-1], width)):
                if not whole_rows or column:
                    rest = self._drop_single_trips(piece)
                    parts.append(self._finish_part(rest, self._vector_width(rest)))
                    continue
                along = piece.loops[space.loops.index(across)]
                split = piece.split(along, width)
                outer, inner = split.loops[space.loops.index(across) : space.loops.index(across) + 2]
                others = [p for p in split.loops if p not in (outer, inner, split.loops[-1])]
                loops = [*others, outer, split.loops[-1], inner]
                parts.append(self._finish_part(IterationSpace(space.table, loops, split.index), width, tiled=True))
        return parts

    def _drop_single_trips(self, space: IterationSpace) -> IterationSpace:
        """Loops of one trip have been replaced by constants already; the innermost stays for the vector."""
        loops = [p for p in space.loops if space.size(p) > 1]
        return IterationSpace(space.table, loops, space.index)

    def _may_split(self, space: IterationSpace, position: int, divisor: int) -> bool:
        """The contiguous loop is not cut into pieces shorter than two vectors: lanes can be divided, too."""
        offset = physical_offset(self.nest.table, self.shape, space.index)
        return factor_of(offset, position) != 1 or divisor >= 2 * self._lanes()

    def _has_row_reductions(self, space: IterationSpace) -> bool:
        return any(access.row_reductions for access in self._accesses(space))

    def _vector_width(self, space: IterationSpace) -> int:
        """Lanes along the innermost loop; 0 if it must be scalar."""
        if not space.loops:
            return 0
        innermost = space.loops[-1]
        for access in self._accesses(space):
            for reduce, index in access.row_reductions:
                if any(e.uses_dim(innermost) for e in index) and 2 * self._reduced_size(reduce) > self._lanes():
                    return 0
        return self._lanes()

    def _reduced_size(self, reduce: HloInstruction) -> int:
        """How many elements make one result. Rows shorter than half a vector leave lanes idle: results go there."""
        return math.prod(v.bounds.upper + 1 for v in self.maps.of(reduce)[0][0].indexing.range_vars)

    def _lanes(self) -> int:
        """Elements per vector, by the types at the kernel's boundary. Scalars, as indices are, do not count."""
        boundary = (*(leaf for leaf in self.view.leaves if leaf.shape.rank), *self.roots)
        return lanes_for(self.nest.target, [i.shape.element_type for i in boundary if i.shape.is_array])

    def _merge_outer(self, space: IterationSpace, keep: int) -> IterationSpace:
        """Merges outer loops into one parallel loop until it has enough units; its div and mod are outside the rest.

        The `keep` innermost loops stay as they are.
        """
        last = len(space.loops) - keep
        while last > 1 and space.size(space.loops[0]) < MIN_PARALLEL_UNITS:
            outer, inner = space.loops[0], space.loops[1]
            bounds = [self.nest.intervals[p].lower for p in (outer, inner)]
            size = space.size(inner)
            merged = self.nest.new_variable(space.size(outer) * size)
            change = {
                outer: dim(merged).floordiv(size) + bounds[0],
                inner: dim(merged).mod(size) + bounds[1],
            }
            space = space.replace(change, [merged, *space.loops[2:]])
            last -= 1
        return space

    def _units(self, space: IterationSpace, width: int) -> int:
        if not space.loops:
            return 1
        size = space.size(space.loops[0])
        return max(1, size // width) if width and len(space.loops) == 1 else size

    def _count(self, space: IterationSpace, accesses: Sequence[Accesses]) -> None:
        """Adds the operations and reads of a space; what does not depend on a loop is computed outside of it."""
        sizes = {position: space.size(position) for position in space.loops}
        for mask, count in (item for a in accesses for item in a.evaluations.items()):
            work = count * self._values_of(mask, sizes)
            self.operations += work
            if space.loops and mask & self.analysis.range_mask and not mask >> space.loops[0] & 1:
                self.repeated += work
        points = math.prod(sizes.values())
        reduced = self._values_of(self.analysis.range_mask, {})
        for leaf, loads in (item for a in accesses for item in a.loads.items()):
            self._reads[leaf] = self._reads.get(leaf, 0) + points * loads * reduced

    def _values_of(self, mask: int, loops: Mapping[int, int]) -> int:
        """Returns how many values the loops and range variables of a bit set go through together."""
        count = math.prod(size for position, size in loops.items() if mask >> position & 1)
        ranges = mask & self.analysis.range_mask
        while ranges:
            bounds = self.nest.intervals[(ranges & -ranges).bit_length() - 1]
            count *= bounds.upper - bounds.lower + 1
            ranges &= ranges - 1
        return count

    def traffic(self) -> int:
        """Returns the bytes that the kernel reads and writes: no element is counted twice, none that is not touched."""
        read = sum(_part_of(leaf.shape, reads) for leaf, reads in self._reads.items())
        return read + sum(_part_of(buffer.shape, self.shape.num_elements) for buffer in self.results)


def _part_of(shape: Shape, elements: int) -> int:
    """Returns the bytes of some elements of an array, at most of all of them."""
    return shape.byte_size * min(elements, shape.num_elements) // max(1, shape.num_elements)


def same_dimensions(shapes: Sequence[Shape]) -> bool:
    """Whether all results can share one iteration space."""
    return all(s.dimensions == shapes[0].dimensions for s in shapes)
