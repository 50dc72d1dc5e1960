"""Short rows that are reduced and written again, as softmax's are, or joined, or gathered: lanes are rows, and all
columns are written out.

Along a row of a few elements most lanes of a vector would be idle, and its sum would be combined across lanes. With a
row in each lane, sums are those of vectors, what is computed for an element is computed once, and blocks of rows are
turned in registers as they are read and written (see xjit.emitters.access.row_block).
"""

from __future__ import annotations

import math

from xjit.affine import constant
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import MAX_COLUMNS, IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.nests import merge_outer, reductions_by_level
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.cpu.row_groups import reads_blocks, reductions_of, reductions_use
from xjit.emitters.planners.reduction import plan_reduction, range_symbols
from xjit.emitters.schedule.statements import Let, Loop, Part, Reduce, Reduction, Role, Statement
from xjit.hlo.attributes import ConcatenateAttributes
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction

LENGTHS = range(2, MAX_COLUMNS + 1)
MIN_CHEAP_LENGTH = 4
MANY_OPERATIONS = 16
MIN_GATHERED_ROW = 6
"""Elements: rows from anywhere that are as long are read as one each."""
MIN_VECTORS = 4  # of rows
MIN_ELEMENTS = 1 << 14
"""For fewer, code for every column is not worth its compilation."""


def row_columns_part(planning: LoopPlanning, space: IterationSpace) -> Part | None:
    """Plans vectors of rows, with their reductions and the stores of each column; None for other spaces."""
    if not suits_columns(planning, space):
        return None
    space = merge_outer(space, 2)
    planning.count.add(space, planning.accesses(space))
    loops = [Loop(p, Role.SERIAL, ()) for p in space.loops[:-2]] + [
        Loop(space.loops[-2], Role.VECTOR, (), planning.lanes)
    ]
    column = space.loops[-1]
    columns = [space.replace({column: constant(n)}, space.loops[:-1]) for n in range(space.size(column))]

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        return plan_reduction(planning.analysis, instruction, index, vectorised, planning.context.target)

    levels: list[list[Let | Reduce]] = [[] for _ in range(len(loops) + 1)]
    for each in columns if reductions_use(planning, space, column) else columns[:1]:
        for level, found in zip(levels, reductions_by_level(planning, each, loops, plan), strict=True):
            level += [statement for statement in found if statement not in level]
    body: tuple[Statement, ...] = tuple(store for each in columns for store in planning.work.stores(each.index))
    for number, loop in reversed(list(enumerate(loops))):
        role = loop.role if number else Role.TASK
        body = (Loop(loop.variable, role, (*levels[number + 1], *body), loop.lanes),)
    return Part((*levels[0], *body))


def suits_columns(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether the innermost loop is over columns of rows that lie behind each other in the results, and reduces rows,
    gathers them, or joins columns that are computed one by one.

    A register holds several rows of few columns: that is as good where each element is cheap, and its own.
    """
    target = planning.context.target
    if len(space.loops) < 2 or not target.has_vector_arithmetic or target.scalar_loops:
        return False
    row, column = space.loops[-2:]
    length = space.size(column)
    if length not in LENGTHS or space.table.intervals[column].lower or space.size(row) < MIN_VECTORS * planning.lanes:
        return False
    if planning.work.shape.num_elements < MIN_ELEMENTS:
        return False
    if any(factor_of(o, row) != length or factor_of(o, column) != 1 for o in planning.stored_offsets(space)):
        return False
    if any(shape.element_type.is_complex for root in planning.work.roots for _, shape in root.shape.leaves()):
        return False
    if reductions_use(planning, space, column):
        return (length >= planning.lanes or _reduces_many(planning, space)) and reads_blocks(planning, space, row)
    instructions, reduces = planning.view.instructions(), bool(reductions_of(planning, space))
    gathers = any(i.opcode == "gather" for i in instructions)
    if gathers and not reduces and length < MIN_GATHERED_ROW:
        return True
    if length < MIN_CHEAP_LENGTH and not _is_costly(planning, space):
        return False
    if reduces:
        return reads_blocks(planning, space, row)
    return any(joins_columns(i) and i.shape.dimensions[-1] == length for i in instructions)


def _reduces_many(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether an element takes as many others as a row has that is no longer short."""
    sizes = [
        math.prod(planning.table.size(e.position) for e in range_symbols(planning.analysis, instruction))
        for instruction, _ in reductions_of(planning, space)
    ]
    return max(sizes) >= MIN_CHEAP_LENGTH


def _is_costly(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether elements take long to compute, or to find: their rows are parts of long ones."""
    accesses = planning.accesses(space)
    is_long = any(i.op.has(Trait.TRANSCENDENTAL) for i in planning.view.instructions())
    if is_long or sum(each.operations for each in accesses) >= MANY_OPERATIONS:
        return True
    offsets = [offset for each in accesses for offset in each.offsets]
    return any((factor_of(offset, space.loops[-2]) or 0) > MAX_COLUMNS for offset in offsets)


def joins_columns(instruction: HloInstruction) -> bool:
    """Whether it is a concatenate of columns, which are the minor dimension: of single ones, most of them."""
    if instruction.opcode != "concatenate":
        return False
    axis = instruction.attributes_as(ConcatenateAttributes).dimension
    is_minor = instruction.shape.layout is None or instruction.shape.minor_to_major[0] == axis
    return is_minor and 2 * instruction.operand_count > instruction.shape.dimensions[axis]
