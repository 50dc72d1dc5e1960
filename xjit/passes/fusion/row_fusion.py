"""Row fusion: softmax, layer norm and their like become one fusion that goes over the array row by row.

A row fusion has an iteration space of `rows` times `length`: the leading dimensions and the trailing ones, in row-major
order. Every instruction on a path to a reduction is evaluated either at the present element (FULL: same linear index
as the
space) or at the present row (ROW: one element per row). Reductions run over whole rows and are read only at ROW, so
that an emitter computes each of them once per row, keeps it in a register, and the row stays in the cache between the
loops. What no reduction depends on may be indexed in any way.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xjit.hlo import HloComputation, HloInstruction, HloModule, Layout, Trait
from xjit.hlo.attributes import DimensionsAttributes, FusionAttributes, ParameterAttributes
from xjit.passes.analysis import fusion_cost as cost
from xjit.passes.analysis.linear_order import sequential_computations
from xjit.passes.framework.base import NO_THREADS, HloModulePass


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
    def of(instruction: HloInstruction) -> _Unit:
        body, size = [instruction], 1
        if instruction.opcode == "fusion":
            computation = instruction.fused_instructions_computation
            body = [i for i in computation.make_instruction_post_order() if i.opcode != "parameter"]
            size = computation.instruction_count
        spaces = frozenset(_reduction_space(i) for i in body if i.opcode == "reduce")
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

    def unit(self, instruction: HloInstruction) -> _Unit:
        found = self.units.get(instruction)
        if found is None:
            found = self.units[instruction] = _Unit.of(instruction)
        return found


@dataclass
class RowFusion(HloModulePass):
    """Merges reductions over trailing dimensions with the loops that produce their input and use their result.

    A producer joins a fusion if all its users are in it, the result obeys the rules of a row fusion, and a reduction is
    gained or already there. Rows longer than `max_row_elements` are left: they would not stay in the cache.
    """

    name: ClassVar[str] = "row-fusion"
    aliases: ClassVar[tuple[str, ...]] = ("softmax-fusion",)
    max_row_elements: int = 64 * 1024
    max_instructions: int = 300
    max_operands: int = 64
    max_reductions: int = 8

    def run(self, module: HloModule, execution_threads: Collection[str] = NO_THREADS) -> bool:
        """Merges in every sequential computation; True if something was merged."""
        changed = False
        for computation in sequential_computations(module):
            if not execution_threads or computation.execution_thread in execution_threads:
                memory = _Memory()
                while self._run_on(computation, memory):  # a merged fusion may take in what none of its parts could
                    changed = True
        if changed and module.has_schedule():
            module.schedule.update(module)
        return changed

    def _run_on(self, computation: HloComputation, memory: _Memory) -> bool:
        home: dict[HloInstruction, list[_Unit]] = {}
        groups: list[list[_Unit]] = []
        for instruction in reversed(computation.make_instruction_post_order()):
            if not _is_unit(instruction):
                continue
            unit = memory.unit(instruction)
            group = self._group_to_join(unit, home, memory.refused)
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
        self, unit: _Unit, home: Mapping[HloInstruction, list[_Unit]], refused: set[tuple[_Unit, ...]]
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
        if units in refused or not any(u.spaces for u in units):
            return None
        if not self._is_row_fusion(units):
            refused.add(units)
            return None
        return group

    def _is_row_fusion(self, units: Sequence[_Unit]) -> bool:
        """Whether units, the last of which is new, may be one fusion."""
        if sum(u.size for u in units) > self.max_instructions:
            return False
        space = _space_of(units)
        if space is None or not 1 < space.length <= self.max_row_elements:
            return False
        if len({o for u in units for o in u.instruction.operands} - {u.instruction for u in units}) > self.max_operands:
            return False
        positions = _positions(units, space)
        if positions is None:
            return False
        reductions = sum(1 for i in positions if i.opcode == "reduce")
        if reductions > self.max_reductions:
            return False
        return positions[units[-1].root] in (Position.FULL, Position.ROW)


def row_space(fusion: HloInstruction) -> RowSpace | None:
    """Returns the row space of a fusion that has a reduction inside (not only at its root); None for all others."""
    if fusion.opcode != "fusion" or not fusion.shape.is_array:
        return None
    body = fusion.fused_instructions_computation
    if not any(i.opcode == "reduce" and i is not body.root_instruction for i in body.instructions):
        return None
    unit = _Unit.of(fusion)
    space = _space_of([unit])
    return space if space is not None and _positions([unit], space) is not None else None


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


def _reduction_space(reduce: HloInstruction) -> RowSpace | None:
    if reduce.shape.is_tuple:
        return None
    dims = reduce.operand(0).shape.dimensions
    kept = len(dims) - len(reduce.attributes_as(DimensionsAttributes).dimensions)
    if sorted(reduce.attributes_as(DimensionsAttributes).dimensions) != list(range(kept, len(dims))):
        return None
    return RowSpace(math.prod(dims[:kept]), math.prod(dims[kept:]))


def _positions(units: Sequence[_Unit], space: RowSpace) -> dict[HloInstruction, Position] | None:
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
            for n, operand in enumerate(instruction.operands):
                source = _source(unit.instruction, operand, roots)
                if source is not None:
                    read = _read_position(instruction, n, position, space)
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


def _read_position(user: HloInstruction, n: int, position: Position, space: RowSpace) -> Position:
    """Returns where `user`, evaluated at `position`, evaluates its operand n."""
    operand = user.operand(n).shape
    if user.opcode == "reduce":
        data = n < user.operand_count // 2 and _reduction_space(user) == space
        return Position.FULL if position is Position.ROW and data else Position.OTHER
    if user.op.has(Trait.ELEMENTWISE) and operand.dimensions == user.shape.dimensions:
        return position
    if user.opcode in ("reshape", "bitcast"):
        return position if operand.num_elements == user.shape.num_elements else Position.OTHER
    if user.opcode == "broadcast":
        return _broadcast_position(user, position, space)
    return Position.OTHER


def _broadcast_position(broadcast: HloInstruction, position: Position, space: RowSpace) -> Position:
    dims, operand = broadcast.shape.dimensions, broadcast.operand(0).shape
    if list(broadcast.attributes_as(DimensionsAttributes).dimensions) != sorted(
        broadcast.attributes_as(DimensionsAttributes).dimensions
    ):
        return Position.OTHER
    if operand.num_elements == broadcast.shape.num_elements:
        return position  # only dimensions of size 1 are added
    if position is not Position.FULL or operand.num_elements != space.rows:
        return Position.OTHER
    leading = _leading(dims, space.rows)
    large = [d for d in broadcast.attributes_as(DimensionsAttributes).dimensions if dims[d] != 1]
    return Position.ROW if leading is not None and all(d < leading for d in large) else Position.OTHER


def _leading(dims: Sequence[int], rows: int) -> int | None:
    """Returns how many leading dimensions make up the rows; None if none do."""
    product = 1
    for i, size in enumerate(dims):
        if product == rows and size != 1:
            return i
        product *= size
    return len(dims) if product == rows else None


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
    root.replace_all_uses_with_different_shape(fusion)
    for unit in units:
        bodies = unit.called_computations if unit.opcode == "fusion" else ()
        computation.remove_instruction(unit)
        for unused in bodies:
            module.remove_embedded_computation(unused)
    return fusion
