"""What a schedule reads and writes: every array and shared tile it touches, at which place, inside of which loops.

It walks the statements as the emitter does, but only follows indexing maps. Reports are made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, Interval
from xjit.emitters.access.access_analysis import AccessAnalysis, MapCache, RuntimeValue, apply_map
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Combine,
    Index,
    Let,
    Loop,
    Memory,
    Part,
    Reduce,
    Reduction,
    Role,
    Stage,
    Statement,
    Store,
    Tile,
)
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

Element = tuple[HloInstruction, Index]


@dataclass(frozen=True, slots=True)
class Steps:
    """A variable that is in force: who takes its steps, and `lanes` values at a time."""

    variable: int
    role: Role
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Access:
    """An element that is read or stored once for all values of the variables `within`, outermost first.

    `array` is "%name" of an operand or constant, "out0" of a result, or "tile %name" in shared memory. `place` counts
    elements from its beginning.
    """

    array: str
    place: AffineExpr
    element_bytes: int
    is_store: bool
    is_shared: bool
    within: tuple[Steps, ...]


@dataclass(frozen=True, slots=True)
class ScheduleAccesses:
    """The accesses of each part of a schedule, what their variables go through, and the sizes of arrays in bytes.

    Variables of `runtime` are elements that are read at run time.
    """

    parts: tuple[tuple[Access, ...], ...]
    intervals: Sequence[Interval]
    runtime: Mapping[int, RuntimeValue]
    array_bytes: Mapping[str, int]


def schedule_accesses(schedule: Schedule, view: KernelView, maps: MapCache) -> ScheduleAccesses:
    """Returns what a schedule of the view touches."""
    walker = _AccessWalker(schedule, view, maps)
    parts = tuple(walker.part(part) for part in schedule.parts)
    return ScheduleAccesses(parts, walker.analysis.table.intervals, walker.analysis.runtime, walker.array_bytes)


class _AccessWalker:
    def __init__(self, schedule: Schedule, view: KernelView, maps: MapCache) -> None:
        self._schedule = schedule
        self._maps = maps
        self._table = VariableTable(schedule.variables)
        leaves = {leaf: leaf.shape for leaf in view.leaves} | view.array_constants()
        self._instructions = {i.name: i for i in (*view.leaves, *view.instructions())}
        self._results = view.result_shapes
        self.analysis = AccessAnalysis(self._table, leaves, maps)
        self.array_bytes = {f"%{leaf.name}": shape.byte_size for leaf, shape in leaves.items() if shape.is_array}
        self.array_bytes |= {f"out{n}": shape.byte_size for n, shape in enumerate(self._results)}
        self._found: dict[Access, None] = {}
        self._tiles: Mapping[str, Tile] = {}

    def part(self, part: Part) -> tuple[Access, ...]:
        """Returns the accesses of a part, each once."""
        self._found = {}
        self._tiles = {tile.instruction: tile for tile in part.tiles if tile.memory is Memory.SHARED}
        for let in self._schedule.lets:
            self._let(let, (), set())
        self._body(part.body, (), set())
        return tuple(self._found)

    def _body(self, body: Sequence[Statement], within: tuple[Steps, ...], known: set[Element]) -> None:
        """`known` are the elements that were computed before; what a body adds is known behind it, too."""
        for statement in body:
            match statement:
                case Loop():
                    steps = Steps(statement.variable, statement.role, statement.lanes or 1)
                    self._body(statement.body, (*within, steps), known)
                case Let():
                    self._let(statement, within, known)
                case Reduce(reduction) | Combine(reduction):
                    self._reduction(reduction, within, known)
                    known.add((self._instructions[reduction.instruction], reduction.index))
                case Stage(name, index):
                    self._value((self._instructions[name], index), within, known)
                    self._shared((self._instructions[name], index), True, within)
                    known.add((self._instructions[name], index))
                case Store():
                    self._store(statement, within, known)
                case _:
                    pass

    def _let(self, let: Let, within: tuple[Steps, ...], known: set[Element]) -> None:
        source = self._instructions[let.instruction]
        self.analysis.stands_for(let.variable, RuntimeValue(source, let.index, self._table.intervals[let.variable]))
        self._value((source, let.index), within, known)

    def _store(self, store: Store, within: tuple[Steps, ...], known: set[Element]) -> None:
        self._value((self._instructions[store.instruction], store.index), within, known)
        shape = self._results[store.result]
        self._add(f"out{store.result}", physical_offset(self._table, shape, store.place), shape, True, within)

    def _reduction(self, reduction: Reduction, within: tuple[Steps, ...], known: set[Element]) -> None:
        """Adds what a reduction takes together: the elements of every operand, for each of its steps."""
        loops = [Steps(v, Role.SERIAL) for v in reduction.loops]
        if reduction.lanes is not None:
            lanes = reduction.lanes
            loops = [steps for steps in loops if steps.variable != lanes.variable]
            loops.append(Steps(lanes.variable, lanes.role, lanes.width))
        inside = (*within, *loops)
        for inner in reduction.within:
            self._reduction(inner, inside, known)
        done = known | {(self._instructions[inner.instruction], inner.index) for inner in reduction.within}
        instruction = self._instructions[reduction.instruction]
        for number, operand_maps in enumerate(self._maps.of(instruction)):
            for operand in operand_maps:
                if operand.indexing.is_unknown:
                    continue
                for symbols in reduction.steps if operand.indexing.range_vars else ((),):
                    index = apply_map(self._table, operand, reduction.index, symbols)
                    self._value((instruction.operand(number), index), inside if symbols else within, done)

    def _value(self, element: Element, within: tuple[Steps, ...], known: set[Element]) -> None:
        """Adds the reads for one element."""
        found = self.analysis.collect(*element, known)
        for leaf, index in found.reads:
            shape = self.analysis.leaves[leaf]
            self._add(f"%{leaf.name}", physical_offset(self._table, shape, index), shape, False, within)
        for item in found.known:
            self._shared(item, False, within)

    def _shared(self, element: Element, is_store: bool, within: tuple[Steps, ...]) -> None:
        """Adds the access to an element's place in shared memory, if it has one there."""
        tile = self._tiles.get(element[0].name)
        if tile is None or tile.place is None:
            return
        shape = next(leaf for _, leaf in element[0].shape.leaves())
        self._add(f"tile %{tile.instruction}", tile.place, shape, is_store, within, is_shared=True)

    def _add(
        self,
        array: str,
        place: AffineExpr,
        shape: Shape,
        is_store: bool,
        within: tuple[Steps, ...],
        is_shared: bool = False,
    ) -> None:
        bound = {steps.variable for steps in within}
        free = [
            v
            for v in sorted(variables_of(place, self.analysis.runtime))
            if v not in bound and v not in self.analysis.runtime
        ]
        walked = (*within, *(Steps(v, Role.SERIAL) for v in free))
        access = Access(array, place, shape.element_type.byte_width, is_store, is_shared, walked)
        self._found[access] = None


def variables_of(place: AffineExpr, runtime: Mapping[int, RuntimeValue]) -> frozenset[int]:
    """Returns the variables that a place changes with, be it by elements that are read at run time."""
    found: set[int] = set()
    stack = [place]
    while stack:
        for variable in stack.pop().dims - found:
            found.add(variable)
            if variable in runtime:
                stack.extend(runtime[variable].place)
    return frozenset(found)
