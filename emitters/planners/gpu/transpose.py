"""Transposes on GPUs: tiles that are read along the operand's rows, and written along the result's.

A tile lies in shared memory meanwhile, at `row * (columns + 1) + column`: the padding keeps both the rows and the
columns of a tile in different banks.
"""

from __future__ import annotations

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.spaces import merge_loops, tiles_of
from xjit.emitters.schedule.statements import Barrier, Loop, Memory, Part, Role, Stage, Statement, Tile
from xjit.hlo.ir.instruction import HloInstruction

TILE = 32  # rows and columns: one row for each warp, one element for each lane
MIN_SIZE = 16  # shorter rows are not worth the way through shared memory
MAX_TILE_BYTES = 32 * 1024
PADDING = 1


def transposed_loop(planning: LoopPlanning, space: IterationSpace) -> int | None:
    """Returns the loop along which elements are contiguous that the innermost one reads across, if any."""
    accesses = planning.accesses(space)
    if len(space.loops) < 2 or any(item.conditional or item.reductions for item in accesses):
        return None
    inner = space.loops[-1]
    if space.size(inner) < MIN_SIZE:
        return None
    outer = [p for p in space.loops[:-1] if space.size(p) >= MIN_SIZE]
    votes = {loop: _reads_across(planning, space, loop, inner) for loop in outer}
    best = max(outer, key=lambda loop: len(votes[loop]), default=None)
    if best is None or not votes[best]:
        return None
    leaves = [leaf for leaf, _ in votes[best]]
    size = sum(leaf.shape.element_type.byte_width for leaf in leaves) * TILE * (TILE + PADDING)
    return best if size <= MAX_TILE_BYTES and len(set(leaves)) == len(leaves) else None


def _reads_across(
    planning: LoopPlanning, space: IterationSpace, along: int, inner: int
) -> list[tuple[HloInstruction, Index]]:
    """Returns the elements that are contiguous along one loop, and that another one reads across."""
    found: list[tuple[HloInstruction, Index]] = []
    for leaf, index in dict.fromkeys(read for item in planning.accesses(space) for read in item.reads):
        offset = physical_offset(planning.table, planning.analysis.leaves[leaf], index)
        if factor_of(offset, along) == 1 and abs(factor_of(offset, inner) or 0) > 1:
            found.append((leaf, index))
    return found


def transposed_parts(planning: LoopPlanning, space: IterationSpace, along: int) -> list[Part]:
    """Returns whole tiles, and those at the edges of the two loops, which are smaller."""
    found: list[Part] = []
    at = space.loops.index(along)
    for strip in tiles_of(space, along, TILE):
        split = len(strip.loops) > len(space.loops)
        column = strip.loops[at + 1 if split else at]
        for piece in tiles_of(strip, strip.loops[-1], TILE):
            found.append(_tile(planning, piece, column))
    return found


def _tile(planning: LoopPlanning, space: IterationSpace, column: int) -> Part:
    """Returns the part of tiles whose `column` is contiguous in the operand, and whose last loop so in the result."""
    row = space.loops[-1]
    others = [p for p in space.loops if p not in (column, row)]
    space = merge_loops(IterationSpace(space.table, [*others, column, row], space.index), 0, len(others))
    planning.count.add(space, planning.accesses(space))
    reads = _reads_across(planning, space, column, row)
    place = _position(planning, column) * (planning.table.size(row) + PADDING) + _position(planning, row)
    tiles = tuple(Tile(leaf.name, (column, row), Memory.SHARED, place) for leaf, _ in reads)
    staged = tuple(Stage(leaf.name, index) for leaf, index in reads)
    stage = Loop(row, Role.WARP, (Loop(column, Role.LANE, staged),))
    store = Loop(column, Role.WARP, (Loop(row, Role.LANE, planning.work.stores(space.index)),))
    body: tuple[Statement, ...] = (stage, Barrier(), store)
    for block in reversed(space.loops[:-2]):
        body = (Loop(block, Role.BLOCK, body),)
    return Part(body, tiles)


def _position(planning: LoopPlanning, loop: int) -> AffineExpr:
    return dim(loop) - planning.table.intervals[loop].lower
