"""Transpose tiles: loops for operands that are contiguous along another loop than the result is.

The innermost loop v walks across rows of such an operand, another loop u along them. Whole W x W tiles become a part
whose loops end in (v, W steps of u): see xjit.emitters.access.transpose_tile for what is done in one.
"""

from __future__ import annotations

from collections.abc import Iterator

from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.planning import LoopPlanning

MAX_TILED_OPERATIONS = 12


def transposed_loop(planning: LoopPlanning, space: IterationSpace, width: int) -> int | None:
    """Returns the loop along which operands are contiguous that the innermost loop walks across, if tiles pay."""
    innermost = space.loops[-1]
    if space.size(innermost) < width:
        return None
    accesses = planning.accesses(space)
    if sum(a.operations for a in accesses) > MAX_TILED_OPERATIONS:
        return None
    of_rows = [index for a in accesses for _, index in a.reductions if not any(e.uses_dim(innermost) for e in index)]
    votes: dict[int, int] = {}
    for offset in (o for a in accesses for o in a.offsets):
        if abs(factor_of(offset, innermost) or 0) <= 1:
            continue
        for position in space.loops[:-1]:
            if any(e.uses_dim(position) for index in of_rows for e in index):
                continue  # a tile would reduce its rows once more
            if factor_of(offset, position) == 1 and space.size(position) >= width:
                votes[position] = votes.get(position, 0) + 1
    return max(votes, key=lambda p: votes[p]) if votes else None


def tiled_spaces(space: IterationSpace, width: int, across: int) -> Iterator[tuple[IterationSpace, bool]]:
    """Yields the whole tiles (True), their loops ending in (vector, unrolled), and the rest (False)."""
    for number, strip in enumerate(space.peel(across, width)):
        whole_rows = number == 0
        for column, piece in enumerate(strip.peel(strip.loops[-1], width)):
            if not whole_rows or column:
                yield piece, False
                continue
            along = piece.loops[space.loops.index(across)]
            split = piece.split(along, width)
            outer, inner = split.loops[space.loops.index(across) : space.loops.index(across) + 2]
            others = [p for p in split.loops if p not in (outer, inner, split.loops[-1])]
            yield IterationSpace(space.table, [*others, outer, split.loops[-1], inner], split.index), True
