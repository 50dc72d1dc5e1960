"""Operands whose short rows lie across the result: each thread takes a whole row of them, one element after the other.

The elements of a result's row are then as far apart in the operand as its rows are long, and rows too short for tiles
fill sectors that every row of the result needs. What a thread takes of a row comes from sectors that its block has
read already; neighbouring threads write neighbours.
"""

from __future__ import annotations

from math import prod

from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.loops import THREADS, part_of
from xjit.emitters.planners.gpu.spaces import merge_loops, tiles_of
from xjit.emitters.schedule.statements import Loop, Part, Role

MAX_ROW_BYTES = 256
"""Of a block's rows, 64 KiB: what its caches keep."""

MIN_BLOCKS = 64
"""Fewer do not fill a GPU; what they read stays in its caches in any order."""

MAX_UNROLLED_STEPS = 16


def short_row_loops(planning: LoopPlanning, space: IterationSpace) -> list[int]:
    """Returns the loops that walk through short rows of an operand while the innermost one goes from row to row."""
    accesses = planning.accesses(space)
    if len(space.loops) < 2 or any(item.conditional or item.reductions for item in accesses):
        return []
    inner, found, bytes_of_rows = space.loops[-1], dict[int, None](), 0
    for leaf, index in dict.fromkeys(read for item in accesses for read in item.reads):
        offset = physical_offset(planning.table, planning.analysis.leaves[leaf], index)
        stride = abs(factor_of(offset, inner) or 0)
        if stride > 1:
            found |= dict.fromkeys(p for p in space.loops[:-1] if 0 < abs(factor_of(offset, p) or 0) < stride)
            bytes_of_rows += stride * leaf.shape.element_type.byte_width
    threads = prod(space.size(p) for p in space.loops if p not in found)
    return list(found) if bytes_of_rows <= MAX_ROW_BYTES and threads >= MIN_BLOCKS * THREADS else []


def short_row_parts(planning: LoopPlanning, space: IterationSpace, rows: list[int]) -> list[Part]:
    """Returns parts whose threads go through `rows`; all other loops become one, shared out among blocks."""
    others = [p for p in space.loops if p not in rows]
    space = IterationSpace(space.table, [*others, *rows], space.index)
    space = merge_loops(space, 0, len(others))
    role = Role.UNROLL if prod(space.size(p) for p in rows) <= MAX_UNROLLED_STEPS else Role.SERIAL
    found: list[Part] = []
    for piece in tiles_of(space, space.loops[0], THREADS):
        *blocks, own = piece.loops[: len(piece.loops) - len(rows)]
        loops = [*(Loop(p, Role.BLOCK, ()) for p in blocks), Loop(own, Role.THREAD, ())]
        found.append(part_of(planning, piece, [*loops, *(Loop(p, role, ()) for p in rows)]))
    return found
