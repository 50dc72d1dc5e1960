"""Convolution calls get the numbers of features that tensor cores want: zeros are added, the result is sliced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import CustomCallAttributes
from xjit.ops import build
from xjit.ops.library_calls.convolution import conv_parts
from xjit.ops.library_calls.targets import (
    CONV_BACKWARD_FILTER,
    CONV_BACKWARD_INPUT,
    CONV_FORWARD,
    CONV_FUSED,
    call_target,
)
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.gpu.conv_calls import (
    grown,
    has_scratch,
    is_conv_call,
    replaced_conv_call,
    result_shape,
    with_empty_scratch,
)

MAX_GROWTH = 1.35
"""An f16 array may become that many times as large, for the sake of the tensor cores."""

MAX_INTEGER_GROWTH = 2
"""Input and result of integers must stay smaller than that many times what they were."""

_Sizes = list[list[int]]


@dataclass
class CudnnPadForConvolutions(OpExpander):
    """Pads the features of f16 calls to multiples of 8, or three input features to 4; those of s8 calls of two spatial
    dimensions without dilations to multiples of 32 where `vectors_of_32` says that there are such kernels, else of 4.
    What would make arrays too large is left.
    """

    name = "cudnn-pad-for-convolutions"
    opcodes = frozenset({"custom-call"})
    vectors_of_32: bool = True

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns (slice of the larger call's result, no scratch memory)."""
        if not is_conv_call(instruction) or has_scratch(instruction) or has_control_dependencies(instruction):
            return None
        attributes = instruction.attributes_as(CustomCallAttributes)
        if attributes.feature_group_count != 1 or attributes.batch_group_count != 1:
            return None
        sizes = self._sizes(instruction)
        return None if sizes is None else _padded(instruction, sizes, into)

    def _sizes(self, call: HloInstruction) -> _Sizes | None:
        """The new dimensions of left operand, right operand and result; None if nothing is to change."""
        kind, target = result_shape(call).element_type, call_target(call)
        if kind is PrimitiveType.F16 and target != CONV_FUSED:
            inputs, outputs = _features(call)
            sizes = _with_features(call, 4, outputs) if inputs == 3 and outputs in (32, 64) else _rounded(call, 8)
            return sizes if _is_worth_it(call, sizes) else None
        if call.operand(0).shape.element_type is PrimitiveType.S8 and target in (CONV_FORWARD, CONV_FUSED):
            for multiple in (32, 4) if self.vectors_of_32 else (4,):
                sizes = _rounded(call, multiple)
                if _has_vectors(call, multiple) and _is_cheap(call, sizes):
                    return sizes
        return None


def _has_vectors(call: HloInstruction, size: int) -> bool:
    """Whether the library has kernels for vectors of `size` features; those of 32 want filters smaller than images."""
    window, labels = conv_parts(call)
    if len(window.dimensions) != 2 or any(d.base_dilation != 1 or d.window_dilation != 1 for d in window.dimensions):
        return False
    if size != 32:
        return True
    image = [call.operand(0).shape.dimensions[d] for d in labels.input_spatial_dimensions]
    fits = all(n >= d.size for n, d in zip(image, window.dimensions, strict=True))
    return fits and result_shape(call).element_type.is_integer


def _is_cheap(call: HloInstruction, sizes: _Sizes) -> bool:
    """Whether input and result grow by little, if anything does."""
    before = _shapes(call)
    return sizes != before and all(_count(sizes[i]) < MAX_INTEGER_GROWTH * _count(before[i]) for i in (0, 2))


def _roles(call: HloInstruction) -> tuple[int, int, int]:
    """Which of (left operand, right operand, result) is the input, the filter and the output."""
    return {CONV_BACKWARD_INPUT: (2, 1, 0), CONV_BACKWARD_FILTER: (0, 2, 1)}.get(call_target(call), (0, 1, 2))


def _shapes(call: HloInstruction) -> _Sizes:
    return [list(s.dimensions) for s in (call.operand(0).shape, call.operand(1).shape, result_shape(call))]


def _features(call: HloInstruction) -> tuple[int, int]:
    labels, filter_sizes = conv_parts(call)[1], _shapes(call)[_roles(call)[1]]
    return filter_sizes[labels.kernel_input_feature_dimension], filter_sizes[labels.kernel_output_feature_dimension]


def _rounded(call: HloInstruction, multiple: int) -> _Sizes:
    inputs, outputs = (-(-n // multiple) * multiple for n in _features(call))
    return _with_features(call, inputs, outputs)


def _with_features(call: HloInstruction, inputs: int, outputs: int) -> _Sizes:
    labels, sizes = conv_parts(call)[1], _shapes(call)
    image, kernel, output = (sizes[role] for role in _roles(call))
    image[labels.input_feature_dimension] = inputs
    kernel[labels.kernel_input_feature_dimension] = inputs
    kernel[labels.kernel_output_feature_dimension] = outputs
    output[labels.output_feature_dimension] = outputs
    return sizes


def _is_worth_it(call: HloInstruction, sizes: _Sizes) -> bool:
    before = _shapes(call)
    return sizes != before and all(
        _count(new) <= MAX_GROWTH * _count(old) for new, old in zip(sizes, before, strict=True)
    )


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for n in sizes:
        count *= n
    return count


def _padded(call: HloInstruction, sizes: _Sizes, into: Expansion) -> HloInstruction:
    shape, feature = result_shape(call), conv_parts(call)[1].output_feature_dimension
    lhs, rhs, *others = call.operands
    operands = [grown(into, lhs, sizes[0]), grown(into, rhs, sizes[1])]
    for extra in others:  # the bias, a vector, and the side input, which is like the result
        operands.append(grown(into, extra, [sizes[2][feature]] if extra.shape.rank == 1 else sizes[2]))
    larger = into.add(replaced_conv_call(call, shape.with_dimensions(sizes[2]), operands))
    result = into.element(larger, 0)
    if result.shape.dimensions != shape.dimensions:
        result = into.add(build.slice_(result, [0] * shape.rank, shape.dimensions))
    return with_empty_scratch(into, result)
