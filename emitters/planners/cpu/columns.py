"""Reductions that keep the minor dimensions: sums of columns.

A strip of columns has its accumulators on the stack, where they stay in the first-level cache. All reduced rows of the
strip go past them in memory order, a few at a time, so every operand is read along its rows. The rows of a column are
combined one after the other: any reducer will do, and neither strips nor threads show in the result.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr, constant, dim
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import VariableTable, factor_of
from xjit.emitters.planners.cpu.loops import plain_parts, plan_loops, plan_parts, same_dimensions, vector_width
from xjit.emitters.planners.cpu.nests import drop_single_trips, merge_outer
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork, PlanContext
from xjit.emitters.planners.reduction import range_symbols
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Combine,
    Init,
    Loop,
    Memory,
    Part,
    Reduction,
    Role,
    Statement,
    Symbols,
    Tile,
    statements_of,
)
from xjit.hlo.attributes import DimensionsAttributes
from xjit.llvm.types import FLOAT

STRIP_VECTORS = 128  # accumulators of a strip: 2048 floats where a vector has 16, a quarter of a usual L1
MIN_STRIP_VECTORS = 16  # shorter strips stride through memory
WANTED_UNITS = 4  # strips are cut shorter where there would be less parallel work: every row is a page of its own
MIN_ROWS = 16  # fewer rows keep their accumulators in registers
MAX_ROWS_AT_A_TIME = 8
MAX_BODY = 32  # operations of all the rows that go past at a time


def plan_reduce(context: PlanContext, view: KernelView) -> list[Schedule]:
    """Plans reduces: strips of columns where the innermost loop walks along the operands, plain loops elsewhere.

    Several of the same shapes, in one kernel, have their accumulators side by side: each row goes past all of them.
    """
    if not _has_enough_rows(view):
        return plan_loops(context, view)
    planning = LoopPlanning(context, view, VariableTable(), LoopWork.of(view))
    parts = plan_parts(planning, _strips_or_loops)
    has_strips = any(isinstance(s, Combine) for part in parts for s in statements_of(part.body))
    kind = "column-reduction" if has_strips else "loop"
    return [planning.schedule(kind, parts)]


def _has_enough_rows(view: KernelView) -> bool:
    """Whether a view is reductions of the same enough rows; what their accesses are is found out later."""
    if any(root.opcode != "reduce" for root in view.roots) or not same_dimensions(view.result_shapes):
        return False
    rows = {(r.operand(0).shape.dimensions, r.attributes_as(DimensionsAttributes).dimensions) for r in view.roots}
    [(sizes, reduced), *others] = rows
    return not others and math.prod(sizes[d] for d in reduced) >= MIN_ROWS


def _strips_or_loops(planning: LoopPlanning, space: IterationSpace) -> list[Part]:
    width = vector_width(planning, space)
    if not width or not _keeps_minor(planning, space, width):
        return plain_parts(planning, space)
    columns = space.loops[-1]
    length = _strip_length(planning, space)
    parts: list[Part] = []
    for piece in space.peel(columns, length) if space.size(columns) > length else [space]:
        own = piece.loops[-1]
        if piece.size(own) < width:
            parts += plain_parts(planning, drop_single_trips(piece))
            continue
        if piece.size(own) > length:
            piece = piece.split(own, length)
        piece = merge_outer(piece, 1)
        planning.count.add(piece, planning.accesses(piece))
        parts.append(_strip(planning, piece, width))
    return parts


def _keeps_minor(planning: LoopPlanning, space: IterationSpace, width: int) -> bool:
    """Whether the innermost loop walks along most operands, and is worth a strip."""
    innermost = space.loops[-1]
    offsets = [o for a in planning.accesses(space) for o in a.offsets if o.uses_dim(innermost)]
    along = sum(1 for o in offsets if factor_of(o, innermost) == 1)
    return space.size(innermost) >= width and 2 * along > len(offsets)


def _strip_length(planning: LoopPlanning, space: IterationSpace) -> int:
    """Columns of a strip: as many as L1 holds, less if there would be too few strips."""
    vector = planning.context.target.vector_width(FLOAT)
    inputs = sum(root.operand_count // 2 for root in planning.view.roots)
    others = math.prod(space.size(p) for p in space.loops[:-1])
    vectors = -(-space.size(space.loops[-1]) // vector)
    wanted = -(-vectors * others // WANTED_UNITS)
    longest = max(min(STRIP_VECTORS // inputs, wanted), MIN_STRIP_VECTORS)
    strips = -(-vectors // longest)
    return vector * -(-vectors // strips)


def _rows_at_a_time(view: KernelView) -> int:
    work = sum(1 for i in view.instructions() if i not in view.leaves)
    rows = MAX_ROWS_AT_A_TIME
    while rows > 1 and rows * work > MAX_BODY:
        rows //= 2
    return rows


def _strip(planning: LoopPlanning, space: IterationSpace, width: int) -> Part:
    """Sets the accumulators to the initial values, combines all rows into them, and stores them."""
    reduces, columns = planning.view.roots, space.loops[-1]
    sizes = [planning.table.size(e.position) for e in range_symbols(planning.analysis, reduces[0])]

    def along(*body: Statement) -> Loop:
        return Loop(columns, Role.VECTOR, body, width)

    def combine(*rows: Symbols) -> Loop:
        return along(*(Combine(Reduction(reduce.name, space.index, (), rows)) for reduce in reduces))

    outer = [planning.table.new_variable(size) for size in sizes[:-1]]
    symbols: list[AffineExpr] = [dim(p) for p in outer]
    count = _rows_at_a_time(planning.view)
    statements: list[Statement] = []
    if sizes[-1] >= count:
        block = planning.table.new_variable(sizes[-1] // count)
        rows = combine(*((*symbols, dim(block) * count + i) for i in range(count)))
        statements.append(Loop(block, Role.SERIAL, (rows,)))
    rest = range(sizes[-1] - sizes[-1] % count, sizes[-1])
    if rest:
        statements.append(combine(*((*symbols, constant(i)) for i in rest)))
    for position in reversed(outer):
        statements = [Loop(position, Role.SERIAL, tuple(statements))]
    stores = planning.work.stores(space.index)
    starts = (Init(reduce.name, space.index) for reduce in reduces)
    body: list[Statement] = [along(*starts), *statements, along(*stores)]
    for depth, position in reversed(list(enumerate(space.loops[:-1]))):
        body = [Loop(position, Role.SERIAL if depth else Role.TASK, tuple(body))]
    return Part(tuple(body), tuple(Tile(reduce.name, (columns,), Memory.STACK) for reduce in reduces))
