"""Loop kernels: loops over the elements of the results, cut into parts that need no divisions.

The loops follow the result's memory order. Divisions are split away, loops that walk memory as one are merged, the
innermost loop is vectorised unless a reduction along contiguous memory hangs on it, and the outermost loop is shared
out. A concatenate at the root becomes one part per operand, or one for a few stacked columns, a pad one for its operand
and some around it. Where a transposed operand pays for it, whole tiles are a part of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xjit.affine import AffineExprKind, dim, nodes_of
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.iteration_space import (
    MAX_PERIOD,
    IterationSpace,
    collapse_loops,
    merge_short_innermost,
    period_of,
    remove_divisions,
    sort_loops,
)
from xjit.emitters.loops.variables import VariableTable, factor_of
from xjit.emitters.planners.cpu.equal_pieces import work_by_pieces
from xjit.emitters.planners.cpu.nests import MIN_PARALLEL_UNITS, drop_single_trips, element_nest, merge_outer
from xjit.emitters.planners.cpu.planning import LoopPlanning, LoopWork, PlanContext
from xjit.emitters.planners.cpu.regions import regions
from xjit.emitters.planners.cpu.row_columns import MIN_GATHERED_ROW, row_columns_part, suits_columns
from xjit.emitters.planners.cpu.row_groups import group_rows, reads_blocks, row_group_part
from xjit.emitters.planners.cpu.transpose import tiled_spaces, transposed_loop
from xjit.emitters.planners.reduction import MIN_VECTOR_RANGE
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import Part
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.reducers import reduction_identity

ROW_STRIP = 1 << 14
"""Elements of a row that are one unit of work where there are few rows."""

LONG_REGISTERS = 2
"""Registers of a vector whose elements take a transcendental function, or `LONG_OPERATIONS`. Such instructions wait for
each other, and those of one register are so many that the CPU does not see far enough ahead to begin with the next."""
LONG_OPERATIONS = 24
CHAIN_REGISTERS, CHAIN_OPERATIONS = 4, 48
"""The same of what takes so many operations, as unrolled loops do: one after the other, for most of them."""
REDUCED_REGISTERS = 4
"""Registers of a vector of reductions: sums wait for each other, and those of one lane are added in order."""
BLOCK_REGISTERS = 2
"""The same where all columns of a block of rows are in registers."""
LONG_VECTORS = 16
"""As many vectors of two registers must be in a row: for fewer elements the code is not worth its compilation."""

SpacePlanner = Callable[[LoopPlanning, IterationSpace], list[Part]]
"""Makes parts of a space without needless loops and divisions."""


def plan_loop(context: PlanContext, view: KernelView) -> Schedule:
    """Plans the loops over a view whose results all have the dimensions of the first."""
    return plan_work(context, view, work_by_pieces(context, view))


def plan_loops(context: PlanContext, view: KernelView) -> list[Schedule]:
    """Plans loops for all results of the same dimensions: one schedule, but for a few fusions.

    Errors: Unsupported if one root has results of different dimensions.
    """
    if same_dimensions(view.result_shapes):
        return [plan_loop(context, view)]
    groups: dict[tuple[int, ...], tuple[list[HloInstruction], list[int]]] = {}
    first = 0
    for root in view.roots:
        shapes = [shape for _, shape in root.shape.leaves()]
        if not same_dimensions(shapes):
            message = f"{root.opcode} '{root.name}': results of different dimensions in one kernel"
            raise Unsupported(message, root.span)
        roots, results = groups.setdefault(shapes[0].dimensions, ([], []))
        roots.append(root)
        results += range(first, first + len(shapes))
        first += len(shapes)
    schedules: list[Schedule] = []
    for number, (roots, results) in enumerate(group for sizes, group in groups.items() if 0 not in sizes):
        work = LoopWork(tuple(roots), view.result_shapes[results[0]], tuple(results))
        schedules.append(plan_work(context, view, work, suffix=f".{number}"))
    return schedules


def plan_work(context: PlanContext, view: KernelView, work: LoopWork, kind: str = "loop", suffix: str = "") -> Schedule:
    """Plans loops that do some work of a view."""
    planning = LoopPlanning(context, view, VariableTable(), work)
    return planning.schedule(kind, plan_parts(planning), suffix=suffix)


def plan_parts(planning: LoopPlanning, parts_of: SpacePlanner | None = None) -> list[Part]:
    """Returns the parts of all regions, in the order of their units."""
    parts_of = parts_of or planning.context.parts_of or plain_parts
    parts: list[Part] = []
    for region in regions(planning):
        for space in remove_divisions(region, planning.expressions, _splitter(planning)):
            space = sort_loops(space, planning.offset(space))
            space = collapse_loops(space, planning.expressions)
            space = drop_single_trips(space)
            if not any(_is_long(planning, r) for access in planning.accesses(space) for r, _ in access.row_reductions):
                long = any(_is_long(planning, r) for access in planning.accesses(space) for r, _ in access.reductions)
                plain = planning.context.parts_of is None and not long
                if not _gathers_rows(planning, space) and not (plain and suits_columns(planning, space)):
                    space = merge_short_innermost(space, planning.lanes, MAX_PERIOD if plain else 1)
            parts += parts_of(planning, space)
    return parts


def _gathers_rows(planning: LoopPlanning, space: IterationSpace) -> bool:
    """Whether rows come from places that data tell, and are long enough that each is read as one."""
    row = space.size(space.loops[-1]) if space.loops else 0
    return row >= MIN_GATHERED_ROW and any(i.opcode == "gather" for i in planning.view.instructions())


def _is_long(planning: LoopPlanning, reduce: HloInstruction) -> bool:
    """Whether a reduction has lanes along its rows, or columns. A shorter one is done again for each of its uses."""
    return reduce.opcode != "reduce-window" and _reduced_elements(planning, reduce) >= MIN_VECTOR_RANGE


def _reduced_elements(planning: LoopPlanning, reduce: HloInstruction) -> int:
    return math.prod(v.bounds.upper + 1 for v in planning.analysis.maps.of(reduce)[0][0].indexing.range_vars)


def plain_parts(planning: LoopPlanning, space: IterationSpace) -> list[Part]:
    """Returns one loop nest, or groups of rows, or whole transpose tiles, and the rest."""
    width = vector_width(planning, space)
    columns = row_columns_part(planning, space)
    if columns is not None:
        return [columns]
    groups, *rest = group_rows(planning, space, width)
    grouped = row_group_part(planning, groups) if groups is not space else None
    if grouped is not None:
        return [grouped, *(part for piece in rest for part in plain_parts(planning, drop_single_trips(piece)))]
    across = transposed_loop(planning, space, width) if width else None
    if across is None:
        pieces = _cut_long_rows(planning, space, width)
        return [_part(planning, piece, width * _registers(planning, piece, width)) for piece in pieces]
    parts: list[Part] = []
    for piece, tiled in tiled_spaces(space, width, across):
        piece = piece if tiled else drop_single_trips(piece)
        parts.append(_part(planning, piece, width if tiled else vector_width(planning, piece), tiled))
    return parts


def _cut_long_rows(planning: LoopPlanning, space: IterationSpace, width: int) -> list[IterationSpace]:
    """Cuts the innermost loop where the others are too few to be shared out, and no reduction would be done again.

    The rest of a loop that has no good divisor is a space of its own.
    """
    others = math.prod(space.size(p) for p in space.loops[:-1])
    if not width or len(space.loops) < 2 or others >= MIN_PARALLEL_UNITS:
        return [space]
    row, length = space.loops[-1], space.size(space.loops[-1])
    if length < 2 * ROW_STRIP or any(access.reductions for access in planning.accesses(space)):
        return [space]
    strips = range(length // (2 * ROW_STRIP) + 1, 2 * length // ROW_STRIP + 1)
    strip = next((length // n for n in strips if length % (n * width) == 0), ROW_STRIP)
    pieces = [space] if length % strip == 0 else space.peel(row, strip)
    return [p.split(p.loops[-1], strip) if p.size(p.loops[-1]) >= strip else p for p in pieces]


def _part(planning: LoopPlanning, space: IterationSpace, width: int, tiled: bool = False) -> Part:
    keeps_rows = width or planning.context.target.scalar_loops  # what is known of a row is found once
    keep = (1 if keeps_rows else 0) + (2 if tiled else 0)
    space = merge_outer(space, max(keep, _loops_inside_reductions(planning, space)))
    planning.count.add(space, planning.accesses(space))
    return Part(element_nest(planning, space, width, tiled))


def _loops_inside_reductions(planning: LoopPlanning, space: IterationSpace) -> int:
    """How many of the inner loops a long reduction is in front of: a loop merged of them and outer ones would do it
    again and again.
    """
    found = 0
    for access in planning.accesses(space):
        for reduce, index in access.reductions:
            if _is_long(planning, reduce):
                depth = max((n for n, p in enumerate(space.loops, 1) if any(e.uses_dim(p) for e in index)), default=0)
                found = max(found, len(space.loops) - depth if depth else 0)
    return found


def vector_width(planning: LoopPlanning, space: IterationSpace) -> int:
    """Lanes along the innermost loop; 0 if it must be scalar."""
    if not space.loops or planning.context.target.scalar_loops:
        return 0
    innermost = space.loops[-1]
    for access in planning.accesses(space):
        for reduce, index in access.row_reductions:
            reduced = _reduced_elements(planning, reduce)
            # elements of shorter rows lie close enough for lanes across rows; a search has a first element per lane
            by_lanes = reduction_identity(reduce.to_apply) is not None or reduced >= 2 * planning.lanes
            if by_lanes and any(e.uses_dim(innermost) for e in index) and reduced > MIN_VECTOR_RANGE:
                return planning.lanes if reads_blocks(planning, space) else 0
    return planning.lanes


def _registers(planning: LoopPlanning, space: IterationSpace, width: int) -> int:
    """How many times `width` elements a vector along the innermost loop has: once if rows are short."""
    if not width:
        return 1
    row = space.loops[-1]
    period = _period(planning, space, width)
    if period == 1 and any(i.opcode == "convolution" for a in planning.accesses(space) for i, _ in a.reductions):
        return next((n for n in (REDUCED_REGISTERS, 2) if space.size(row) % (n * width) == 0), 1)
    if period > 1 or space.size(row) < LONG_VECTORS * LONG_REGISTERS * width:
        return period
    accesses = planning.accesses(space)
    if any(e.uses_dim(row) for a in accesses for _, index in a.reductions for e in index):
        return BLOCK_REGISTERS if reads_blocks(planning, space) else REDUCED_REGISTERS
    operations = sum(a.operations for a in accesses)
    is_long = any(i.op.has(Trait.TRANSCENDENTAL) for i in planning.view.instructions())
    if (is_long or operations >= LONG_OPERATIONS) and not any(a.reductions for a in accesses):
        return CHAIN_REGISTERS if operations >= CHAIN_OPERATIONS else LONG_REGISTERS
    return planning.narrowness


def _period(planning: LoopPlanning, space: IterationSpace, width: int) -> int:
    """After how many vectors along the innermost loop the places of lanes repeat; 1 if they do so too late."""
    row = space.loops[-1]
    bounds = space.table.intervals[row]
    divisors = [
        node.rhs
        for node in nodes_of(planning.expressions(space))
        if node.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD) and node.lhs is dim(row)
    ]
    period = math.lcm(*(period_of(d, width) for d in divisors))
    fits = period <= MAX_PERIOD and not bounds.lower and bounds.upper + 1 >= period * width
    return period if fits else 1


def _splitter(planning: LoopPlanning) -> Callable[[IterationSpace, int, int], bool]:
    """The contiguous loop is not cut into pieces shorter than two vectors: lanes can be divided, too."""

    def may_split(space: IterationSpace, position: int, divisor: int) -> bool:
        return factor_of(planning.offset(space), position) != 1 or divisor >= 2 * planning.lanes

    return may_split


def same_dimensions(shapes: Sequence[Shape]) -> bool:
    """Whether all results can share one iteration space."""
    return all(s.dimensions == shapes[0].dimensions for s in shapes)
