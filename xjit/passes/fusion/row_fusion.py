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
from xjit.hlo.edit.replacing import replace
from xjit.indexing.operand_reads import OperandRead, OperandReads
from xjit.passes.analysis import fusion_cost as cost
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass


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


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """A fusion or another instruction that may become part of one, with the facts that are asked for many times.

    `body` lists its instructions in post order, without parameters; `spaces` are those of its reductions, None for one
    that does not run over rows.
    """

    instruction: HloInstruction
    body: tuple[HloInstruction, ...]
    size: int
    spaces: frozenset[RowSpace | None]

    @staticmethod
    def of(instruction: HloInstruction, reads: OperandReads) -> _Unit:
        body, size = [instruction], 1
        if instruction.opcode == "fusion":
            computation = instruction.fused_instructions_computation
            body = [i for i in computation.make_instruction_post_order() if i.opcode != "parameter"]
            size = computation.instruction_count
        spaces = frozenset(_reduction_space(i, reads) for i in body if i.opcode == "reduce")
        return _Unit(instruction, tuple(body), size, spaces)

    @property
    def root(self) -> HloInstruction:
        return _root_of(self.instruction)

    @property
    def is_bitcast(self) -> bool:
        return self.instruction.opcode == "bitcast"


@dataclass(slots=True)
class _Memory:
    """What is known from earlier rounds over a computation: units, whose bodies nobody changes, and which lists of
    them do not make a row fusion.
    """

    units: dict[HloInstruction, _Unit] = field(default_factory=dict[HloInstruction, _Unit])
    refused: set[tuple[_Unit, ...]] = field(default_factory=set[tuple[_Unit, ...]])
    reads: OperandReads = field(default_factory=OperandReads)

    def unit(self, instruction: HloInstruction) -> _Unit:
        found = self.units.get(instruction)
        if found is None:
            found = self.units[instruction] = _Unit.of(instruction, self.reads)
        return found


@dataclass
class RowFusion(HloModulePass):
    """Merges reductions over trailing dimensions with the loops that produce their input and use their result.

    A producer joins a fusion if all its users are in it, the result obeys the rules of a row fusion, and a reduction is
    gained or already there. Rows longer than `max_row_elements` are left: they would not stay in the cache.
    """

    name = "row-fusion"
    aliases = ("softmax-fusion",)
    max_row_elements: int = 64 * 1024
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
        home: dict[HloInstruction, list[_Unit]] = {}
        groups: list[list[_Unit]] = []
        for instruction in reversed(computation.make_instruction_post_order()):
            if not _is_unit(instruction):
                continue
            unit = memory.unit(instruction)
            group = self._group_to_join(unit, home, memory)
            if group is not None:
                group.append(unit)
            elif unit.is_bitcast:
                continue  # free where it is, and no root
            else:
                group = [unit]
                groups.append(group)
            home[instruction] = group
        merged = [chosen for g in groups if len(chosen := _without_edge_bitcasts(g)) > 1]
        for chosen in reversed(merged):
            _merge(computation, [unit.instruction for unit in chosen])
        return bool(merged)

    def _group_to_join(
        self, unit: _Unit, home: Mapping[HloInstruction, list[_Unit]], memory: _Memory
    ) -> list[_Unit] | None:
        users = unit.instruction.users
        if not users or unit.instruction.is_root():
            return None
        group = home.get(users[0])
        if group is None or any(home.get(u) is not group for u in users):
            return None
        if unit.is_bitcast:
            return group  # if its operand does not follow, `_without_edge_bitcasts` drops it again
        units = (*group, unit)
        if units in memory.refused or not any(u.spaces for u in units):
            return None
        if not self._is_row_fusion(units, memory.reads):
            memory.refused.add(units)
            return None
        return group

    def _is_row_fusion(self, units: Sequence[_Unit], reads: OperandReads) -> bool:
        """Whether units, the last of which is new, may be one fusion."""
        if sum(u.size for u in units) > self.max_instructions:
            return False
        space = _space_of(units)
        if space is None or not 1 < space.length <= self.max_row_elements:
            return False
        if len({o for u in units for o in u.instruction.operands} - {u.instruction for u in units}) > self.max_operands:
            return False
        positions = _positions(units, space, reads)
        if positions is None:
            return False
        reductions = sum(1 for i in positions if i.opcode == "reduce")
        if reductions > self.max_reductions:
            return False
        return positions[units[-1].root] in (Position.FULL, Position.ROW)


def _is_unit(instruction: HloInstruction) -> bool:
    if instruction.opcode == "bitcast":
        return instruction.shape.is_static_array and _is_row_major(instruction)
    if instruction.opcode == "fusion":
        usable = instruction.attributes_as(FusionAttributes).kind in ("kLoop", "kInput") and cost.is_array_program(
            instruction
        )
        return usable and _is_row_major(instruction) and _root_of(instruction).opcode != "dynamic-update-slice"
    if instruction.opcode in ("concatenate", "dynamic-update-slice") or not cost.may_be_root(instruction):
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


def _space_of(units: Sequence[_Unit]) -> RowSpace | None:
    """Returns the space of the reductions, if they all run over trailing dimensions of the same row space."""
    spaces = {space for unit in units for space in unit.spaces}
    return spaces.pop() if len(spaces) == 1 else None


def _reduction_space(reduce: HloInstruction, reads: OperandReads) -> RowSpace | None:
    if reduce.shape.is_tuple:
        return None
    rows = max(1, reduce.shape.num_elements)
    length = reduce.operand(0).shape.num_elements // rows
    return RowSpace(rows, length) if reads.of(reduce)[0].reads_whole_row(length) else None


def _positions(units: Sequence[_Unit], space: RowSpace, reads: OperandReads) -> dict[HloInstruction, Position] | None:
    """Returns where every instruction of the units (users first) is evaluated; None if the rules are broken."""
    root = units[0].root
    start = {space.rows * space.length: Position.FULL, space.rows: Position.ROW}.get(root.shape.num_elements)
    if start is None:
        return None
    positions: dict[HloInstruction, Position] = {root: start}
    roots = {u.instruction: u.root for u in units}
    for unit in units:
        for instruction in reversed(unit.body):
            position = positions.get(instruction, Position.NONE)
            if instruction.opcode == "reduce" and position is not Position.ROW:
                return None
            for operand, how in zip(instruction.operands, reads.of(instruction), strict=True):
                source = _source(unit.instruction, operand, roots)
                if source is not None:
                    read = _read_position(how, position, space)
                    before = positions.get(source, read)
                    positions[source] = read if before is read else before | read
    return positions


def _source(
    unit: HloInstruction, operand: HloInstruction, roots: Mapping[HloInstruction, HloInstruction]
) -> HloInstruction | None:
    """Returns the instruction that computes an operand inside the merged fusion, or None for a memory operand.

    `roots` are those of the units.
    """
    if unit.opcode == "fusion":
        if operand.opcode != "parameter":
            return operand
        operand = unit.operand(operand.attributes_as(ParameterAttributes).parameter_number)
    return roots.get(operand)


def _read_position(read: OperandRead, position: Position, space: RowSpace) -> Position:
    """Returns where an operand is evaluated by what is evaluated at `position`."""
    if read.keeps_number:
        return position
    if position is Position.FULL and read.reads_its_row(space.length):
        return Position.ROW
    if position is Position.ROW and read.reads_whole_row(space.length):
        return Position.FULL
    return Position.OTHER


def _merge(computation: HloComputation, units: Sequence[HloInstruction]) -> HloInstruction:
    """Replaces units (users first, one root) by one fusion."""
    module = computation.parent
    assert module is not None
    body = HloComputation("row_fused_computation")
    members = set(units)
    outside: dict[HloInstruction, HloInstruction] = {}
    values: dict[HloInstruction, HloInstruction] = {}

    def operand_value(operand: HloInstruction) -> HloInstruction:
        if operand in members:
            return values[operand]
        if operand not in outside:
            parameter = HloInstruction.create_parameter(len(outside), operand.shape, f"param_{len(outside)}")
            outside[operand] = body.add_instruction(parameter)
        return outside[operand]

    for unit in reversed(units):
        operands = [operand_value(o) for o in unit.operands]
        if unit.opcode != "fusion":
            values[unit] = body.add_instruction(unit.clone_with_new_operands(unit.shape, operands))
            continue
        inner = unit.fused_instructions_computation
        bound = {
            p: operands[p.attributes_as(ParameterAttributes).parameter_number] for p in inner.parameter_instructions
        }
        values[unit] = inner.clone_instructions(body, bound)[inner.root_instruction]
    root = units[0]
    body.set_root_instruction(values[root])
    module.add_embedded_computation(body)
    fusion = HloInstruction.create(
        "fusion", root.shape, list(outside), FusionAttributes("kInput"), [body], "row_fusion"
    )
    fusion.copy_annotations_from(root)
    computation.add_instruction(fusion)
    bodies = [body for unit in units if unit.opcode == "fusion" for body in unit.called_computations]
    replace(root, fusion)
    for unused in bodies:
        module.remove_embedded_computation(unused)
    return fusion
