"""Iteration spaces as GPUs want them: few loops, whose steps are numbered along memory."""

from __future__ import annotations

from xjit.affine import dim
from xjit.emitters.loops.iteration_space import IterationSpace


def merge_loops(space: IterationSpace, first: int, last: int) -> IterationSpace:
    """Returns the space with the loops number first .. last - 1 merged into one, which counts their steps in order."""
    while last - first > 1:
        outer, inner = space.loops[first : first + 2]
        lower = [space.table.intervals[p].lower for p in (outer, inner)]
        size = space.size(inner)
        merged = space.table.new_variable(space.size(outer) * size)
        change = {outer: dim(merged).floordiv(size) + lower[0], inner: dim(merged).mod(size) + lower[1]}
        space = space.replace(change, [*space.loops[:first], merged, *space.loops[first + 2 :]])
        last -= 1
    return space


def tiles_of(space: IterationSpace, loop: int, size: int) -> list[IterationSpace]:
    """Returns the space of whole tiles of a loop, which becomes (tile, step), and that of the rest, in which it stays.

    Either may be missing. A loop of a single tile has no loop over tiles.
    """
    found: list[IterationSpace] = []
    at = space.loops.index(loop)
    for piece in space.peel(loop, size):
        own = piece.loops[at]
        found.append(piece.split(own, size) if piece.size(own) > size else piece)
    return found
