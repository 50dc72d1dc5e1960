"""Pieces of a concatenate that are equally long and read the same elements, as those of a rotation or a cross product:
one loop computes an element of each.
"""

from __future__ import annotations

from dataclasses import replace

from xjit.affine import constant
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork, PlanContext
from xjit.emitters.planners.cpu.regions import MAX_STACKED, is_in_a_vector, regions
from xjit.emitters.planners.cpu.row_columns import MIN_ELEMENTS
from xjit.hlo import attributes as at

MAX_DISTINCT = 0.75
"""Of what the pieces read one by one: so much may be read by one of them alone for a loop to gain by having all."""


def work_by_pieces(context: PlanContext, view: KernelView) -> LoopWork:
    """Returns all results of a view, those of such pieces together."""
    work = LoopWork.of(view)
    root = view.roots[0]
    if context.block_threads or context.target.scalar_loops or root.opcode != "concatenate" or len(view.roots) > 1:
        return work
    axis = root.attributes_as(at.ConcatenateAttributes).dimension
    lengths = {operand.shape.dimensions[axis] for operand in root.operands}
    if len(lengths) > 1 or root.operand_count > MAX_STACKED or root.shape.num_elements < MIN_ELEMENTS:
        return work
    length = lengths.pop()
    steps = [[constant(n * length * (d == axis)) for d in range(root.shape.rank)] for n in range(1, root.operand_count)]
    joined = replace(work, steps=tuple(map(tuple, steps)))
    return joined if steps and _shares_reads(LoopPlanning(context, view, VariableTable(), joined)) else work


def _shares_reads(planning: LoopPlanning) -> bool:
    if is_in_a_vector(planning, planning.work.roots[0]):
        return False
    accesses = planning.accesses(regions(planning)[0])
    reads = [read for each in accesses for read in set(each.reads)]
    return not any(each.reductions for each in accesses) and len(set(reads)) <= MAX_DISTINCT * len(reads)
