"""Row fusion: softmax, layer norm and their like become one fusion that goes over the array row by row.

A row fusion has an iteration space of `rows` times `length`: the leading dimensions and the trailing ones, in row-major
order. Every instruction on a path to a reduction is evaluated either at the present element (FULL: its number is that
of the space's element) or at the present row (ROW: its number is the row's). Reductions run over whole rows and are
read only at ROW, so that an emitter computes each of them once per row, keeps it in a register, and the row stays in
the cache between the loops. What no reduction depends on may be indexed in any way. Which of these an operand is, its
indexing map says.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from xjit.hlo import HloComputation, HloInstruction, HloModule, Layout
from xjit.hlo.attributes import FusionAttributes, ParameterAttributes
from xjit.hlo.ir.classification import is_view
from xjit.indexing.operand_reads import OperandRead, OperandReads
from xjit.passes.analysis import fusion_cost as cost
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.fusion.unit_merging import merge_units


@dataclass(frozen=True, slots=True)
class RowSpace:
    """`rows` rows of `length` elements each."""

    rows: int
    length: int


class Position(enum.Flag):
    """At which indices of the row space an instruction is evaluated."""

    NONE = 0
    FULL = enum.auto()
    ROW = enum.auto()
    OTHER = enum.auto()


@dataclass(slots=True, eq=False)
class _Unit:
    """A fusion or another instruction that may become part of one, with the facts that are asked for many times.

    `spaces` are those of its reductions, None for one that does not run over rows.
    """

    instruction: HloInstruction
    size: int
    reductions: int
    spaces: frozenset[RowSpace | None]
    reads: OperandReads
    _read_at: dict[tuple[RowSpace, Position], Mapping[HloInstruction, Position] | None] = field(default_factory=dict)

    @staticmethod
    def of(instruction: HloInstruction, reads: OperandReads) -> _Unit:
        body = [instruction]
        if instruction.opcode == "fusion":
            body = instruction.fused_instructions_computation.instructions
        reductions = [i for i in body if i.opcode == "reduce"]
        spaces = frozenset([_reduction_space(i, reads) for i in reductions])
        return _Unit(instruction, len(body), len(reductions), spaces, reads)

    @property
    def is_bitcast(self) -> bool:
        return self.instruction.opcode == "bitcast"

    def read_at(self, space: RowSpace, position: Position) -> Mapping[HloInstruction, Position] | None:
        """Returns where the operands are evaluated if the unit is at `position`; None if a reduction is not at rows."""
        key = (space, position)
        if key not in self._read_at:
            self._read_at[key] = self._find_read_at(space, position)
        return self._read_at[key]

    def _find_read_at(self, space: RowSpace, start: Position) -> Mapping[HloInstruction, Position] | None:
        unit = self.instruction
        positions: dict[HloInstruction, Position] = {_root_of(unit): start}
        outside: dict[HloInstruction, Position] = {}
        body = unit.fused_instructions_computation.make_instruction_post_order() if unit.opcode == "fusion" else [unit]
        for instruction in reversed(body):
            position = positions.get(instruction, Position.NONE)
            if instruction.opcode == "reduce" and position is not Position.ROW:
                return None
            for operand, how in zip(instruction.operands, self.reads.of(instruction), strict=True):
                read, at = _read_position(how, position, space), positions
                if operand.opcode == "parameter" and instruction is not unit:
                    operand = unit.operand(operand.attributes_as(ParameterAttributes).parameter_number)
                    at = outside
                elif instruction is unit:
                    at = outside
                _read_also(at, operand, read)
        return outside


def _read_also(positions: dict[HloInstruction, Position], operand: HloInstruction, read: Position) -> None:
    before = positions.get(operand, read)
    positions[operand] = read if before is read else before | read


@dataclass(slots=True)
class _Memory:
    """What is known from earlier rounds over a computation: the units, whose bodies nobody changes meanwhile."""

    units: dict[HloInstruction, _Unit | None] = field(default_factory=dict)
    reads: OperandReads = field(default_factory=OperandReads)

    def unit(self, instruction: HloInstruction) -> _Unit | None:
        """Returns the unit that an instruction is, if it may be in a row fusion."""
        if instruction not in self.units:
            self.units[instruction] = _Unit.of(instruction, self.reads) if _is_unit(instruction) else None
        return self.units[instruction]


@dataclass(slots=True, eq=False)
class _Group:
    """A row fusion in the making: its units, users first, and what they read from outside.

    `positions` says at which indices of `space` that is evaluated. As long as there is no space, only bitcasts have
    joined the root.
    """

    units: list[_Unit] = field(default_factory=list)
    size: int = 0
    reductions: int = 0
    operands: set[HloInstruction] = field(default_factory=set)
    space: RowSpace | None = None
    positions: dict[HloInstruction, Position] = field(default_factory=dict)

    def add(self, unit: _Unit) -> None:
        """Adds a unit, all users of which are in the group."""
        self.units.append(unit)
        self.size += unit.size
        self.reductions += unit.reductions
        self.operands.discard(unit.instruction)
        self.operands.update(unit.instruction.operands)
        if self.space is not None:
            _evaluate(unit, self.space, self.positions)


def _evaluate(unit: _Unit, space: RowSpace, positions: dict[HloInstruction, Position]) -> bool:
    """Adds where the operands of a unit are evaluated, given where it is itself; False if the rules are broken."""
    reads = unit.read_at(space, positions.get(unit.instruction, Position.NONE))
    for operand, read in (reads or {}).items():
        _read_also(positions, operand, read)
    return reads is not None


def _positions(units: Sequence[_Unit], space: RowSpace) -> dict[HloInstruction, Position] | None:
    """Returns where units (users first) and their operands are evaluated; None if the rules are broken."""
    root = units[0].instruction
    start = {space.rows * space.length: Position.FULL, space.rows: Position.ROW}.get(root.shape.num_elements)
    if start is None:
        return None
    positions = {root: start}
    return positions if all(_evaluate(unit, space, positions) for unit in units) else None


@dataclass
class RowFusion(HloModulePass):
    """Merges reductions over trailing dimensions with the loops that produce their input and use their result.

    A producer joins a fusion if all its users are in it, the result obeys the rules of a row fusion, and a reduction is
    gained or already there. Rows longer than `max_row_elements` are left: they would not stay in the cache.
    """

    name = "row-fusion"
    aliases = ("softmax-fusion",)
    opcodes = frozenset({"reduce"})
    max_row_elements: int = 1 << 18
    max_instructions: int = 300
    max_operands: int = 64
    max_reductions: int = 8

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Merges in every sequential computation; True if something was merged."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if not execution_threads or computation.execution_thread in execution_threads:
                memory = _Memory()
                while self._run_on(computation, memory):  # a merged fusion may take in what none of its parts could
                    changed = True
        return changed

    def _run_on(self, computation: HloComputation, memory: _Memory) -> bool:
        home: dict[HloInstruction, _Group] = {}
        groups: list[_Group] = []
        for instruction in reversed(computation.make_instruction_post_order()):
            unit = memory.unit(instruction)
            if unit is None:
                continue
            group = _group_of_users(instruction, home)
            if group is None or not self._joins(group, unit):
                if unit.is_bitcast:
                    continue  # free where it is, and no root
                group = _Group()
                groups.append(group)
            group.add(unit)
            home[instruction] = group
        merged = [chosen for g in groups if len(chosen := _without_edge_bitcasts(g.units)) > 1]
        for chosen in reversed(merged):
            units = [unit.instruction for unit in reversed(chosen)]
            merge_units(computation, units, units[-1:], units[-1], "kInput", "row")
        return bool(merged)

    def _joins(self, group: _Group, unit: _Unit) -> bool:
        """Whether a group and a unit that only it reads may be one fusion."""
        if unit.is_bitcast:
            return True  # if its operand does not follow, `_without_edge_bitcasts` drops it again
        reductions = group.reductions + unit.reductions
        if not 0 < reductions <= self.max_reductions or group.size + unit.size > self.max_instructions:
            return False
        if len(group.operands.union(unit.instruction.operands)) - 1 > self.max_operands:
            return False
        space, positions = group.space, group.positions
        if space is None:
            space = self._space_of(group.units[0].spaces | unit.spaces)
            positions = _positions(group.units, space) if space is not None else None
        if space is None or positions is None or not unit.spaces <= {space}:
            return False
        position = positions.get(unit.instruction)
        if position not in (Position.FULL, Position.ROW) or unit.read_at(space, position) is None:
            return False
        group.space, group.positions = space, positions
        return True

    def _space_of(self, spaces: frozenset[RowSpace | None]) -> RowSpace | None:
        """Returns the space of reductions, if they all run over trailing dimensions of the same one."""
        space = next(iter(spaces)) if len(spaces) == 1 else None
        return space if space is not None and 1 < space.length <= self.max_row_elements else None


def _group_of_users(instruction: HloInstruction, home: Mapping[HloInstruction, _Group]) -> _Group | None:
    """Returns the group that everything that reads an instruction is in, if it is one."""
    users = instruction.users
    if not users or instruction.is_root():
        return None
    group = home.get(users[0])
    return group if all(home.get(user) is group for user in users) else None


def _is_unit(instruction: HloInstruction) -> bool:
    if instruction.opcode == "bitcast":
        return is_view(instruction) and instruction.shape.is_static_array and _is_row_major(instruction)
    if instruction.opcode == "fusion":
        usable = instruction.attributes_as(FusionAttributes).kind in ("kLoop", "kInput") and cost.is_array_program(
            instruction
        )
        usable = usable and not cost.has_pieces_inside(instruction)
        return usable and _is_row_major(instruction) and _root_of(instruction).opcode not in cost.BUFFER_READERS
    if instruction.opcode in ("concatenate", "dynamic-update-slice") or not cost.may_be_root(instruction):
        return False
    if cost.is_large_turned(instruction):  # its rows are columns of memory: tiles of many rows turn it
        return False
    return instruction.shape.is_array and _is_row_major(instruction)


def _is_row_major(instruction: HloInstruction) -> bool:
    layout = instruction.shape.layout
    return layout is None or layout == Layout.row_major(instruction.shape.rank)


def _without_edge_bitcasts(group: Sequence[_Unit]) -> list[_Unit]:
    units = {u.instruction: u for u in group}
    for unit in reversed(group):
        if unit.is_bitcast and unit is not group[0] and unit.instruction.operand(0) not in units:
            del units[unit.instruction]
    return list(units.values()) if any(u.spaces for u in units.values()) else []


def _root_of(unit: HloInstruction) -> HloInstruction:
    return unit.fused_expression_root if unit.opcode == "fusion" else unit


def _reduction_space(reduce: HloInstruction, reads: OperandReads) -> RowSpace | None:
    if reduce.shape.is_tuple:
        return None
    rows = max(1, reduce.shape.num_elements)
    length = reduce.operand(0).shape.num_elements // rows
    return RowSpace(rows, length) if reads.of(reduce)[0].reads_whole_row(length) else None


def _read_position(read: OperandRead, position: Position, space: RowSpace) -> Position:
    """Returns where an operand is evaluated by what is evaluated at `position`."""
    if read.keeps_number:
        return position
    if position is Position.FULL and read.reads_its_row(space.length):
        return Position.ROW
    if position is Position.ROW and read.reads_whole_row(space.length):
        return Position.FULL
    return Position.OTHER
