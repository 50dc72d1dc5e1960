"""Calls to cuDNN's convolutions: how they are written and rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CustomCallAttributes
from xjit.ops import build
from xjit.ops.library_calls.targets import call_target
from xjit.passes.framework.expansion import Expansion

_NAMES = {
    "__cudnn$convForward": "cudnn-conv",
    "__cudnn$convBackwardInput": "cudnn-conv-bw-input",
    "__cudnn$convBackwardFilter": "cudnn-conv-bw-filter",
    "__cudnn$convBiasActivationForward": "cudnn-conv-bias-activation",
}


def no_scratch() -> Shape:
    """The shape of the scratch memory that a call returns before an algorithm is chosen."""
    return Shape.array(PrimitiveType.U8, (0,))


def make_conv_call(
    result: Shape, operands: Sequence[HloInstruction], attributes: CustomCallAttributes, config: Mapping[str, Any]
) -> HloInstruction:
    """Returns a free call whose value is (result, no scratch memory)."""
    shape = Shape.tuple_of([result, no_scratch()])
    name = _NAMES[attributes.custom_call_target]
    call = HloInstruction.create("custom-call", shape, operands, attributes, name=name)
    if config:
        call.backend_config = config
    return call


def replaced_conv_call(
    call: HloInstruction, result: Shape, operands: Sequence[HloInstruction], **changes: Any
) -> HloInstruction:
    """Returns a free call like another, with another result and operands, and other attributes where given."""
    attributes = replace(call.attributes_as(CustomCallAttributes), **changes)
    return make_conv_call(result, operands, attributes, call.parsed_backend_config)


def result_shape(call: HloInstruction) -> Shape:
    """The shape of the result, without the scratch memory."""
    return call.shape.tuple_shapes[0]


def has_scratch(call: HloInstruction) -> bool:
    """Whether an algorithm with scratch memory has been chosen for a call."""
    return call.shape.tuple_shapes[1].num_elements > 0


def is_conv_call(instruction: HloInstruction) -> bool:
    """Whether an instruction is a convolution call with a tuple of a result and scratch memory.

    What has the name of one, but not its operands, or does not tell which dimension is which, is any custom call.
    """
    if call_target(instruction) not in _NAMES or not instruction.shape.is_tuple:
        return False
    is_whole = len(instruction.shape.tuple_shapes) == 2 and instruction.operand_count >= 2
    return is_whole and instruction.attributes_as(CustomCallAttributes).dim_labels is not None


def zero_pad(into: Expansion, array: HloInstruction, padding: Sequence[tuple[int, int, int]]) -> HloInstruction:
    """The array with zeros around and between its elements; the array itself if there is nothing to add."""
    if not any(any(p) for p in padding):
        return array
    zero = into.add(build.scalar_constant_like(array, 0))
    return into.add(build.pad(array, zero, padding))


def grown(into: Expansion, array: HloInstruction, sizes: Sequence[int]) -> HloInstruction:
    """The array with zeros behind its elements, up to the given sizes."""
    return zero_pad(into, array, [(0, n - d, 0) for n, d in zip(sizes, array.shape.dimensions, strict=True)])


def with_empty_scratch(into: Expansion, result: HloInstruction) -> HloInstruction:
    """The tuple of a result and no scratch memory, for the readers of a call that has been replaced."""
    return into.tuple_of(result, into.add(build.constant_like(no_scratch(), 0)))
