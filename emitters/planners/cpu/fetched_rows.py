"""Rows of which elements are picked in any order: while one is picked from, the next one is fetched into the cache.

The hardware foresees neighbours, not what an index array says.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.loops.variables import factor_of
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.schedule.statements import Fetch
from xjit.hlo.ir.instruction import HloInstruction

FETCHED_ARRAY_BYTES = 4 << 20  # smaller arrays stay in a cache
LINE_BYTES = 64
PICKS_PER_LINE = 1
"""So many elements must be picked for each line of a row: at random, five of eight lines are needed then."""


def fetches_of_next_rows(planning: LoopPlanning, space: IterationSpace, width: int) -> tuple[Fetch, ...]:
    """Returns what a step of the innermost loop, of `width` elements, fetches of the rows that the next trip of the
    loop around it picks from.
    """
    if len(space.loops) < 2 or not width or not planning.context.target.has_prefetch:
        return ()
    found: dict[tuple[HloInstruction, Index], tuple[Fetch, ...]] = {}
    for accesses in planning.accesses(space):
        for leaf, place in accesses.reads:
            is_large = leaf in planning.view.leaves and leaf.shape.byte_size >= FETCHED_ARRAY_BYTES
            if is_large and (leaf, place) not in found:
                found[leaf, place] = _fetches(planning, space, width, leaf, place)
    return tuple(dict.fromkeys(fetch for fetches in found.values() for fetch in fetches))


def _fetches(
    planning: LoopPlanning, space: IterationSpace, width: int, leaf: HloInstruction, place: Index
) -> tuple[Fetch, ...]:
    """The lines of a row of `leaf`, shared out among the steps; none if elements of a row are not picked at `place`."""
    outer, inner = space.loops[-2:]
    table, offset = planning.table, physical_offset(planning.table, leaf.shape, place)
    picked = [p for p in offset.dims if _varies_along(planning, p, inner)]
    if len(picked) != 1 or factor_of(offset, picked[0]) != 1 or factor_of(offset, inner) != 0:
        return ()
    row, size = picked[0], leaf.shape.element_type.byte_width
    first = table.intervals[row].lower
    distance = table.simplify(substitute(offset, {outer: dim(outer) + 1}) - offset)
    length, picks, line = table.size(row), space.size(inner), LINE_BYTES // size
    if not distance.is_constant or not distance.value or picks * line < PICKS_PER_LINE * length:
        return ()
    scale = -(-length // picks)
    start: AffineExpr = dim(inner) * scale + first
    places = [
        tuple(substitute(e, {outer: dim(outer) + 1, row: start + number * line}) for e in place)
        for number in range(math.ceil(width * scale / line))
    ]
    return tuple(Fetch(leaf.name, tuple(map(table.simplify, place))) for place in places)


def _varies_along(planning: LoopPlanning, variable: int, loop: int) -> bool:
    """Whether a variable is read at run time for each step of a loop."""
    value = planning.analysis.runtime.get(variable)
    return value is not None and any(e.uses_dim(loop) for e in value.place)
