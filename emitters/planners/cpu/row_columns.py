"""Short rows that are reduced and written again, as softmax's are: lanes are rows, and all columns are written out.

Along a row of a few elements most lanes of a vector would be idle, and its sum would be combined across lanes. With a
row in each lane, sums are those of vectors, what is computed for an element is computed once, and blocks of rows are
turned in registers as they are read and written (see xjit.emitters.access.row_block).
"""

from __future__ import annotations

from xjit.affine import constant
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import MAX_COLUMNS, IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.nests import merge_outer, reductions_by_level
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.cpu.row_groups import reads_blocks
from xjit.emitters.planners.reduction import plan_reduction
from xjit.emitters.schedule.statements import Loop, Part, Reduction, Role, Statement
from xjit.hlo.attributes import ConcatenateAttributes
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction

LENGTHS = range(2, MAX_COLUMNS + 1)
MIN_CHEAP_LENGTH = 4
MIN_VECTORS = 4  # of rows


def row_columns_part(planning: LoopPlanning, space: IterationSpace, width: int) -> Part | None:
    """Plans vectors of `width` rows, with their reductions and the stores of each column; None for other spaces."""
    if not width or not suits_columns(planning, space):
        return None
    columns = space.loops[-1]
    space = merge_outer(space, 2)
    planning.count.add(space, planning.accesses(space))
    loops = [Loop(p, Role.SERIAL, ()) for p in space.loops[:-2]] + [Loop(space.loops[-2], Role.VECTOR, (), width)]
    rows = IterationSpace(space.table, space.loops[:-1], space.index)

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        return plan_reduction(planning.analysis, instruction, index, vectorised, planning.context.target)

    levels = reductions_by_level(planning, rows, loops, plan)
    body: tuple[Statement, ...] = tuple(
        store
        for column in range(space.size(columns))
        for store in planning.work.stores(space.replace({columns: constant(column)}, rows.loops).index)
    )
    for number, loop in reversed(list(enumerate(loops))):
        role = loop.role if number else Role.TASK
        body = (Loop(loop.variable, role, (*levels[number + 1], *body), loop.lanes),)
    return Part((*levels[0], *body))


def suits_columns(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether the innermost loop is over columns of rows that lie behind each other in the results, and either reduces
    rows or joins columns that are computed one by one.

    Rows of which a register holds several are as good as their elements are cheap, which it computes for all lanes.
    """
    target = planning.context.target
    if len(space.loops) < 2 or not target.has_vector_arithmetic or target.scalar_loops:
        return False
    row, column = space.loops[-2:]
    length = space.size(column)
    if length not in LENGTHS or space.table.intervals[column].lower or space.size(row) < MIN_VECTORS * planning.lanes:
        return False
    if any(factor_of(o, row) != length or factor_of(o, column) != 1 for o in planning.stored_offsets(space)):
        return False
    if any(shape.element_type.is_complex for root in planning.work.roots for _, shape in root.shape.leaves()):
        return False
    if length < MIN_CHEAP_LENGTH and not _is_costly(planning, space):
        return False
    reductions = [item for accesses in planning.accesses(space) for item in accesses.reductions]
    if not reductions:
        joined = [i for i in planning.view.instructions() if joins_columns(i)]
        return any(i.shape.dimensions[-1] == length for i in joined)
    return not any(e.uses_dim(column) for _, index in reductions for e in index) and reads_blocks(planning, space, row)


def _is_costly(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether elements take long to compute, or to find: their rows are parts of long ones."""
    if any(i.op.has(Trait.TRANSCENDENTAL) for i in planning.view.instructions()):
        return True
    offsets = [offset for accesses in planning.accesses(space) for offset in accesses.offsets]
    return any((factor_of(offset, space.loops[-2]) or 0) > MAX_COLUMNS for offset in offsets)


def joins_columns(instruction: HloInstruction) -> bool:
    """Whether it is a concatenate of columns, which are the minor dimension: of single ones, most of them."""
    if instruction.opcode != "concatenate":
        return False
    axis = instruction.attributes_as(ConcatenateAttributes).dimension
    is_minor = instruction.shape.layout is None or instruction.shape.minor_to_major[0] == axis
    return is_minor and 2 * instruction.operand_count > instruction.shape.dimensions[axis]
