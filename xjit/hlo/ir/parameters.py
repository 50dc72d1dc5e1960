"""The parameters of a computation: adding, replacing, removing. Their numbers stay dense."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xjit.hlo.annotations.header_views import names_parameters
from xjit.hlo.attributes import ParameterAttributes
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.hlo.edit import replacing

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule
    from xjit.hlo.types.shape import Shape


def parameter_number(instruction: HloInstruction) -> int:
    """Returns the number of a parameter; InvalidArgument for other opcodes."""
    attributes = instruction.attributes
    if not isinstance(attributes, ParameterAttributes):
        raise InvalidArgument(f"{instruction.name} is a {instruction.opcode}, not a parameter")
    return attributes.parameter_number


def add_parameter(computation: HloComputation, parameter: HloInstruction) -> HloInstruction:
    """Adds the next parameter of an embedded computation; its callers must get an operand for it.

    Errors: InvalidArgument if the number is not the next one, FailedPrecondition for the entry.
    """
    if computation.is_entry_computation():
        raise FailedPrecondition(f"{computation.name} is the entry: use add_entry_parameter")
    return _append(computation, parameter)


def add_entry_parameter(computation: HloComputation, parameter: HloInstruction) -> HloInstruction:
    """Adds the next parameter of the entry, and its shape to the layout that callers see."""
    _require_entry(computation)
    _append(computation, parameter)
    _layout_of(computation).append(parameter.shape)
    return parameter


def replace_parameter(computation: HloComputation, number: int, parameter: HloInstruction) -> HloInstruction:
    """Puts a free parameter into the place of parameter `number` of an embedded computation; the old one is removed."""
    if computation.is_entry_computation():
        raise FailedPrecondition(f"{computation.name} is the entry: use replace_entry_parameter")
    return _replace(computation, number, parameter)


def replace_entry_parameter(computation: HloComputation, number: int, parameter: HloInstruction) -> HloInstruction:
    """Puts a free parameter into the place of parameter `number` of the entry; the layout that callers see follows."""
    _require_entry(computation)
    _replace(computation, number, parameter)
    _layout_of(computation)[number] = parameter.shape
    return parameter


def remove_parameter(computation: HloComputation, number: int) -> None:
    """Removes an unused parameter of an embedded computation and renumbers the rest.

    Callers must drop their operand. Errors: InvalidArgument without such a parameter, FailedPrecondition if it is used
    or the computation is the entry.
    """
    if computation.is_entry_computation():
        raise FailedPrecondition(f"{computation.name} is the entry: its parameters cannot be removed")
    parameter = computation.parameter_instruction(number)
    if parameter.users or parameter is computation.root_instruction:
        raise FailedPrecondition(f"parameter {number} of {computation.name} is used")
    _remove(computation, [number])


def remove_parameters_from_entry(module: HloModule, numbers: Sequence[int]) -> None:
    """Removes unused parameters of the entry: callers no longer hand them over.

    The entry layout, the parameters' shardings, aliases and donors are those of the parameters that are left. Errors:
    FailedPrecondition if one is used, or if the config names it otherwise (see `names_parameters`).
    """
    entry, config, gone = module.entry_computation, module.config, set(numbers)
    named = {alias.parameter_number for alias in (*config.input_output_alias, *config.buffer_donors)}
    for number in gone:
        parameter = entry.parameter_instruction(number)
        if parameter.users or parameter is entry.root_instruction or number in named:
            raise FailedPrecondition(f"parameter {number} of {entry.name} is used")
    if names_parameters(module):
        raise FailedPrecondition(f"the header of {module.name} names parameters by number")
    left = [i for i in range(entry.num_parameters) if i not in gone]
    numbers_now = {old: new for new, old in enumerate(left)}
    layout = module.entry_computation_layout
    shardings = module.spmd_parameters_shardings if module.has_spmd_parameters_shardings() else None
    _remove(entry, sorted(gone))
    config.entry_computation_layout = replace(layout, parameter_shapes=[layout.parameter_shapes[i] for i in left])
    config.input_output_alias = tuple(
        replace(a, parameter_number=numbers_now[a.parameter_number]) for a in config.input_output_alias
    )
    config.buffer_donors = tuple(
        replace(d, parameter_number=numbers_now[d.parameter_number]) for d in config.buffer_donors
    )
    if shardings is not None:
        module.spmd_parameters_shardings = [shardings[i] for i in left]


def remove_unused_parameters_from_fused_computation(computation: HloComputation) -> list[int]:
    """Removes the parameters that nothing reads, with the operands of the fusion; returns their old numbers."""
    fusion = computation.fusion_instruction
    if fusion is None:
        raise FailedPrecondition(f"{computation.name} is not the computation of a fusion")
    root = computation.root_instruction
    parameters = computation.parameter_instructions
    unused = [i for i, p in enumerate(parameters) if not p.users and p is not root]
    _remove(computation, unused)
    fusion.remove_operands_at(unused)
    return unused


def _append(computation: HloComputation, parameter: HloInstruction) -> HloInstruction:
    if parameter_number(parameter) != computation.num_parameters:
        number, expected = parameter_number(parameter), computation.num_parameters
        raise InvalidArgument(f"the next parameter of {computation.name} has number {expected}, not {number}")
    return computation.add_instruction(parameter)


def _replace(computation: HloComputation, number: int, parameter: HloInstruction) -> HloInstruction:
    old = computation.parameter_instruction(number)
    if parameter_number(parameter) != number:
        raise InvalidArgument(f"parameter {parameter_number(parameter)} cannot replace parameter {number}")
    if parameter.parent is not None:
        raise InvalidArgument(f"{parameter.name} already belongs to {parameter.parent.name}")
    del computation._parameters[number]
    computation.add_instruction(parameter)
    replacing.replace(old, parameter, [parameter])
    computation.force_remove_instruction(old)
    return parameter


def _remove(computation: HloComputation, numbers: Collection[int]) -> None:
    gone = set(numbers)
    for number in gone:
        parameter = computation._parameters[number]
        parameter.drop_all_control_deps()
        del computation._instructions[parameter]
        parameter.parent = None
    computation.edges_changed()
    computation._parameters = [p for i, p in enumerate(computation._parameters) if i not in gone]
    for i, remaining in enumerate(computation._parameters):
        attributes = remaining.attributes_as(ParameterAttributes)
        if attributes.parameter_number != i:
            remaining.attributes = replace(attributes, parameter_number=i)


def _require_entry(computation: HloComputation) -> None:
    if not computation.is_entry_computation():
        raise FailedPrecondition(f"{computation.name} is not the entry computation of a module")


def _layout_of(computation: HloComputation) -> list[Shape]:
    assert computation.parent is not None
    return computation.parent.mutable_entry_computation_layout().parameter_shapes
