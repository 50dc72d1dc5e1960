"""Row kernels of GPUs: a block, or a warp, takes a row, reduces it, and computes what needs the result.

So a softmax or a layer norm is one kernel: every thread gets the sum of its row and goes on with elements of it. Short
rows are for warps, which need no barrier; a block then has as many rows as warps.
"""

from __future__ import annotations

from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.planners.cpu.nests import PlanReduction
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.loops import THREADS, one_by_one, part_of, vector_of
from xjit.emitters.planners.gpu.shared_reductions import can_be_shared, reduced_count, shared_reduction
from xjit.emitters.planners.gpu.spaces import merge_loops, tiles_of
from xjit.emitters.schedule.statements import Loop, Part, Reduction, Role
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.gpu_models import WARP_SIZE

WARPS = THREADS // WARP_SIZE
LONGEST_ROW_OF_A_WARP = 1024  # elements: 8 vectors of f32 for each lane


def row_depth(planning: LoopPlanning, space: IterationSpace) -> int | None:
    """Returns how many outer loops give the index of every reduction that is to be shared; None if there is none."""
    depths = [
        max((space.loops.index(p) + 1 for e in index for p in e.dims), default=0) for _, index in _rows(planning, space)
    ]
    return max(depths) if depths else None


def _rows(planning: LoopPlanning, space: IterationSpace) -> list[tuple[HloInstruction, Index]]:
    """Returns the reductions along contiguous memory whose index the loops of the space give."""
    accesses = planning.accesses(space)
    if any(item.conditional for item in accesses):
        return []
    return [
        (instruction, index)
        for item in accesses
        for instruction, index in item.row_reductions
        if can_be_shared(instruction)
        and reduced_count(planning, instruction) >= WARP_SIZE
        and all(p in space.loops for e in index for p in e.dims)
    ]


def row_parts(planning: LoopPlanning, space: IterationSpace, depth: int) -> list[Part]:
    """Returns the parts of a space whose `depth` outer loops number rows."""
    space = merge_loops(merge_loops(space, depth, len(space.loops)), 0, depth)
    longest = max(reduced_count(planning, instruction) for instruction, _ in _rows(planning, space))
    if depth == 0:
        return [_part(planning, space, [], Role.THREAD)]
    row = space.loops[0]
    if longest > LONGEST_ROW_OF_A_WARP:
        return [_part(planning, space, [Loop(row, Role.BLOCK, ())], Role.THREAD)]
    found: list[Part] = []
    for piece in tiles_of(space, row, WARPS):
        inner = 0 if len(space.loops) == 1 else 1
        *blocks, own = piece.loops[: len(piece.loops) - inner]
        loops = [*(Loop(p, Role.BLOCK, ()) for p in blocks), Loop(own, Role.WARP, ())]
        found.append(_part(planning, piece, loops, Role.LANE))
    return found


def _part(planning: LoopPlanning, space: IterationSpace, loops: list[Loop], role: Role) -> Part:
    """Returns the part in which those of a role take the rows' elements."""
    rows = set(_rows(planning, space))
    elements = space.loops[len(loops) :]
    for element in elements:
        width = vector_of(planning, space, element)
        loops = [*loops, Loop(element, role, (), width if width and space.size(element) % width == 0 else 0)]
    return part_of(planning, space, loops, _together(planning, rows, role))


def _together(planning: LoopPlanning, rows: set[tuple[HloInstruction, Index]], role: Role) -> PlanReduction:
    alone = one_by_one(planning)

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        if (instruction, index) in rows:
            return shared_reduction(planning, instruction, index, role)
        return alone(instruction, index, vectorised)

    return plan
