"""Convolutions become calls to cuDNN: gradients are recognized by their windows, the rest runs forward."""

from __future__ import annotations

import math
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import (
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    CustomCallAttributes,
    DimensionsAttributes,
    Window,
    WindowDimension,
)
from xjit.ops import build
from xjit.ops.library_calls.convolution import filter_gradient_labels, input_gradient_labels
from xjit.ops.library_calls.targets import CONV_BACKWARD_FILTER, CONV_BACKWARD_INPUT, CONV_FORWARD
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.framework.expansion import Expansion
from xjit.passes.gpu.conv_calls import make_conv_call

_TYPES = frozenset({PrimitiveType.F16, PrimitiveType.BF16, PrimitiveType.F32, PrimitiveType.F64})
_MAX_SPATIAL = 3


@dataclass
class GpuConvRewriter(OpExpander):
    """Writes a convolution as an element of a call (result, scratch memory).

    One with a large kernel or a dilated one is taken for a gradient of a filter, one of a reversed kernel for a
    gradient of an input, if the library can express it. An s32 convolution of converted s8 arrays is a call on those.
    """

    name = "gpu-conv-rewriter"
    opcodes = frozenset({"convolution"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the first element of the call; None if the library has no such convolution."""
        if has_control_dependencies(instruction) or not _is_supported(instruction):
            return None
        parts = _filter_gradient(instruction) or _input_gradient(instruction) or _forward(instruction)
        if parts is None:
            return None
        target, operands, window, labels = parts
        attributes = instruction.attributes_as(ConvolutionAttributes)
        if target == CONV_BACKWARD_INPUT and operands[1] is instruction.operand(1) and not _is_one_by_one(attributes):
            spatial = DimensionsAttributes(attributes.dim_labels.kernel_spatial_dimensions)
            operands = (operands[0], into.add(build.make("reverse", operands[1], attributes=spatial)))
        call = CustomCallAttributes(
            target,
            window=window,
            dim_labels=labels,
            feature_group_count=attributes.feature_group_count,
            batch_group_count=attributes.batch_group_count,
            operand_precision=attributes.operand_precision,
        )
        return into.element(into.add(make_conv_call(instruction.shape, operands, call, {"conv_result_scale": 1})), 0)


_Parts = tuple[str, tuple[HloInstruction, HloInstruction], Window, ConvolutionDimensionNumbers]


def _is_supported(conv: HloInstruction) -> bool:
    attributes = conv.attributes_as(ConvolutionAttributes)
    shapes = [conv.shape, *(o.shape for o in conv.operands)]
    if not all(s.is_static_array and s.num_elements for s in shapes) or attributes.batch_group_count != 1:
        return False
    kind = conv.shape.element_type
    if kind is PrimitiveType.S32:
        return all(o.opcode == "convert" and o.operand(0).shape.element_type is PrimitiveType.S8 for o in conv.operands)
    return kind in _TYPES and all(o.shape.element_type is kind for o in conv.operands)


def _is_one_by_one(attributes: ConvolutionAttributes) -> bool:
    return all(d.size == 1 for d in attributes.window.dimensions)


def _forward(conv: HloInstruction) -> _Parts | None:
    attributes = conv.attributes_as(ConvolutionAttributes)
    dims = attributes.window.dimensions
    reversals = {d.window_reversal for d in dims}
    if len(dims) > _MAX_SPATIAL or (True in reversals and (len(dims) != 2 or len(reversals) != 1)):
        return None
    x, w = conv.operands
    if conv.shape.element_type is PrimitiveType.S32:
        x, w = x.operand(0), w.operand(0)
    return CONV_FORWARD, (x, w), attributes.window, attributes.dim_labels


def _may_be_gradient(conv: HloInstruction) -> bool:
    attributes = conv.attributes_as(ConvolutionAttributes)
    dims = attributes.window.dimensions
    plain = all(d.stride == 1 and not d.window_reversal for d in dims)
    is_float = conv.shape.element_type is not PrimitiveType.S32
    return attributes.feature_group_count == 1 and plain and is_float and 1 <= len(dims) <= _MAX_SPATIAL


def _filter_gradient(conv: HloInstruction) -> _Parts | None:
    """The call of the forward window: as large as the result, with the window's dilation for its stride."""
    attributes = conv.attributes_as(ConvolutionAttributes)
    dims, labels = attributes.window.dimensions, attributes.dim_labels
    if not _may_be_gradient(conv) or any(d.base_dilation != 1 or d.padding_low < 0 for d in dims):
        return None
    sizes = [conv.shape.dimensions[d] for d in labels.output_spatial_dimensions]
    if all(d.window_dilation == 1 for d in dims) and math.prod(d.size for d in dims) <= math.prod(sizes):
        return None
    found: list[WindowDimension] = []
    for d, size, axis in zip(dims, sizes, labels.input_spatial_dimensions, strict=True):
        stride = d.window_dilation
        least = size + (d.size - 1) * stride - d.padding_low - conv.operand(0).shape.dimensions[axis]
        high = _nearest(d.padding_low, least, stride)
        if high < 0:
            return None
        found.append(WindowDimension(size, stride, d.padding_low, high))
    lhs, rhs = conv.operands
    return CONV_BACKWARD_FILTER, (lhs, rhs), Window(tuple(found)), filter_gradient_labels(labels)


def _nearest(low: int, least: int, stride: int) -> int:
    """The high padding that is `low` where the result's size allows that, else the nearest that does."""
    return min(max(low, least), least + stride - 1)


def _input_gradient(conv: HloInstruction) -> _Parts | None:
    """The call of the forward window: the base dilation is its stride, the padding what the kernel leaves."""
    attributes = conv.attributes_as(ConvolutionAttributes)
    dims, labels = attributes.window.dimensions, attributes.dim_labels
    if not _may_be_gradient(conv) or any(d.window_dilation != 1 for d in dims):
        return None
    kernel = _forward_kernel(conv)
    if kernel is None:
        return None
    found: list[WindowDimension] = []
    axes = zip(labels.input_spatial_dimensions, labels.output_spatial_dimensions, strict=True)
    for d, (axis, out) in zip(dims, axes, strict=True):
        low, stride = d.size - 1 - d.padding_low, d.base_dilation
        whole = d.size + stride * (conv.operand(0).shape.dimensions[axis] - 1)
        least = whole - conv.shape.dimensions[out] - low
        high = _nearest(low, least, stride)
        if low < 0 or high < 0:
            return None
        found.append(replace(d, stride=stride, base_dilation=1, padding_low=low, padding_high=high))
    return CONV_BACKWARD_INPUT, (conv.operand(0), kernel), Window(tuple(found)), input_gradient_labels(labels)


def _forward_kernel(conv: HloInstruction) -> HloInstruction | None:
    """The kernel before it was reversed; the kernel itself if it is one that is reversed without cost."""
    attributes = conv.attributes_as(ConvolutionAttributes)
    kernel, spatial = conv.operand(1), attributes.dim_labels.kernel_spatial_dimensions
    if kernel.opcode == "reverse":
        reversed_dims = kernel.attributes_as(DimensionsAttributes).dimensions
        if sorted(reversed_dims) == sorted(spatial):
            return kernel.operand(0)
    is_dilated = any(d.base_dilation != 1 for d in attributes.window.dimensions)
    return kernel if is_dilated and (_is_one_by_one(attributes) or kernel.opcode == "constant") else None
