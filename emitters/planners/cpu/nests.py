"""Loop nests as statements: roles for the loops of a space, and every reduction in the loop that knows its index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xjit.affine import AffineExprKind, dim
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.planners.cpu.fetched_rows import FETCHED_ARRAY_BYTES, fetches_of_next_rows
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.reduction import plan_reduction
from xjit.emitters.schedule.statements import Combination, Let, Loop, Reduce, Reduction, Role, Statement
from xjit.hlo.ir.instruction import HloInstruction

MIN_PARALLEL_UNITS = 64
FETCHED_ROW_BYTES = 16 << 10  # shorter rows come while the ones before are still being read


def merge_outer(space: IterationSpace, keep: int) -> IterationSpace:
    """Merges outer loops into one parallel loop until it has enough units; its div and mod are outside the rest.

    The `keep` innermost loops stay as they are.
    """
    last = len(space.loops) - keep
    while last > 1 and space.size(space.loops[0]) < MIN_PARALLEL_UNITS:
        outer, inner = space.loops[0], space.loops[1]
        bounds = [space.table.intervals[p].lower for p in (outer, inner)]
        size = space.size(inner)
        merged = space.table.new_variable(space.size(outer) * size)
        change = {
            outer: dim(merged).floordiv(size) + bounds[0],
            inner: dim(merged).mod(size) + bounds[1],
        }
        space = space.replace(change, [merged, *space.loops[2:]])
        last -= 1
    return space


def drop_single_trips(space: IterationSpace) -> IterationSpace:
    """Returns the space without loops of one trip, which have been replaced by constants already."""
    return IterationSpace(space.table, [p for p in space.loops if space.size(p) > 1], space.index)


def element_nest(planning: LoopPlanning, space: IterationSpace, width: int, tiled: bool) -> tuple[Statement, ...]:
    """Returns the loops of a space around its stores and the reductions that these need.

    The outermost loop is shared out, the innermost one is a vector loop if there is a `width`. Where `tiled`, the loops
    end in (vector, unrolled).
    """
    loops = [Loop(p, Role.SERIAL, ()) for p in space.loops]
    if width:
        vector = len(loops) - (2 if tiled else 1)
        loops[vector] = replace(loops[vector], role=Role.VECTOR, lanes=width)
        if tiled:
            loops[-1] = replace(loops[-1], role=Role.UNROLL, transposes=loops[vector].variable)
    if loops:
        loops[0] = replace(loops[0], role=Role.TASK)
    target = planning.context.target

    def plan(instruction: HloInstruction, index: Index, vectorised: bool) -> Reduction:
        return plan_reduction(planning.analysis, instruction, index, vectorised, target)

    levels = reductions_by_level(planning, space, loops, plan)
    body: tuple[Statement, ...] = planning.work.stores(space.index)
    if not tiled:
        body = (*fetches_of_next_rows(planning, space, width), *body)
    for loop, reductions in zip(reversed(loops), reversed(levels[1:]), strict=True):
        body = (replace(loop, body=(*reductions, *body)),)
    return (*levels[0], *body)


@dataclass(slots=True, eq=False)
class _Planned:
    """A reduction with those inside of it: `depth` loops are around it."""

    instruction: HloInstruction
    reduction: Reduction
    depth: int
    vectorised: bool
    where_needed: bool
    inner: list[_Planned] = field(default_factory=list)

    def complete(self) -> Reduction:
        """The reduction with all those that its elements need."""
        return replace(self.reduction, within=tuple(p.complete() for p in reversed(self.inner)))


PlanReduction = Callable[[HloInstruction, Index, bool], Reduction]
"""Plans the element of an instruction at an index; the last argument says that a vector variable is in force there."""


def reductions_by_level(
    planning: LoopPlanning, space: IterationSpace, loops: Sequence[Loop], plan: PlanReduction
) -> list[list[Let | Reduce]]:
    """Returns the reductions of each level: before all loops, in the first one, in the second one, ...

    What their indices read at run time is read there, too, if it is a number for all lanes. Otherwise, or if it is not
    always needed, such a reduction is left to be planned when it is reached.
    """
    depths = {p: depth for depth, p in enumerate(space.loops, 1)} | {let.variable: 0 for let in planning.lets}
    vector = next((depth for depth, loop in enumerate(loops, 1) if loop.lanes), len(loops) + 1)
    levels: list[list[Let | Reduce]] = [[] for _ in range(len(loops) + 1)]
    planned: dict[tuple[HloInstruction, Index], _Planned] = {}
    owners: dict[int, _Planned] = {}
    outermost: list[_Planned] = []
    for accesses in planning.accesses(space):
        for instruction, index in accesses.reductions:
            found, where_needed = planned.get((instruction, index)), (instruction, index) not in accesses.sure
            if found is not None:
                found.where_needed &= where_needed
                if found in outermost:  # what needs it was found later: it comes first
                    outermost.append(outermost.pop(outermost.index(found)))
                continue
            variables = {p for e in index for p in e.dims}
            unknown = [p for p in variables if p not in depths and p not in owners]
            if where_needed and unknown:
                continue
            if not all(_read_at_run_time(planning, p, depths, vector, levels) for p in unknown):
                continue
            depth = max((depths[p] for p in variables if p in depths), default=0)
            owner = next((owners[p] for p in reversed(owners) if p in variables), None)
            if owner is not None and where_needed and not owner.where_needed:
                continue
            vectorised = depth >= vector
            if owner is not None:
                lanes = owner.reduction.lanes
                vectorised |= owner.vectorised or (lanes is not None and lanes.variable in variables)
            reduction = plan(instruction, index, vectorised)
            item = _Planned(instruction, reduction, depth, vectorised, where_needed)
            planned[instruction, index] = item
            (outermost if owner is None else owner.inner).append(item)
            if reduction.combination is not Combination.SELECT:  # which has variables of its own
                owners.update((e.position, item) for e in reduction.steps[0] if e.kind is AffineExprKind.DIM)
    seen: list[_Planned] = []
    for item in reversed(outermost):
        again = item.depth > 0 and _reads_again(planning, item, [s for s in seen if s.depth == item.depth])
        levels[item.depth].append(Reduce(item.complete(), item.where_needed, again))
        seen.append(item)
    return levels


def _reads_again(planning: LoopPlanning, item: _Planned, before: Sequence[_Planned]) -> bool:
    """Whether a reduction finds long rows of a large array in the cache, as one before it has read them.

    Memory has nothing to do meanwhile: it can send the next trip's rows.
    """
    if not planning.context.target.has_prefetch:
        return False
    reduction, size = item.reduction, planning.table.size
    variables = (*reduction.loops, *([reduction.lanes.variable] if reduction.lanes is not None else ()))
    large = {
        leaf
        for leaf in _leaves(planning, item)
        if leaf.shape.byte_size >= FETCHED_ARRAY_BYTES
        and prod(map(size, variables)) * leaf.shape.byte_size >= FETCHED_ROW_BYTES * leaf.shape.num_elements
    }
    return any(large & _leaves(planning, each) for each in before)


def _leaves(planning: LoopPlanning, item: _Planned) -> set[HloInstruction]:
    """The arrays that a reduction walks over, without those of reductions inside of it."""
    analysis = planning.analysis
    reads = analysis.reduced_accesses(item.instruction, item.reduction.index).reads
    ranges = analysis.range_variables(item.instruction, analysis.maps.of(item.instruction)[0][0].indexing)
    return {leaf for leaf, place in reads if any(e.uses_dim(p.position) for e in place for p in ranges)}


def _read_at_run_time(
    planning: LoopPlanning, variable: int, depths: dict[int, int], vector: int, levels: Sequence[list[Let | Reduce]]
) -> bool:
    """Lets a variable be read in the loop that knows its place, outside of all lanes; returns whether that can be."""
    value = planning.analysis.runtime.get(variable)
    if value is None or planning.analysis.collect(value.source, value.place).reductions:
        return False
    inner = {p for e in value.place for p in e.dims} - depths.keys()
    if not all(_read_at_run_time(planning, p, depths, vector, levels) for p in inner):
        return False
    depth = max((depths[p] for e in value.place for p in e.dims), default=0)
    if depth >= vector:
        return False
    depths[variable] = depth
    levels[depth].append(Let(variable, value.source.name, value.place))
    return True
