"""`create_from_proto`: serialized `HloModuleProto` -> HloModule, validated as it is built.

Malformed input of any kind is an HloParseError: unknown opcodes and types, missing or repeated ids, operands after
their users, gaps in the parameter numbers, an entry layout that does not fit.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.message import DecodeError

from xjit.collector_pause import collector_pause
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import Alias, BufferDonor
from xjit.hlo.annotations.metadata import FileLocation, StackFrame, StackFrameIndex
from xjit.hlo.attributes.codecs.annotations import format_frontend_attributes, parse_frontend_attributes
from xjit.hlo.attributes.codecs.value_text import CodecError
from xjit.hlo.attributes.opcodes import OPCODES, VARIADIC
from xjit.hlo.diagnostics import HloError, HloParseError
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import ComputationLayout, HloModule, HloModuleConfig
from xjit.hlo.ir.name_uniquer import KEYWORDS, NameUniquer
from xjit.hlo.ir.schedule import HloSchedule
from xjit.hlo.types.shape_index import format_shape_index
from xjit.text.cursor import did_you_mean
from xjit.text.opcode_syntax import called_in_proto_order, without_default_comparison_type
from xjit.text.proto import hlo_pb2 as pb
from xjit.text.proto.attributes import read_attributes
from xjit.text.proto.metadata import read_metadata, read_origin, read_statistics
from xjit.text.proto.shapes import read_shape
from xjit.text.proto.sharding import read_sharding

_MODULE_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


@collector_pause
def create_from_proto(data: bytes, config: HloModuleConfig | None = None) -> HloModule:
    """Returns the module of a serialized HloModuleProto; HloParseError if it is malformed."""
    proto = _decode(data)
    module = HloModule(_module_name(proto.name), config or read_module_config(data))
    try:
        reader = _Reader(proto)
        computations = reader.computations()
    except CodecError as error:
        raise HloParseError(f"module '{proto.name}' in a proto: {error.message}") from None
    entry = _entry(proto, computations)
    for computation in computations.values():
        add = module.add_entry_computation if computation is entry else module.add_embedded_computation
        add(computation)
    _check_layout(module)
    if proto.HasField("schedule"):
        _read_schedule(module, reader)
    module.frontend_attributes = _frontend_attributes(proto, f"module '{proto.name}'")
    module.stack_frame_index = _stack_frames(proto.stack_frame_index)
    return module


def _module_name(name: str) -> str:
    """The name as HLO text can hold it."""
    return name if _MODULE_NAME.fullmatch(name) and name not in KEYWORDS else NameUniquer.sanitize(name or "module")


def _frontend_attributes(proto: Any, owner: str) -> dict[str, str]:
    attributes = dict(proto.frontend_attributes.map)
    if attributes:
        try:
            parse_frontend_attributes(format_frontend_attributes(attributes))
        except CodecError as error:
            raise HloParseError(f"{owner} in a proto: {error.message}") from None
    return attributes


def read_module_config(data: bytes) -> HloModuleConfig:
    """Returns the config of a serialized HloModuleProto; HloParseError if it is malformed."""
    proto = _decode(data)
    if not proto.HasField("host_program_shape"):
        raise HloParseError(f"module '{proto.name}' in a proto has no program shape")
    shape = proto.host_program_shape
    config = HloModuleConfig(ComputationLayout([read_shape(p) for p in shape.parameters], read_shape(shape.result)))
    header = config.header_attributes
    config.input_output_alias = tuple(
        Alias(
            tuple(e.output_shape_index),
            e.parameter_number,
            tuple(e.parameter_shape_index),
            "must-alias" if e.kind == pb.MUST_ALIAS else "may-alias",
        )
        for e in proto.input_output_alias.entries
    )
    config.buffer_donors = tuple(
        BufferDonor(e.parameter_number, tuple(e.parameter_shape_index)) for e in proto.buffer_donor.entries
    )
    if proto.HasField("spmd_output_sharding"):
        header["spmd_output_sharding"] = str(read_sharding(proto.spmd_output_sharding))
    if proto.spmd_parameters_shardings:
        shardings = ", ".join(str(read_sharding(s)) for s in proto.spmd_parameters_shardings)
        header["spmd_parameters_shardings"] = f"{{{shardings}}}"
    if proto.cross_program_prefetches:
        entries = (f"({p.parameter}, {format_shape_index(p.index)})" for p in proto.cross_program_prefetches)
        header["cross_program_prefetches"] = f"{{ {', '.join(entries)} }}"
    return config


def _decode(data: bytes) -> Any:
    proto = pb.HloModuleProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise HloParseError(f"the bytes are not a serialized HloModuleProto: {error}") from None
    if not proto.computations:
        raise HloParseError("the HloModuleProto has no computations")
    return proto


def _entry(proto: Any, computations: dict[int, HloComputation]) -> HloComputation:
    entry = computations.get(proto.entry_computation_id)
    if entry is None:
        raise HloParseError(f"the proto's entry computation {proto.entry_computation_id} does not exist")
    if proto.entry_computation_name and entry.name != proto.entry_computation_name:
        by_name = [c for c in computations.values() if c.name == proto.entry_computation_name]
        if not by_name:
            raise HloParseError(f"the proto's entry computation '{proto.entry_computation_name}' does not exist")
        entry = by_name[0]
    return entry


def _check_layout(module: HloModule) -> None:
    layout, actual = module.entry_computation_layout, module.compute_computation_layout()
    wanted = [*layout.parameter_shapes, layout.result_shape]
    found = [*actual.parameter_shapes, actual.result_shape]
    if len(wanted) != len(found):
        raise HloParseError(f"the program shape has {len(wanted) - 1} parameters, the entry has {len(found) - 1}")
    for x, y in zip(wanted, found, strict=True):
        if not x.compatible(y):
            raise HloParseError(f"the program shape has {x} where the entry computation has {y}")


def _stack_frames(proto: Any) -> StackFrameIndex:
    names = FileLocation.__slots__
    return StackFrameIndex(
        tuple(proto.file_names),
        tuple(proto.function_names),
        tuple(FileLocation(**{name: getattr(row, name) for name in names}) for row in proto.file_locations),
        tuple(StackFrame(row.file_location_id, row.parent_frame_id + 1) for row in proto.stack_frames),
    )


def _read_schedule(module: HloModule, reader: _Reader) -> None:
    sequences: dict[HloComputation, list[HloInstruction]] = {}
    for number, sequence in reader.proto.schedule.sequences.items():
        if number not in reader.by_id:
            raise HloParseError(f"the proto has a schedule for computation {number}, which does not exist")
        known = reader.instructions[number]
        if missing := [i for i in sequence.instruction_ids if i not in known]:
            raise HloParseError(f"the proto schedules {missing[0]}, which is not in '{reader.by_id[number].name}'")
        sequences[reader.by_id[number]] = [known[i] for i in sequence.instruction_ids]
    try:
        module.set_schedule(HloSchedule(sequences))
    except HloError as error:
        raise HloParseError(f"module '{module.name}' in a proto: {error.message}") from None


class _Reader:
    def __init__(self, proto: Any) -> None:
        self.proto = proto
        self.by_id: dict[int, HloComputation] = {}
        self.instructions: dict[int, dict[int, HloInstruction]] = {}  # of each computation, by their ids

    def computations(self) -> dict[int, HloComputation]:
        """Returns the computations by id; those that are called must come before their callers."""
        names: set[str] = set()
        for item in self.proto.computations:
            if item.id in self.by_id or item.name in names:
                raise HloParseError(f"the proto has two computations with the id {item.id} or name '{item.name}'")
            names.add(item.name)
            self.by_id[item.id] = self._computation(item)
        return self.by_id

    def _computation(self, proto: Any) -> HloComputation:
        computation = HloComputation(proto.name)
        computation.execution_thread = proto.execution_thread or "main"
        instructions = self.instructions[proto.id] = {}
        names: set[str] = set()
        for item in proto.instructions:
            if item.id in instructions or item.name in names:
                twice = f"two instructions with the id {item.id} or name '{item.name}'"
                raise HloParseError(f"computation '{proto.name}' in a proto has {twice}")
            names.add(item.name)
            instruction = instructions[item.id] = self._instruction(item, instructions)
            try:
                computation.add_instruction(instruction)
            except HloError as error:
                raise HloParseError(error.message) from None
        if proto.root_id not in instructions:
            raise HloParseError(f"computation '{proto.name}' in a proto has no instruction {proto.root_id}, its root")
        computation.set_root_instruction(instructions[proto.root_id])
        for number, parameter in enumerate(computation.parameter_instructions):
            if parameter.attributes_as(at.ParameterAttributes).parameter_number != number:
                raise HloParseError(f"computation '{proto.name}' in a proto has no parameter {number}")
        return computation

    def _instruction(self, proto: Any, instructions: dict[int, HloInstruction]) -> HloInstruction:
        op = OPCODES.get(proto.opcode)
        if op is None:
            raise HloParseError(
                f"instruction '{proto.name}' in a proto has the unknown opcode '{proto.opcode}'"
                + did_you_mean(proto.opcode, OPCODES)
            )
        operands = [self._lookup(i, instructions, proto) for i in proto.operand_ids]
        if op.arity != VARIADIC and len(operands) != op.arity:
            raise HloParseError(f"instruction '{proto.name}' in a proto: {op.name} with {len(operands)} operands")
        called = called_in_proto_order(op.name, [self._called(i, proto) for i in proto.called_computation_ids])
        if not called and op.name in ("async-update", "async-done"):
            called = list(operands[0].called_computations)
        fewest = 1 if op.name == "conditional" else len([role for role in op.called if not role.endswith("*")])
        if len(called) < fewest or (len(called) > fewest and not any(role.endswith("*") for role in op.called)):
            raise HloParseError(f"instruction '{proto.name}' in a proto: {op.name} calls {len(called)} computations")
        attributes = read_attributes(op.attributes, proto)
        if op.name == "compare":
            attributes = without_default_comparison_type(attributes, operands[0].shape.element_type)
        shape = read_shape(proto.shape)
        if isinstance(attributes, at.ConstantAttributes):
            if not proto.HasField("literal"):
                raise HloParseError(f"constant '{proto.name}' in a proto has no literal")
            if not attributes.literal.shape.compatible(shape):
                raise HloParseError(
                    f"constant '{proto.name}' in a proto: {shape} with a literal of {attributes.literal.shape}"
                )
        instruction = HloInstruction(op, shape, operands, attributes, called, proto.name)
        self._annotate(instruction, proto)
        for i in proto.control_predecessor_ids:
            predecessor = self._lookup(i, instructions, proto)
            predecessor.control_successors.append(instruction)
            instruction.control_predecessors.append(predecessor)
        return instruction

    def _annotate(self, instruction: HloInstruction, proto: Any) -> None:
        if proto.HasField("metadata"):
            instruction.metadata = read_metadata(proto.metadata)
        if proto.HasField("sharding"):
            instruction.sharding = read_sharding(proto.sharding)
        instruction.raw_backend_config = proto.backend_config.decode("utf-8", "surrogateescape")
        instruction.frontend_attributes = _frontend_attributes(proto, f"instruction '{proto.name}'")
        instruction.origin = read_origin(proto.original_value)
        instruction.statistics = read_statistics(proto.statistics_viz)

    def _lookup(self, number: int, instructions: dict[int, HloInstruction], proto: Any) -> HloInstruction:
        instruction = instructions.get(number)
        if instruction is None:
            raise HloParseError(f"instruction '{proto.name}' in a proto uses {number}, which does not come before it")
        return instruction

    def _called(self, number: int, proto: Any) -> HloComputation:
        computation = self.by_id.get(number)
        if computation is None:
            raise HloParseError(f"instruction '{proto.name}' in a proto calls {number}, which does not come before it")
        return computation
