"""What a schedule reads and writes: every array and shared tile it touches, at which place, inside of which loops.

It walks the statements as the emitter does, but only follows indexing maps. Reports are made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, Interval, dim, substitute
from xjit.emitters.access.access_analysis import AccessAnalysis, MapCache, RuntimeValue, apply_map, map_conditions
from xjit.emitters.access.physical_offsets import physical_offset
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable
from xjit.emitters.schedule.multiplied_places import multiplied_places
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import (
    Bind,
    Combine,
    Complete,
    Contract,
    Give,
    Index,
    Let,
    Loop,
    Memory,
    OperandTile,
    Part,
    Reduce,
    ReduceRows,
    Reduction,
    Role,
    Stage,
    StageOperand,
    StageSum,
    Statement,
    Store,
    Tile,
)
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape

Element = tuple[HloInstruction, Index]
Condition = tuple[AffineExpr, Interval]


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
    elements from its beginning. Nothing is touched where a value of the `conditions` is outside of its interval.
    """

    array: str
    place: AffineExpr
    element_bytes: int
    is_store: bool
    is_shared: bool
    within: tuple[Steps, ...]
    conditions: tuple[Condition, ...] = ()


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
        self._operand_tiles: Mapping[tuple[str, int], OperandTile] = {}
        self._values: dict[int, AffineExpr] = {}  # of bound variables
        self._conditions: tuple[Condition, ...] = ()

    def part(self, part: Part) -> tuple[Access, ...]:
        """Returns the accesses of a part, each once."""
        self._found = {}
        self._tiles = {tile.instruction: tile for tile in part.tiles if tile.memory is Memory.SHARED}
        self._operand_tiles = {(tile.instruction, tile.operand): tile for tile in part.operands}
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
                case ReduceRows(reduction, variable):
                    self._reduction(reduction, (*within, Steps(variable, Role.SERIAL)), known)
                    known.add((self._instructions[reduction.instruction], reduction.index))
                case Stage(name, index):
                    self._value((self._instructions[name], index), within, known)
                    self._shared((self._instructions[name], index), True, within)
                    known.add((self._instructions[name], index))
                case Store():
                    self._store(statement, within, known)
                case Bind():
                    self._bind(statement, within, known)
                case Give(name, index):
                    known.add((self._instructions[name], index))
                case Complete(_, source, index):
                    self._value((self._instructions[source], index), within, known)
                case StageOperand():
                    self._stage_operand(statement, within, known)
                case StageSum(name, operand, _, at):
                    self._operand_place(self._operand_tiles[name, operand], at, True, within)
                case Contract():
                    self._contract(statement, within)
                case _:
                    pass

    def _bind(self, bind: Bind, within: tuple[Steps, ...], known: set[Element]) -> None:
        """A bound variable is its value: what would be beyond its bounds is not touched."""
        value = self._substituted(bind.value)
        if bind.lanes:
            lane = self._table.new_variable(bind.lanes)
            within, value = (*within, Steps(lane, Role.VECTOR, bind.lanes)), value + dim(lane)
        before = self._values, self._conditions
        self._values = {**self._values, bind.variable: value}
        self._conditions = (*self._conditions, (value, self._table.intervals[bind.variable]))
        self._body(bind.body, within, known)
        self._values, self._conditions = before

    def _substituted(self, expr: AffineExpr) -> AffineExpr:
        return self._table.simplify(substitute(expr, self._values)) if self._values else expr

    # -- products of tiles

    def _stage_operand(self, stage: StageOperand, within: tuple[Steps, ...], known: set[Element]) -> None:
        """Adds what is read, where the instruction does not skip it, and where it goes."""
        instruction = self._instructions[stage.instruction]
        operand = self._maps.of(instruction)[stage.operand][0]
        before = self._conditions
        sizes = instruction.shape.dimensions
        read = map_conditions(operand, sizes, stage.index, stage.symbols)
        self._conditions = (*before, *((self._substituted(e), bounds) for e, bounds in read))
        place = apply_map(self._table, operand, stage.index, stage.symbols)
        self._value((instruction.operand(stage.operand), place), within, known)
        self._conditions = before
        at = list(stage.at)
        if within and within[-1].role is Role.VECTOR:
            at[stage.along] = at[stage.along] + dim(within[-1].variable)
        self._operand_place(self._operand_tiles[stage.instruction, stage.operand], at, True, within)

    def _contract(self, contract: Contract, within: tuple[Steps, ...]) -> None:
        (thread,) = (steps.variable for steps in within if steps.role is Role.THREAD)
        for operand, at, lanes in multiplied_places(self._table, contract, thread):
            steps = [Steps(lanes, Role.VECTOR, self._table.size(lanes))] if lanes is not None else []
            self._operand_place(self._operand_tiles[contract.instruction, operand], at, False, (*within, *steps))

    def _operand_place(
        self, tile: OperandTile, at: Sequence[AffineExpr], is_store: bool, within: tuple[Steps, ...]
    ) -> None:
        place = self._table.simplify(substitute(tile.place, dict(enumerate(at))))
        name = f"tile of operand {tile.operand} of %{tile.instruction}"
        self._add(name, place, PrimitiveType.from_text(tile.kind).byte_width, is_store, within, is_shared=True)

    # -- elements

    def _let(self, let: Let, within: tuple[Steps, ...], known: set[Element]) -> None:
        source = self._instructions[let.instruction]
        self.analysis.stands_for(let.variable, RuntimeValue(source, let.index, self._table.intervals[let.variable]))
        self._value((source, let.index), within, known)

    def _store(self, store: Store, within: tuple[Steps, ...], known: set[Element]) -> None:
        self._value((self._instructions[store.instruction], store.index), within, known)
        shape = self._results[store.result]
        self._add(
            f"out{store.result}",
            physical_offset(self._table, shape, store.place),
            shape.element_type.byte_width,
            True,
            within,
        )

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
            self._add(
                f"%{leaf.name}",
                physical_offset(self._table, shape, index),
                shape.element_type.byte_width,
                False,
                within,
            )
        for item in found.known:
            self._shared(item, False, within)

    def _global(self, array: str, shape: Shape, index: Index, is_store: bool, within: tuple[Steps, ...]) -> None:
        place = physical_offset(self._table, shape, index)
        self._add(array, place, shape.element_type.byte_width, is_store, within)

    def _shared(self, element: Element, is_store: bool, within: tuple[Steps, ...]) -> None:
        """Adds the access to an element's place in shared memory, if it has one there."""
        tile = self._tiles.get(element[0].name)
        if tile is None or tile.place is None:
            return
        shape = next(leaf for _, leaf in element[0].shape.leaves())
        width = shape.element_type.byte_width
        self._add(f"tile %{tile.instruction}", tile.place, width, is_store, within, is_shared=True)

    def _add(
        self,
        array: str,
        place: AffineExpr,
        element_bytes: int,
        is_store: bool,
        within: tuple[Steps, ...],
        is_shared: bool = False,
    ) -> None:
        place, conditions = self._substituted(place), () if is_shared else self._conditions
        bound = {steps.variable for steps in within}
        free = [
            v
            for v in sorted(variables_of(place, self.analysis.runtime))
            if v not in bound and v not in self.analysis.runtime
        ]
        walked = (*within, *(Steps(v, Role.SERIAL) for v in free))
        access = Access(array, place, element_bytes, is_store, is_shared, walked, conditions)
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
