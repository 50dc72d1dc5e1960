"""Reductions that threads of a block do together: along rows of contiguous memory, or over rows for a tile of columns.

Only reducers with an identity that are known to be associative: each thread starts with the identity, and the tree that
combines them depends on the schedule alone.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr, delinearize, dim
from xjit.emitters.access_analysis import Index
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.coalescing import walks_in_vectors, widest_vector
from xjit.emitters.planners.reduction import range_symbols
from xjit.emitters.schedule.statements import Combination, Lanes, Reduction, Role
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.reducers import reduction_identity


def reduced_count(planning: LoopPlanning, instruction: HloInstruction) -> int:
    """Returns how many elements a reduction takes together for one element of its result."""
    return math.prod(planning.table.size(e.position) for e in range_symbols(planning.analysis, instruction))


def can_be_shared(instruction: HloInstruction) -> bool:
    """Whether threads may each start from the identity."""
    return (
        instruction.opcode == "reduce"
        and instruction.operand_count == 2
        and reduction_identity(instruction.to_apply) is not None
    )


def shared_reduction(planning: LoopPlanning, instruction: HloInstruction, index: Index, role: Role) -> Reduction:
    """Plans a reduction whose elements are shared out among those of a role.

    Its ranges become one. Where that walks through memory, threads of a warp, or of the block, take vectors.
    """
    table = planning.table
    ranges = [e.position for e in range_symbols(planning.analysis, instruction) if table.size(e.position) > 1]
    symbols: tuple[AffineExpr, ...] = tuple(table.simplify(e) for e in range_symbols(planning.analysis, instruction))
    if len(ranges) == 1:
        walked = ranges[0]
    else:
        sizes = [table.size(e.position) for e in symbols]
        walked = table.new_variable(math.prod(sizes))
        symbols = tuple(table.simplify(e) for e in delinearize(dim(walked), sizes))
    width = 1
    if role is not Role.WARP and len(ranges) == 1:
        width = _width(planning, instruction, index, walked)
    return Reduction(instruction.name, index, (), (symbols,), Combination.TREE, Lanes(walked, width, role=role))


def _width(planning: LoopPlanning, instruction: HloInstruction, index: Index, walked: int) -> int:
    width = widest_vector(planning)
    if not width or planning.table.size(walked) % width:
        return 1
    accesses = planning.analysis.reduced_accesses(instruction, index)
    return width if walks_in_vectors(planning, [accesses], walked, width) else 1
