"""Multi-output fusion: loops that read the same arrays become one, so that these come from memory once.

Siblings read an operand of theirs alike; a consumer reads what a sibling writes, which others need, too. They share a
loop if their results have the same dimensions in the same order, and each operand is read along memory. Reductions of
whole rows are siblings if they reduce equal rows: a row is still in the cache when the second one reads it. So are
reductions of columns, past whose accumulators each row goes once. Which bytes that saves, the maps say: an operand that
two of them read at the same elements is read once.

No reachability is needed. Every instruction has a level, one more than the highest of its operands. Members of a group
read nothing from outside that is not on a lower level than the whole group, so merged groups cannot be in a cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import DimensionsAttributes, FusionAttributes
from xjit.hlo.ir.classification import is_view
from xjit.hlo.types.physical import physical_byte_size
from xjit.indexing.element_reads import ElementReads, Ways, is_tiled
from xjit.indexing.operand_reads import reads_of
from xjit.passes.analysis import fusion_cost as cost
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import NO_THREADS, HloModulePass, has_control_dependencies
from xjit.passes.fusion.unit_merging import merge_units

MIN_COLUMNS = 16
MIN_ROWS = 16
"""Of reductions of columns that become one: with fewer, their accumulators stay in registers, each on its own."""

Space: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]"
"""What loops that become one have in common: dimensions, their order in memory, dimensions and bytes per element of the
result."""


@dataclass(slots=True, eq=False)
class _Group:
    """Loops that become one, what is read before what reads it. `operands` is what they read, and each other."""

    level: int
    space: Space
    members: dict[HloInstruction, None] = field(default_factory=dict)
    operands: dict[HloInstruction, None] = field(default_factory=dict)
    size: int = 0

    def add(self, unit: HloInstruction, operands: Iterable[HloInstruction]) -> None:
        """Adds a loop that reads those arrays."""
        self.members[unit] = None
        self.operands.update(dict.fromkeys(operands))
        self.size += _size_of(unit)

    def merge(self, computation: HloComputation) -> None:
        """Makes one fusion of all, with the bitcasts that they read."""
        units = [i for member in self.members for i in (*_bitcasts_of(member), member)]
        outputs = [m for m in self.members if m.is_root() or any(u not in self.members for u in m.users)]
        kind = "kInput" if _root_of(outputs[0]).opcode == "reduce" else "kLoop"
        merge_units(computation, list(dict.fromkeys(units)), outputs, outputs[0], kind, "multi_output")


@dataclass
class MultiOutputFusion(HloModulePass):
    """Fuses loops that read the same elements, and loops with what reads their results.

    Each loop that joins saves at least `min_bytes` of reads: smaller arrays are still in the cache when they are read
    again. Rows of more than `max_row_bytes` are not.
    """

    name = "multi-output-fusion"
    min_bytes: int = 1 << 20
    max_instructions: int = 100
    max_operands: int = 24
    max_outputs: int = 8
    max_row_bytes: int = 1 << 16

    def run_impl(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Fuses in every sequential computation; True if something was fused."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if not execution_threads or computation.execution_thread in execution_threads:
                changed |= _Fuser(self, computation).run()
        return changed


class _Fuser:
    """The groups of one computation in the making."""

    def __init__(self, limits: MultiOutputFusion, computation: HloComputation) -> None:
        self.limits = limits
        self.computation = computation
        self.reads = ElementReads()
        self.units: dict[HloInstruction, Space] = {}
        self.levels: dict[HloInstruction, int] = {}
        self.ways: dict[HloInstruction, Mapping[HloInstruction, Ways]] = {}
        self.home: dict[HloInstruction, _Group] = {}

    def run(self) -> bool:
        """Finds groups and merges them; True if there is one."""
        order = self.computation.make_instruction_post_order()
        self.units = {i: _space(i) for i in order if self._matters(i)}
        if len(self.units) < 2:
            return False
        self.levels = _levels(order)
        for value in order:
            if value.user_count and value.opcode != "bitcast" and self._is_large(value):
                self._join_siblings(value)
        for unit in self.units:
            self._join_producers(unit)
        groups = [g for g in dict.fromkeys(self.home.values()) if len(g.members) > 1]
        for group in groups:
            group.merge(self.computation)
        return bool(groups)

    def _is_large(self, value: HloInstruction) -> bool:
        return value.shape.is_static_array and physical_byte_size(value.shape) >= self.limits.min_bytes

    def _matters(self, unit: HloInstruction) -> bool:
        """Whether an instruction is a loop over a large array that may join others."""
        if not unit.operand_count or unit.is_dead():
            return False
        return self._is_large(_source_of(unit)) and self._is_unit(unit)

    def _is_unit(self, unit: HloInstruction) -> bool:
        if _root_of(unit).opcode != "reduce":
            return _is_loop(unit)
        source = _source_of(unit).shape
        if not cost.is_array_program(unit) or not unit.shape.num_elements:
            return False
        if not source.is_row_major or not unit.shape.is_row_major:
            return False
        return self._reduces_rows(unit) or _reduces_columns(unit)

    def _reduces_rows(self, unit: HloInstruction) -> bool:
        """Whether a reduction is one of whole rows, each of which fits into the cache."""
        source = _source_of(unit).shape
        length = source.num_elements // unit.shape.num_elements
        in_cache = length * source.element_type.byte_width <= self.limits.max_row_bytes
        return in_cache and reads_of(_root_of(unit))[0].reads_whole_row(length)

    def _ways(self, unit: HloInstruction) -> Mapping[HloInstruction, Ways]:
        """Returns how the loop of a unit reads each array, behind bitcasts; nothing if one is not read along memory."""
        found = self.ways.get(unit)
        if found is None:
            ways: dict[HloInstruction, Ways] = {}
            source = _source_of(unit)
            for operand, maps in zip(unit.operands, self.reads.of(unit, source), strict=True):
                while is_view(operand):
                    maps = self.reads.through(maps, operand)
                    operand = operand.operand(0)
                ways.setdefault(operand, {}).update(maps)
            along = all(self.reads.is_along(m, o.shape, source.shape) for o, maps in ways.items() for m in maps)
            found = self.ways[unit] = ways if along else {}
        return found

    def _join_siblings(self, value: HloInstruction) -> None:
        """Puts what reads a large array at the same elements, on the same level, into one group."""
        readers: dict[tuple[int, Space], list[HloInstruction]] = {}
        for user in _readers_of(value):
            if user in self.units:
                readers.setdefault((self.levels[user], self.units[user]), []).append(user)
        for users in readers.values():
            first: dict[tuple[object, ...], HloInstruction] = {}
            for user in users if len(users) > 1 else ():
                ways = self._ways(user).get(value)
                other = first.setdefault(tuple(ways), user) if ways else user
                if other is not user and user not in self.home:
                    self._add(self._group_of(other), user)

    def _join_producers(self, unit: HloInstruction) -> None:
        """Adds a unit to the group of a large array that it reads at just the index of its result."""
        for operand in unit.unique_operands() if unit not in self.home else ():
            if self.units.get(operand) != self.units[unit]:
                continue
            level = self.home[operand].level if operand in self.home else self.levels[operand]
            if any(self.levels[o] >= level and o is not operand and o not in self.home for o in unit.operands):
                continue
            if not self._reads_own(unit, operand):  # last: maps take longer than all else
                continue
            group = self._group_of(operand)
            if all(o in group.members or self.levels[o] < level for o in unit.operands) and self._add(group, unit):
                return

    def _reads_own(self, unit: HloInstruction, operand: HloInstruction) -> bool:
        """Whether each step of a unit's loop reads what the same step of the operand's loop gives.

        Of two reductions: whether rows are read by both, and the second one reads only the result of its own row.
        """
        ways, before = self._ways(unit), self._ways(operand)
        read = ways.get(operand)
        if read is None or not before:
            return False
        identity = self.reads.identity(_source_of(unit).shape)
        reduces = [_root_of(u).opcode == "reduce" for u in (unit, operand)]
        if not any(reduces):
            return read == {identity: None}
        same_rows = any(before.get(o) == found and self._is_large(o) for o, found in ways.items())
        row = identity.map.results[: unit.shape.rank]
        return all(reduces) and same_rows and self._reduces_rows(unit) and all(m.map.results == row for m in read)

    def _add(self, group: _Group, unit: HloInstruction) -> bool:
        if not self._has_room(group, unit):
            return False
        group.add(unit, self._ways(unit))
        self.home[unit] = group
        return True

    def _group_of(self, unit: HloInstruction) -> _Group:
        group = self.home.get(unit)
        if group is None:
            group = self.home[unit] = _Group(self.levels[unit], _space(unit))
            group.add(unit, self._ways(unit))
        return group

    def _has_room(self, group: _Group, unit: HloInstruction) -> bool:
        outside = [o for o in (group.operands.keys() | self._ways(unit).keys()) if o not in group.members]
        return (
            group.size + _size_of(unit) <= self.limits.max_instructions
            and len(outside) <= self.limits.max_operands
            and len(group.members) < self.limits.max_outputs
        )


def _levels(order: Iterable[HloInstruction]) -> dict[HloInstruction, int]:
    """Returns the length of the longest path to each instruction, bitcasts not counted."""
    levels: dict[HloInstruction, int] = {}
    for instruction in order:
        before = (*instruction.operands, *instruction.control_predecessors)
        levels[instruction] = max([levels[i] for i in before], default=-1) + (instruction.opcode != "bitcast")
    return levels


def _readers_of(value: HloInstruction) -> list[HloInstruction]:
    """Returns what reads an array, directly or through bitcasts."""
    found: list[HloInstruction] = []
    stack = [value]
    while stack:
        for user in stack.pop().users:
            (stack if is_view(user) else found).append(user)
    return found


def _bitcasts_of(unit: HloInstruction) -> list[HloInstruction]:
    """Returns the bitcasts that a unit reads an array through, what is read first."""
    found: list[HloInstruction] = []
    for operand in unit.operands:
        while is_view(operand) and not has_control_dependencies(operand):
            found.append(operand)
            operand = operand.operand(0)
    return found[::-1]


def _root_of(unit: HloInstruction) -> HloInstruction:
    return unit.fused_expression_root if unit.opcode == "fusion" else unit


def _source_of(unit: HloInstruction) -> HloInstruction:
    """Returns what the loop of a unit goes over: of a reduction, what is reduced."""
    root = _root_of(unit)
    return root.operand(0) if root.opcode == "reduce" else root


def _reduces_columns(unit: HloInstruction) -> bool:
    """Whether a reduction keeps the minor dimension, and has so many rows that accumulators go through the cache."""
    source, result = _source_of(unit).shape, unit.shape
    last = source.rank - 1
    if last in _root_of(unit).attributes_as(DimensionsAttributes).dimensions or source.dimensions[last] < MIN_COLUMNS:
        return False
    return source.num_elements >= MIN_ROWS * result.num_elements


def _space(unit: HloInstruction) -> Space:
    looped = _source_of(unit).shape
    return looped.dimensions, looped.minor_to_major, unit.shape.dimensions, unit.shape.element_type.byte_width


def _size_of(unit: HloInstruction) -> int:
    return unit.fused_instructions_computation.instruction_count if unit.opcode == "fusion" else 1


def _is_loop(unit: HloInstruction) -> bool:
    """Whether a unit is one array that is computed element by element in a loop of its own."""
    if unit.opcode == "fusion":
        plain = unit.attributes_as(FusionAttributes).kind == "kLoop" and cost.is_array_program(unit)
        return plain and not is_tiled(unit.shape) and not cost.has_pieces_inside(unit)
    return unit.opcode not in ("bitcast", "copy", "reduce") and cost.may_be_root(unit) and not is_tiled(unit.shape)
