"""`to_proto`: HloModule -> serialized `HloModuleProto`.

Ids are XLA's: the position of the computation in the upper 32 bits, the position of the instruction in the lower ones.
"""

from __future__ import annotations

import re
from typing import Any

from xjit.hlo.annotations.metadata import NO_METADATA, StackFrameIndex
from xjit.hlo.attributes.codecs.shardings import parse_sharding
from xjit.hlo.attributes.codecs.value_text import CodecError
from xjit.hlo.diagnostics import FailedPrecondition, HloError, InvalidArgument, Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.text.opcode_syntax import called_in_proto_order, default_comparison_type
from xjit.text.proto import hlo_pb2 as pb
from xjit.text.proto.attributes import write_attributes
from xjit.text.proto.metadata import write_metadata, write_origin, write_statistics
from xjit.text.proto.shapes import write_shape
from xjit.text.proto.sharding import write_sharding

_COMPUTATION_SHIFT = 32
Numbers = dict[HloInstruction, int]
_ALIAS = re.compile(r"(\{[\d,\s]*\})\s*:\s*\(\s*(\d+)\s*,\s*(\{[\d,\s]*\})\s*(?:,\s*(may|must)-alias\s*)?\)")
_DONOR = re.compile(r"\(\s*(\d+)\s*,\s*(\{[\d,\s]*\})\s*\)")


def to_proto(module: HloModule) -> bytes:
    """Returns the module as a serialized HloModuleProto; HloError if an attribute's text is malformed."""
    proto = pb.HloModuleProto(name=module.name)
    computations = module.make_computation_post_order()
    ids = {computation: number for number, computation in enumerate(computations)}
    numbers: Numbers = {}
    for computation in computations:
        numbers |= _write_computation(computation, ids, proto.computations.add())
    entry = module.entry_computation
    proto.entry_computation_name = entry.name
    proto.entry_computation_id = ids[entry]
    layout = module.entry_computation_layout
    _write_program_shape(layout.parameter_shapes, layout.result_shape, entry, proto.host_program_shape)
    try:
        _write_header(module, proto)
    except CodecError as error:
        raise InvalidArgument(f"module {module.name}: {error.message}") from None
    _write_stack_frames(module.stack_frame_index, proto.stack_frame_index)
    if module.has_schedule():
        for computation in filter(module.schedule.is_scheduled, computations):
            order = [numbers[instruction] for instruction in module.schedule.sequence(computation)]
            proto.schedule.sequences[ids[computation]].instruction_ids.extend(order)
    return proto.SerializeToString(deterministic=True)


def computation_to_proto(computation: HloComputation) -> bytes:
    """Returns a computation as a serialized HloComputationProto, with the ids it has in its module's proto."""
    if computation.parent is None:
        raise FailedPrecondition(f"computation {computation.name} is in no module: its callees have no ids")
    order = computation.parent.make_computation_post_order()
    proto = pb.HloComputationProto()
    _write_computation(computation, {c: number for number, c in enumerate(order)}, proto)
    return proto.SerializeToString(deterministic=True)


def _write_header(module: HloModule, proto: Any) -> None:
    header = module.config.header_attributes
    for alias in module.config.input_output_alias:
        proto.input_output_alias.entries.add(
            output_shape_index=alias.output_index,
            parameter_number=alias.parameter_number,
            parameter_shape_index=alias.parameter_index,
            kind=pb.MUST_ALIAS if alias.kind == "must-alias" else pb.MAY_ALIAS,
        )
    for donor in module.config.buffer_donors:
        proto.buffer_donor.entries.add(
            parameter_number=donor.parameter_number, parameter_shape_index=donor.parameter_index
        )
    for key, value in module.frontend_attributes.items():
        proto.frontend_attributes.map[key] = value
    if "spmd_output_sharding" in header:
        write_sharding(parse_sharding(header["spmd_output_sharding"]), proto.spmd_output_sharding)
    if module.has_spmd_parameters_shardings():
        for sharding in module.spmd_parameters_shardings:
            write_sharding(sharding, proto.spmd_parameters_shardings.add())
    for prefetch in module.cross_program_prefetches:
        proto.cross_program_prefetches.add(parameter=prefetch.parameter, index=prefetch.index)
    if module.dynamic_parameter_binding.bindings:
        raise Unsupported(f"module {module.name}: HloModuleProto has no dynamic_parameter_binding")


def _write_stack_frames(index: StackFrameIndex, proto: Any) -> None:
    proto.file_names.extend(index.file_names)
    proto.function_names.extend(index.function_names)
    for location in index.file_locations:
        proto.file_locations.add(**{name: getattr(location, name) for name in location.__slots__})
    for frame in index.stack_frames:  # the text counts parents from 1, the proto from 0 (none)
        proto.stack_frames.add(
            file_location_id=frame.file_location_id, parent_frame_id=max(0, frame.parent_frame_id - 1)
        )


def _write_program_shape(parameters: list[Shape], result: Shape, computation: HloComputation, proto: Any) -> None:
    for shape in parameters:
        write_shape(shape, proto.parameters.add())
    write_shape(result, proto.result)
    proto.parameter_names.extend(p.name for p in computation.parameter_instructions)


def _write_computation(computation: HloComputation, ids: dict[HloComputation, int], proto: Any) -> Numbers:
    """Fills the proto; returns the ids that it gives to the instructions."""
    proto.name = computation.name
    proto.id = ids[computation]
    proto.is_fusion_computation = computation.is_fusion_computation()
    proto.execution_thread = computation.execution_thread if computation.execution_thread != "main" else ""
    order = computation.make_instruction_post_order()
    base = proto.id << _COMPUTATION_SHIFT
    numbers: Numbers = {instruction: base + i for i, instruction in enumerate(order)}
    for instruction in order:
        item = proto.instructions.add()
        try:
            _write_instruction(instruction, numbers, ids, item)
        except (CodecError, ValueError) as error:
            text = error.message if isinstance(error, CodecError) else str(error)
            raise InvalidArgument(f"{instruction.name}: {text}", instruction.span) from None
        except HloError as error:
            error.span = error.span or instruction.span
            raise
    root = computation.root_instruction
    proto.root_id = numbers[root]
    shapes = [p.shape for p in computation.parameter_instructions]
    _write_program_shape(shapes, root.shape, computation, proto.program_shape)
    return numbers


def _write_instruction(
    instruction: HloInstruction, numbers: Numbers, ids: dict[HloComputation, int], proto: Any
) -> None:
    proto.name = instruction.name
    proto.opcode = instruction.opcode
    write_shape(instruction.shape, proto.shape)
    proto.id = numbers[instruction]
    proto.operand_ids.extend(numbers[operand] for operand in instruction.operands)
    proto.control_predecessor_ids.extend(numbers[p] for p in instruction.control_predecessors)
    if instruction.opcode not in ("async-update", "async-done"):  # these inherit from async-start
        called = called_in_proto_order(instruction.opcode, instruction.called_computations)
        proto.called_computation_ids.extend(ids[computation] for computation in called)
    write_attributes(instruction, proto)
    if instruction.opcode == "compare" and not proto.comparison_type:
        proto.comparison_type = default_comparison_type(instruction.operand(0).shape.element_type)
    if instruction.metadata != NO_METADATA:
        write_metadata(instruction.metadata, proto.metadata)
    if instruction.sharding is not None:
        write_sharding(instruction.sharding, proto.sharding)
    proto.backend_config = instruction.backend_config.encode("utf-8", "surrogateescape")
    for key, value in instruction.frontend_attributes.items():
        proto.frontend_attributes.map[key] = value
    if instruction.origin:
        write_origin(instruction.origin, proto.original_value)
    if instruction.statistics:
        write_statistics(instruction.statistics, proto.statistics_viz)
