"""Reductions that threads of a block do together: along rows of contiguous memory, or over rows for a tile of columns.

Only reducers that are known to be associative. Threads start with the identity, or with some element in a search for an
extremum and its index; the tree that combines what they have depends on the schedule alone.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr, delinearize, dim
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.gpu.coalescing import walks_in_vectors, widest_vector
from xjit.emitters.planners.reduction import range_symbols, selects_index
from xjit.emitters.schedule.statements import Combination, Lanes, Reduction, Role
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.reducers import independent_identities

THREADS = 256


def reduced_count(planning: LoopPlanning, instruction: HloInstruction) -> int:
    """Returns how many elements a reduction takes together for one element of its result."""
    return math.prod(planning.table.size(e.position) for e in range_symbols(planning.analysis, instruction))


def can_be_shared(instruction: HloInstruction) -> bool:
    """Whether threads may each take some elements, and combine what they have."""
    if instruction.opcode != "reduce":
        return False
    return independent_identities(instruction.to_apply) is not None or selects_index(instruction)


def shared_reduction(planning: LoopPlanning, instruction: HloInstruction, index: Index, role: Role) -> Reduction:
    """Plans a reduction whose elements are shared out among those of a role.

    Its ranges become one. Where that walks through memory, threads of a warp, or of the block, take vectors. A search
    for an extremum comes by the elements that threads started with once more, which changes nothing.
    """
    table = planning.table
    positions = [e.position for e in range_symbols(planning.analysis, instruction)]
    ranges = [position for position in positions if table.size(position) > 1]
    symbols: tuple[AffineExpr, ...] = tuple(table.simplify(dim(position)) for position in positions)
    if independent_identities(instruction.to_apply) is None:
        (column,) = ranges
        lanes = Lanes(column, 1, first=table.new_variable(min(table.size(column), THREADS)), role=role)
        return Reduction(instruction.name, index, (), (symbols,), Combination.SELECT, lanes)
    if len(ranges) == 1:
        walked = ranges[0]
    else:
        sizes = [table.size(position) for position in positions]
        walked = table.new_variable(math.prod(sizes))
        symbols = tuple(table.simplify(e) for e in delinearize(dim(walked), sizes))
    width = 1
    if role is not Role.WARP and len(ranges) == 1 and instruction.operand_count == 2:
        width = _width(planning, instruction, index, walked)
    return Reduction(instruction.name, index, (), (symbols,), Combination.TREE, Lanes(walked, width, role=role))


def _width(planning: LoopPlanning, instruction: HloInstruction, index: Index, walked: int) -> int:
    width = widest_vector(planning)
    if not width or planning.table.size(walked) % width:
        return 1
    accesses = planning.analysis.reduced_accesses(instruction, index)
    return width if walks_in_vectors(planning, [accesses], walked, width) else 1
