"""Loop kernels of GPUs: the elements in memory order, a block's worth after the other, each thread a vector of them.

All loops become one, so blocks are full whatever the shape is. Where every access of a thread's vector is one aligned
vector or one element, threads take vectors of up to 128 bits, else single elements: neighbouring threads then still
take neighbouring ones. What does not fill a block is a part of its own, done by another block.
"""

from __future__ import annotations

from dataclasses import replace

from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.planners.cpu.nests import PlanReduction, reductions_by_level
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.coalescing import are_vectors, walks_in_vectors, widest_vector
from xjit.emitters.planners.gpu.spaces import merge_loops, tiles_of
from xjit.emitters.planners.reduction import plan_reduction
from xjit.emitters.schedule.statements import Loop, Part, Reduction, Role, Statement
from xjit.hlo.ir.instruction import HloInstruction

THREADS = 256


def linear_parts(planning: LoopPlanning, space: IterationSpace) -> list[Part]:
    """Returns the elements of a space as one loop, shared out among blocks and threads."""
    space = merge_loops(space, 0, len(space.loops))
    if not space.loops:
        return [part_of(planning, space, [])]
    element = space.loops[0]
    width = vector_of(planning, space, element)
    if space.size(element) < THREADS * width:
        width = width if width and space.size(element) % width == 0 else 0
    found: list[Part] = []
    for piece in tiles_of(space, element, THREADS * max(1, width)):
        own = piece.loops[-1]
        lanes = width if width and piece.size(own) % width == 0 else 0
        loops = [Loop(p, Role.BLOCK, ()) for p in piece.loops[:-1]]
        found.append(part_of(planning, piece, [*loops, Loop(own, Role.THREAD, (), lanes)]))
    return found


def vector_of(planning: LoopPlanning, space: IterationSpace, loop: int) -> int:
    """Returns how many steps of a loop one thread takes as a vector; 0: one by one."""
    width = widest_vector(planning)
    if not width or space.size(loop) < width:
        return 0
    accesses = planning.accesses(space)
    stored = planning.stored_offsets(space)
    fits = are_vectors(planning.table, stored, loop, width) and walks_in_vectors(planning, accesses, loop, width)
    return width if fits else 0


def part_of(
    planning: LoopPlanning, space: IterationSpace, loops: list[Loop], plan: PlanReduction | None = None
) -> Part:
    """Returns the part that has the loops, with the reductions where their index is known, around the stores.

    `loops` are those of the space, in its order, with their roles.
    """
    planning.count.add(space, planning.accesses(space))
    levels = reductions_by_level(planning, space, loops, plan or one_by_one(planning))
    body: tuple[Statement, ...] = planning.work.stores(space.index)
    for loop, reductions in zip(reversed(loops), reversed(levels[1:]), strict=True):
        body = (replace(loop, body=(*reductions, *body)),)
    return Part((*levels[0], *body))


def one_by_one(planning: LoopPlanning) -> PlanReduction:
    """Returns the planner of reductions that each thread does for itself."""

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        return plan_reduction(planning.analysis, instruction, index, vectorised, planning.context.target)

    return plan
