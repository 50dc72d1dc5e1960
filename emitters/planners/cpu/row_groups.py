"""Reductions of many short rows: as many rows at a time as a register has lanes.

What is left of a row when its elements are in the lanes of one register takes longer to combine than the elements of a
short row did. A group of rows is combined at once, and what is computed once per row is computed in vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import MAX_COLUMNS, IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.nests import merge_outer, reductions_by_level
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.reduction import plan_reduction, range_symbols, selects_index
from xjit.emitters.schedule.statements import (
    Loop,
    Memory,
    Part,
    Reduce,
    ReduceRows,
    Reduction,
    Role,
    Statement,
    Tile,
)
from xjit.hlo.ir.instruction import HloInstruction

MAX_ROW = 128  # elements of a row: of longer ones, the lanes are a small part of the work
MIN_GROUPS = 4


def group_rows(planning: LoopPlanning, space: IterationSpace, width: int) -> list[IterationSpace]:
    """Cuts the loop over rows into groups and single rows; returns the groups and then what is left of the space.

    Only the space itself where rows are long, few, or not reduced by lanes, or where the lanes are `width` rows anyway.
    """
    row = _row_loop(planning, space)
    if width and row == space.loops[-1] and (reads_blocks(planning, space) or not _searches(planning, space)):
        return [space]
    lanes = _lanes(planning, space) if row is not None else 0
    if row is None or not lanes or space.size(row) < MIN_GROUPS * lanes:
        return [space]
    whole, *rest = space.peel(row, lanes)
    last = whole.loops[space.loops.index(row)]
    return [whole.split(last, lanes), *rest]


def reads_blocks(planning: LoopPlanning, space: IterationSpace, row: int | None = None) -> bool:
    """Whether reductions are of short rows that lie behind each other along a loop, the innermost one by default: where
    its lanes are rows, they are turned to columns in registers (see xjit.emitters.access.row_block).
    """
    target, found = planning.context.target, reductions_of(planning, space)
    if not target.has_vector_arithmetic or target.scalar_loops or not found:
        return False
    row = space.loops[-1] if row is None else row
    return all(i.opcode == "reduce" and _reads_block(planning, i, index, row) for i, index in found)


def _reads_block(planning: LoopPlanning, instruction: HloInstruction, index: Index, row: int) -> bool:
    ranges = range_symbols(planning.analysis, instruction)
    if math.prod(planning.table.size(e.position) for e in ranges) > MAX_COLUMNS:
        return False
    accesses = planning.analysis.reduced_accesses(instruction, index)
    if any(leaf.shape.element_type.is_complex for leaf, _ in accesses.reads):
        return False
    steps = {leaf: factor_of(offset, row) for (leaf, _), offset in zip(accesses.reads, accesses.offsets, strict=True)}
    columns = sum(step for step in steps.values() if step is not None and step > 1)  # that are in registers at once
    return 0 < columns <= MAX_COLUMNS and all(step is not None and step >= 0 for step in steps.values())


def row_group_part(planning: LoopPlanning, space: IterationSpace) -> Part | None:
    """Plans the loops over groups of rows and their reductions; None where they are not all of the same rows."""
    columns = 0 if reductions_use(planning, space, space.loops[-1]) else 1
    space = merge_outer(space, 1 + columns)
    row = space.loops[-1 - columns]
    loops = [Loop(p, Role.SERIAL, ()) for p in space.loops]
    target, lanes = planning.context.target, planning.table.size(row)

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        return plan_reduction(planning.analysis, instruction, index, vectorised, target, lanes)

    levels = reductions_by_level(planning, space, loops, plan)
    depth = len(loops) - columns
    own = [_of_rows(planning, statement, row) for statement in levels[depth]]
    found = [statement for statement in own if statement is not None]
    if not found or len(found) < len(own) or any(levels[1:depth]) or any(levels[depth + 1 :]):
        return None
    planning.count.add(space, planning.accesses(space))
    found.sort(key=lambda statement: len(_needed(planning, statement.reduction)))
    stores: tuple[Statement, ...] = planning.work.stores(space.index)
    if columns:
        stores = (Loop(space.loops[-1], Role.VECTOR, stores, planning.lanes),)
        body: tuple[Statement, ...] = (*found, Loop(row, Role.SERIAL, stores))
    else:
        body = (*found, Loop(row, Role.VECTOR, stores, lanes))
    for number, position in reversed(list(enumerate(space.loops[: depth - 1]))):
        body = (Loop(position, Role.SERIAL if number else Role.TASK, body),)
    tiles = tuple(Tile(s.reduction.instruction, (row,), Memory.STACK) for s in found)
    return Part((*levels[0], *body), tiles)


def _of_rows(planning: LoopPlanning, statement: Statement, row: int) -> ReduceRows | None:
    """A reduction that is to be done for a group of rows; None if it cannot be."""
    if not isinstance(statement, Reduce) or statement.where_needed:
        return None
    reduction = statement.reduction
    if reduction.lanes is None or reduction.within or reduction.lanes.width != planning.table.size(row):
        return None
    return ReduceRows(reduction, row)


def _needed(planning: LoopPlanning, reduction: Reduction) -> Sequence[tuple[HloInstruction, Index]]:
    """The reductions that the elements of one need, and those that these need: none of them needs as many itself."""
    (instruction,) = (i for i in planning.view.instructions() if i.name == reduction.instruction)
    return planning.analysis.reduced_accesses(instruction, reduction.index).reductions


def reductions_of(planning: LoopPlanning, space: IterationSpace) -> Sequence[tuple[HloInstruction, Index]]:
    """The reductions that an element of a space needs, with their indices."""
    return [item for accesses in planning.accesses(space) for item in accesses.reductions]


def _searches(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether each reduction searches for an index, which takes long for rows that lie across lanes."""
    found = reductions_of(planning, space)
    return bool(found) and all(i.opcode == "reduce" and selects_index(i) for i, _ in found)


def reductions_use(planning: LoopPlanning, space: IterationSpace, loop: int) -> bool:
    """Whether the index of a reduction depends on a loop."""
    return any(e.uses_dim(loop) for _, index in reductions_of(planning, space) for e in index)


def _row_loop(planning: LoopPlanning, space: IterationSpace) -> int | None:
    """The loop over rows: the innermost one, or the one around a loop over columns that no reduction depends on."""
    target = planning.context.target
    if not target.has_vector_arithmetic or target.scalar_loops or not space.loops:
        return None
    if reductions_use(planning, space, space.loops[-1]):
        return space.loops[-1]
    if len(space.loops) > 1 and reductions_use(planning, space, space.loops[-2]):
        return space.loops[-2]
    return None


def _lanes(planning: LoopPlanning, space: IterationSpace) -> int:
    """Lanes that the reductions of a space have, those of wide types; 0 if rows are too long for groups."""
    found: set[int] = set()
    for instruction, index in reductions_of(planning, space):
        if instruction.opcode != "reduce":
            return 0
        ranges = range_symbols(planning.analysis, instruction)
        row = math.prod(planning.table.size(e.position) for e in ranges)
        if row > MAX_ROW:
            return 0
        reduction = plan_reduction(planning.analysis, instruction, index, False, planning.context.target)
        if reduction.lanes is None:
            return 0
        found.add(min(reduction.lanes.width, 1 << (row - 1).bit_length()))
    return min(found, default=0)
