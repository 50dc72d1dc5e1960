"""A loop whose state nests tuples becomes one whose state is a flat tuple."""

from __future__ import annotations

from collections.abc import Iterator

from xjit.hlo import HloComputation, HloInstruction, Shape
from xjit.hlo.annotations.original_value import origin_of_leaves
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.passes.calls_and_control.ownership import own_computations


def flatten_state(loop: HloInstruction) -> HloInstruction | None:
    """Puts a loop with the leaves of the state as elements in the place of one with a nested state.

    Returns the new loop, or None if the state is flat, is built by other than tuples in front of the loop or in it, or
    has a transfer in it that ends in another trip: an end reads its start as it is. Glue of tuples and
    get-tuple-elements is left around the loop.
    """
    if loop.while_init.opcode != "tuple" or loop.while_body.root_instruction.opcode != "tuple":
        return None
    nested = [element for element in loop.shape.tuple_shapes if element.is_tuple]
    if not nested or any(shape.is_token for element in nested for _, shape in element.leaves()):
        return None
    own_computations(loop)
    computation = loop.parent
    assert computation is not None
    flat = Shape.tuple_of([leaf for _, leaf in loop.shape.leaves()])
    init = _flat_tuple(computation, loop.while_init)
    for callee in (loop.while_condition, loop.while_body):
        _flatten_parameter(callee, flat)
    body = loop.while_body
    body.set_root_instruction(_flat_tuple(body, body.root_instruction), accept_different_shape=True)
    new = HloInstruction.create_while(flat, loop.while_condition, body, init)
    computation.add_instruction(new)
    new.metadata, new.place, new.backend_config = loop.metadata, loop.place, loop.backend_config
    new.frontend_attributes = dict(loop.frontend_attributes)
    new.origin, init.origin = (origin_of_leaves(i.origin, i.shape) for i in (loop, loop.while_init))
    whole = _nested_tuple(computation, new, loop.shape)
    inherit_annotations(whole, loop)
    loop.replace_all_uses_with_different_shape(whole)
    computation.remove_instruction_and_unused_operands(loop)
    return new


def _flat_tuple(computation: HloComputation, value: HloInstruction) -> HloInstruction:
    """Returns the tuple of the leaves of a value."""
    leaves: list[HloInstruction] = []
    for index, _ in value.shape.leaves():
        leaf = value
        for i in index:
            leaf = computation.add_instruction(HloInstruction.create_get_tuple_element(leaf, i))
        leaves.append(leaf)
    return computation.add_instruction(HloInstruction.create_tuple(leaves))


def _nested_tuple(computation: HloComputation, flat: HloInstruction, shape: Shape) -> HloInstruction:
    """Returns a value of a nested shape, built of the elements of a flat tuple."""
    numbers = iter(range(len(flat.shape.tuple_shapes)))
    return _build(computation, flat, shape, numbers)


def _build(computation: HloComputation, flat: HloInstruction, shape: Shape, numbers: Iterator[int]) -> HloInstruction:
    if not shape.is_tuple:
        return computation.add_instruction(HloInstruction.create_get_tuple_element(flat, next(numbers)))
    elements = [_build(computation, flat, element, numbers) for element in shape.tuple_shapes]
    return computation.add_instruction(HloInstruction.create_tuple(elements))


def _flatten_parameter(computation: HloComputation, flat: Shape) -> None:
    state = computation.parameter_instructions[0]
    nested, readers = state.shape, state.users
    state.mutable_shape = flat
    value = _nested_tuple(computation, state, nested)
    for reader in readers:
        for position, operand in enumerate(reader.operands):
            if operand is state:
                reader.replace_operand_with_different_shape(position, value)
    if computation.root_instruction is state:
        computation.set_root_instruction(value, accept_different_shape=True)
