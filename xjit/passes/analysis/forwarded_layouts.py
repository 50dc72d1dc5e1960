"""A value that is handed on is read through the layout of where it stands: that must be the one it was written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis.linear_order import Event, EventKind


def check_forwarded_layouts(events: Sequence[Event]) -> None:
    """Raises FailedPrecondition for what hands a value on in another layout, or as another number of bytes."""
    for event in events:
        for instruction, shape, source in _handed_on(event):
            if shape is not source and shape != source:
                _check(instruction, shape, source)


def _handed_on(event: Event) -> Iterator[tuple[HloInstruction, Shape, Shape]]:
    """Yields (instruction, its shape or that of an element, the shape of what it hands on)."""
    instruction = event.instruction
    if event.kind is EventKind.RUN:
        opcode = instruction.opcode
        if opcode == "tuple":
            for shape, operand in zip(instruction.shape.tuple_shapes, instruction.operands, strict=True):
                yield instruction, shape, operand.shape
        elif opcode == "get-tuple-element":
            index = instruction.attributes_as(at.GetTupleElementAttributes).index
            yield instruction, instruction.shape, instruction.operand(0).shape.tuple_shapes[index]
        elif opcode == "bitcast":
            _check_bitcast(instruction)
        elif instruction.op.has(Trait.FORWARDS):
            yield instruction, instruction.shape, instruction.operand(0).shape
    elif event.kind is EventKind.WHILE_BEGIN:
        yield instruction, instruction.shape, instruction.operand(0).shape
        yield instruction, instruction.shape, instruction.while_body.root_instruction.shape
        for computation in instruction.called_computations:
            parameter = computation.parameter_instruction(0)
            yield parameter, parameter.shape, instruction.shape
    elif event.kind is EventKind.BRANCH_BEGIN:
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
