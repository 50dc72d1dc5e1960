"""Column reductions of GPUs: the minor dimensions stay, so the threads of a warp take neighbouring columns.

The warps of a block share the rows of its columns out, and combine what they have through shared memory.
"""

from __future__ import annotations

from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.nests import PlanReduction
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.loops import THREADS, one_by_one, part_of, vector_of
from xjit.emitters.planners.gpu.shared_reductions import can_be_shared, reduced_count, shared_reduction
from xjit.emitters.planners.gpu.spaces import merge_loops, tiles_of
from xjit.emitters.schedule.statements import Loop, Part, Reduction, Role
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.gpu_models import WARP_SIZE

MIN_ROWS = 4 * THREADS // WARP_SIZE  # fewer are not worth sharing out
MIN_BLOCKS = 128  # columns are taken in vectors if there are as many blocks then


def column_reductions(planning: LoopPlanning, space: IterationSpace) -> set[tuple[HloInstruction, Index]]:
    """Returns the reductions over many rows whose operands are contiguous along the innermost loop."""
    accesses = planning.accesses(space)
    if not space.loops or any(item.conditional for item in accesses):
        return set()
    inner, found = space.loops[-1], set[tuple[HloInstruction, Index]]()
    for item in accesses:
        for instruction, index in item.reductions:
            known = all(p in space.loops for e in index for p in e.dims)
            if not known or not can_be_shared(instruction) or reduced_count(planning, instruction) < MIN_ROWS:
                continue
            offsets = planning.analysis.deciding_offsets(instruction, index)
            along = sum(1 for offset in offsets if factor_of(offset, inner) == 1)
            if 2 * along > len(offsets) and (instruction, index) not in item.row_reductions:
                found.add((instruction, index))
    return found


def column_parts(planning: LoopPlanning, space: IterationSpace) -> list[Part]:
    """Returns the parts of a space whose innermost loop goes from column to column."""
    space = merge_loops(space, 0, len(space.loops) - 1)
    column = space.loops[-1]
    others = space.size(space.loops[0]) if len(space.loops) > 1 else 1
    width = vector_of(planning, space, column)
    if space.size(column) // (WARP_SIZE * max(1, width)) * others < MIN_BLOCKS:
        width = 0
    found: list[Part] = []
    for piece in tiles_of(space, column, WARP_SIZE * max(1, width)):
        own = piece.loops[-1]
        if width and piece.size(own) % width:
            found += [_part(planning, rest, 0) for rest in tiles_of(piece, own, WARP_SIZE)]
        else:
            found.append(_part(planning, piece, width))
    return found


def _part(planning: LoopPlanning, space: IterationSpace, width: int) -> Part:
    space = merge_loops(space, 0, len(space.loops) - 1)
    loops = [*(Loop(p, Role.BLOCK, ()) for p in space.loops[:-1]), Loop(space.loops[-1], Role.LANE, (), width)]
    return part_of(planning, space, loops, _over_warps(planning, column_reductions(planning, space)))


def _over_warps(planning: LoopPlanning, columns: set[tuple[HloInstruction, Index]]) -> PlanReduction:
    alone = one_by_one(planning)

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        if (instruction, index) in columns:
            return shared_reduction(planning, instruction, index, Role.WARP)
        return alone(instruction, index, vectorised)

    return plan
