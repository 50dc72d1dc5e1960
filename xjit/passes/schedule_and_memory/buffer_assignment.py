"""Buffer assignment: a static slice of memory for every leaf of every instruction that runs outside fusions.

Parameters and constants are read-only and stay where they are; results are computed in the caller's result buffers; all
else lives in one arena, reused as live ranges allow. A result that aliases a parameter is planned so that both may be
one buffer: whether they are, the caller of the program decides. Tuples, loops, branches and calls are plumbing without
buffers of their own. The module must be scheduled and have been through copy insertion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.analysis.linear_order import Event, module_sequences
from xjit.passes.schedule_and_memory.buffer_classes import BufferClass, BufferClasses
from xjit.passes.schedule_and_memory.buffer_packing import Block, pack
from xjit.passes.schedule_and_memory.copy_insertion import analyze_buffers
from xjit.passes.schedule_and_memory.input_output_aliasing import keep_aliases, must_aliases
from xjit.thunks.buffer_slice import NO_SLICE, BufferSlice
from xjit.thunks.result_alias import ResultAlias


@dataclass(slots=True)
class BufferAssignment:
    """The slices of a module, its constants, and what the program needs in all. Made by `assign_buffers`."""

    module: HloModule
    arena_size: int
    constants: tuple[Literal, ...]
    constant_users: tuple[HloInstruction, ...]
    sequences: Mapping[HloComputation, Sequence[HloInstruction]]
    classes: BufferClasses = field(repr=False)
    aliases: frozenset[ResultAlias] = frozenset()
    _slices: dict[HloInstruction, tuple[BufferSlice, ...]] = field(repr=False, default_factory=dict)
    _positions: dict[int, tuple[object, dict[ShapeIndex, int]]] = field(repr=False, default_factory=dict)
    _aliased: frozenset[tuple[int, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._aliased = frozenset((a.parameter, a.result) for a in self.aliases)

    def slice(self, instruction: HloInstruction, shape_index: ShapeIndex = ()) -> BufferSlice:
        """Returns the slice of a leaf; "none" for tokens. FailedPrecondition for instructions that do not run."""
        slices = self.leaf_slices(instruction)
        if not instruction.shape.is_tuple:
            return slices[0]
        known = self._positions.get(id(instruction.shape))
        if known is None or known[0] is not instruction.shape:
            positions = {index: n for n, (index, _) in enumerate(instruction.shape.leaves())}
            known = self._positions[id(instruction.shape)] = (instruction.shape, positions)
        return slices[known[1][shape_index]]

    def leaf_slices(self, instruction: HloInstruction) -> tuple[BufferSlice, ...]:
        """Returns the slices of all leaves, in order."""
        found = self._slices.get(instruction)
        if found is None:
            raise FailedPrecondition(f"{instruction.name} has no buffers: no computation that runs contains it")
        return found

    def may_be_one(self, source: BufferSlice, target: BufferSlice) -> bool:
        """Whether two slices may be the same memory at run time: a parameter and the result that aliases it."""
        is_pair = source.kind == "parameter" and target.kind == "result"
        return is_pair and (source.index, target.index) in self._aliased

    def sequence(self, computation: HloComputation) -> Sequence[HloInstruction]:
        """Returns the order in which a computation's instructions run."""
        return self.sequences[computation]

    @property
    def flow(self) -> HloDataflowAnalysis:
        """The dataflow that the assignment rests on."""
        return self.classes.flow

    @property
    def events(self) -> list[Event]:
        """The program as a line of events."""
        return self.classes.flow.events

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all leaves of the entry's parameters."""
        parameters = self.module.entry_computation.parameter_instructions
        return sum(physical_byte_size(leaf) for p in parameters for _, leaf in p.shape.leaves())

    @property
    def result_bytes(self) -> int:
        """Bytes of all leaves of the entry's root."""
        return sum(
            physical_byte_size(leaf) for _, leaf in self.module.entry_computation.root_instruction.shape.leaves()
        )

    @property
    def alias_bytes(self) -> int:
        """Bytes of results that take no memory of their own when their parameters are donated."""
        return sum(a.byte_size for a in self.aliases)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the constants, each value once."""
        return sum(physical_byte_size(c.shape) for c in self.constants)

    @property
    def total_bytes(self) -> int:
        """Bytes that a call needs: parameters, results, constants and the arena."""
        return self.parameter_bytes + self.result_bytes + self.constant_bytes + self.arena_size

    def to_text(self) -> str:
        """Returns a readable dump: totals, then every instruction with its slices, in execution order."""
        lines = [
            f"BufferAssignment of {self.module.name}: arena {self.arena_size} bytes, parameters "
            f"{self.parameter_bytes}, "
            f"results {self.result_bytes} (aliased {self.alias_bytes}), "
            f"constants {self.constant_bytes} in {len(self.constants)}, "
            f"total {self.total_bytes}"
        ]
        for computation in self.sequences:
            lines.append(f"\n{computation.name}:")
            for instruction in self.sequences[computation]:
                slices = ", ".join(map(str, self.leaf_slices(instruction)))
                lines.append(f"  %{instruction.name} = {instruction.opcode} {instruction.shape.to_string()}: {slices}")
        return "\n".join(lines) + "\n"


def assign_buffers(module: HloModule, share_in_place: bool = True) -> BufferAssignment:
    """Assigns a slice to every leaf of the scheduled, copy-inserted module.

    FailedPrecondition if the module is not scheduled or a loop, branch or result could not get its one buffer.
    """
    if not module.has_schedule():
        raise FailedPrecondition(f"module {module.name} has no schedule: run hlo-memory-scheduler, then copy-insertion")
    _check_entry_layout(module)
    classes = analyze_buffers(module)
    if classes.conflicts:
        tie = classes.conflicts[0]
        raise FailedPrecondition(
            f"{tie.value!r} cannot share the buffer of {tie.instruction.name} ({tie.kind}): run copy-insertion, "
            "then copy-fusion, first"
        )
    aliases = keep_aliases(module, classes)  # first: what shares memory later takes them into account
    if missed := [a for a in must_aliases(module) if a not in aliases]:
        what = f"result leaf {missed[0].result} cannot be in the buffer of parameter leaf {missed[0].parameter}"
        raise FailedPrecondition(f"{what}: run copy-insertion first")
    if share_in_place:
        classes.share_in_place()
    sequences = module_sequences(module)
    constants, constant_users, constant_number = _collect_constants(classes.flow)
    fixed = _fixed_slices(module, classes, constant_number)
    places, arena_size = _place_in_arena([c for c in classes.classes() if not c.read_only and c.result is None])
    slices: dict[HloInstruction, tuple[BufferSlice, ...]] = {}
    for sequence in sequences.values():
        for instruction in sequence:
            slices[instruction] = tuple(_slice_of(v, classes, fixed, places) for v in classes.flow.values(instruction))
    return BufferAssignment(
        module, arena_size, constants, constant_users, sequences, classes, frozenset(aliases), slices
    )


def _slice_of(
    value: HloValue | None,
    classes: BufferClasses,
    fixed: Mapping[HloValue, BufferSlice],
    places: Mapping[BufferClass, int],
) -> BufferSlice:
    if value is None:
        return NO_SLICE
    if value in fixed:
        return fixed[value]
    owner = classes.class_of(value)
    if owner.result is not None:
        return BufferSlice("result", owner.result, 0, value.byte_size)
    return BufferSlice("arena", 0, places[owner], value.byte_size)


def _fixed_slices(
    module: HloModule, classes: BufferClasses, constant_number: Mapping[HloValue, int]
) -> dict[HloValue, BufferSlice]:
    """Returns the slices of entry parameters and constants."""
    fixed: dict[HloValue, BufferSlice] = {}
    number = 0
    for parameter in module.entry_computation.parameter_instructions:
        for value in classes.flow.values(parameter):
            if value is not None:
                fixed[value] = BufferSlice("parameter", number, 0, value.byte_size)
                number += 1
    for value, n in constant_number.items():
        fixed[value] = BufferSlice("constant", n, 0, value.byte_size)
    return fixed


def _collect_constants(
    flow: HloDataflowAnalysis,
) -> tuple[tuple[Literal, ...], tuple[HloInstruction, ...], dict[HloValue, int]]:
    """Numbers the constants that run; equal bits in one layout are one constant."""
    literals: list[Literal] = []
    users: list[HloInstruction] = []
    by_value: dict[object, int] = {}
    numbers: dict[HloValue, int] = {}
    for event in flow.events:
        if event.instruction.opcode != "constant":
            continue
        for value in flow.values(event.instruction):
            if value is None:
                continue
            literal = _leaf_literal(
                event.instruction.attributes_as(at.ConstantAttributes).literal, value.index
            ).with_shape(value.shape)
            key = (literal.digest(), literal.shape.layout)
            if key not in by_value:
                by_value[key] = len(literals)
                literals.append(literal)
                users.append(event.instruction)
            numbers[value] = by_value[key]
    return tuple(literals), tuple(users), numbers


def _leaf_literal(literal: Literal, index: ShapeIndex) -> Literal:
    for i in index:
        literal = literal.elements[i]
    return literal


def _place_in_arena(classes: Sequence[BufferClass]) -> tuple[dict[BufferClass, int], int]:
    blocks = [Block(c.size, *c.hull()) for c in classes]
    offsets, size = pack(blocks)
    return dict(zip(classes, offsets, strict=True)), size


def _check_entry_layout(module: HloModule) -> None:
    wanted = module.entry_computation_layout
    entry = module.entry_computation
    named: Iterator[tuple[str, object, object]] = iter(
        [
            *((p.name, p.shape, s) for p, s in zip(entry.parameter_instructions, wanted.parameter_shapes, strict=True)),
            ("the root", entry.root_instruction.shape, wanted.result_shape),
        ]
    )
    for name, shape, expected in named:
        if shape != expected:
            raise FailedPrecondition(
                f"{name} is {shape}, the entry layout says {expected}: run layout-assignment first"
            )
