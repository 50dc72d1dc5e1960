"""A value that is handed on is read through the layout of where it stands: that must be the one it was written in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import opcodes_with
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.linear_order import BRANCH_BEGIN, RUN, WHILE_BEGIN, Event


def check_forwarded_layouts(events: Sequence[Event]) -> None:
    """Raises FailedPrecondition for what hands a value on in another layout, or as another number of bytes."""
    for event in events:
        instruction = event.instruction
        if event.kind is not RUN:
            handed_on = _bound_at(event)
        elif instruction.opcode == "bitcast":
            _check_bitcast(instruction)
            continue
        elif instruction.opcode in _FORWARDED:
            handed_on = _forwarded_by(instruction)
        else:
            continue
        for instruction, shape, source in handed_on:
            if shape is not source and shape != source:
                _check(instruction, shape, source)


_FORWARDED = opcodes_with(Trait.FORWARDS) | {"tuple", "get-tuple-element"}

_HandedOn = Iterable[tuple[HloInstruction, Shape, Shape]]
"""(instruction, its shape or that of an element, the shape of what it hands on)"""


def _forwarded_by(instruction: HloInstruction) -> _HandedOn:
    if instruction.opcode == "tuple":
        shapes = zip(instruction.shape.tuple_shapes, instruction.operands, strict=True)
        return [(instruction, shape, operand.shape) for shape, operand in shapes]
    source = instruction.operand(0).shape
    if instruction.opcode == "get-tuple-element":
        source = source.tuple_shapes[instruction.attributes_as(at.GetTupleElementAttributes).index]
    return [(instruction, instruction.shape, source)]


def _bound_at(event: Event) -> _HandedOn:
    instruction = event.instruction
    if event.kind is WHILE_BEGIN:
        yield instruction, instruction.shape, instruction.operand(0).shape
        yield instruction, instruction.shape, instruction.while_body.root_instruction.shape
        for computation in instruction.called_computations:
            parameter = computation.parameter_instruction(0)
            yield parameter, parameter.shape, instruction.shape
    elif event.kind is BRANCH_BEGIN:
        computation = instruction.called_computations[event.branch]
        is_branch = instruction.opcode == "conditional"
        operands = (instruction.operand(event.branch + 1),) if is_branch else instruction.operands
        for parameter, operand in zip(computation.parameter_instructions, operands, strict=True):
            yield parameter, parameter.shape, operand.shape
        if instruction.opcode != "async-start":
            yield instruction, instruction.shape, computation.root_instruction.shape


def _check(instruction: HloInstruction, shape: Shape, source: Shape) -> None:
    for (index, here), (_, there) in zip(shape.leaves(), source.leaves(), strict=True):
        if here.layout != there.layout:
            raise FailedPrecondition(
                f"{instruction.name}{list(index)} has layout {here.layout}, but what it forwards has {there.layout}: "
                "run layout-assignment first",
                instruction.span,
            )


def _check_bitcast(bitcast: HloInstruction) -> None:
    here, there = physical_byte_size(bitcast.shape), physical_byte_size(bitcast.operand(0).shape)
    if here != there:
        raise FailedPrecondition(
            f"bitcast {bitcast.name}: {bitcast.shape} takes {here} bytes, its operand {there}", bitcast.span
        )
