"""What the calls to cuDNN's convolutions mean: forward, both gradients, and the fused bias and activation.

Labels and window of a gradient's call are those of the library: the window of the forward convolution. A call of the
input's gradient reads (gradients, kernel), one of the filter's reads (activations, gradients).
"""

from __future__ import annotations

from dataclasses import replace

from xjit.hlo.attributes import (
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    CustomCallAttributes,
    DimensionsAttributes,
    Window,
)
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops import build
from xjit.ops.library_calls.body import Body
from xjit.ops.library_calls.targets import (
    CONV_BACKWARD_FILTER,
    CONV_BACKWARD_INPUT,
    CONV_FUSED,
    call_target,
    library_config,
)

S8_LIMITS = (-128, 127)


def conv_parts(call: HloInstruction) -> tuple[Window, ConvolutionDimensionNumbers]:
    """The window and the labels of a convolution call. Errors: Unsupported if it has none."""
    attributes = call.attributes_as(CustomCallAttributes)
    if attributes.window is None or attributes.dim_labels is None:
        raise Unsupported(f"custom-call to '{attributes.custom_call_target}' without window or dim_labels", call.span)
    return attributes.window, attributes.dim_labels


def filter_gradient_labels(labels: ConvolutionDimensionNumbers) -> ConvolutionDimensionNumbers:
    """The labels of a filter's gradient from those of the convolution that computes it, and back."""
    return ConvolutionDimensionNumbers(
        labels.input_feature_dimension,
        labels.input_batch_dimension,
        labels.input_spatial_dimensions,
        labels.output_batch_dimension,
        labels.output_feature_dimension,
        labels.output_spatial_dimensions,
        labels.kernel_input_feature_dimension,
        labels.kernel_output_feature_dimension,
        labels.kernel_spatial_dimensions,
    )


def input_gradient_labels(labels: ConvolutionDimensionNumbers) -> ConvolutionDimensionNumbers:
    """The labels of an input's gradient from those of the convolution that computes it, and back."""
    return ConvolutionDimensionNumbers(
        labels.output_batch_dimension,
        labels.output_feature_dimension,
        labels.output_spatial_dimensions,
        labels.kernel_output_feature_dimension,
        labels.kernel_input_feature_dimension,
        labels.kernel_spatial_dimensions,
        labels.input_batch_dimension,
        labels.input_feature_dimension,
        labels.input_spatial_dimensions,
    )


def plain_convolution(call: HloInstruction) -> HloComputation:
    """The computation that a call to one of CONV_TARGETS means."""
    body, config, target = Body(call), library_config(call), call_target(call)
    x, w = body.parameters[:2]
    result = call.shape.tuple_shapes[0] if call.shape.is_tuple else call.shape
    kind = result.element_type
    if x.shape.element_type is PrimitiveType.S8:
        x, w = body.convert(x, PrimitiveType.S32), body.convert(w, PrimitiveType.S32)
    if target == CONV_BACKWARD_INPUT:
        value = _input_gradient(call, body, x, w, result)
    elif target == CONV_BACKWARD_FILTER:
        value = _filter_gradient(call, body, x, w, result)
    else:
        value = _convolve(call, body, x, w, *conv_parts(call))
    wide = PrimitiveType.F64 if kind is PrimitiveType.F64 else PrimitiveType.F32
    scale = config.get("conv_result_scale", 1)
    if target == CONV_FUSED:
        value = _fused(call, body, body.convert(value, wide))
    elif scale != 1:
        value = body.scaled(body.convert(value, wide), scale)
    if kind is PrimitiveType.S8:
        low, high = (body.full(value.shape, limit) for limit in S8_LIMITS)
        value = body.op("clamp", low, value, high)
    return body.build(body.convert(value, kind), call.shape)


def _convolve(
    call: HloInstruction,
    body: Body,
    x: HloInstruction,
    w: HloInstruction,
    window: Window,
    labels: ConvolutionDimensionNumbers,
) -> HloInstruction:
    given = call.attributes_as(CustomCallAttributes)
    attributes = ConvolutionAttributes(
        window=window,
        dim_labels=labels,
        feature_group_count=given.feature_group_count,
        batch_group_count=given.batch_group_count,
        operand_precision=given.operand_precision,
    )
    return body.add(build.make("convolution", x, w, attributes=attributes))


def _input_gradient(
    call: HloInstruction, body: Body, x: HloInstruction, w: HloInstruction, result: Shape
) -> HloInstruction:
    window, labels = conv_parts(call)[0], input_gradient_labels(conv_parts(call)[1])
    dims = [
        replace(
            d,
            stride=1,
            base_dilation=d.stride,
            padding_low=(low := d.size - 1 - d.padding_low),
            padding_high=result.dimensions[out] + d.size - 2 - low - (x.shape.dimensions[lhs] - 1) * d.stride,
        )
        for d, lhs, out in zip(
            window.dimensions, labels.input_spatial_dimensions, labels.output_spatial_dimensions, strict=True
        )
    ]
    spatial = DimensionsAttributes(labels.kernel_spatial_dimensions)
    reverse = body.add(build.make("reverse", w, attributes=spatial))
    return _convolve(call, body, x, reverse, Window(tuple(dims)), labels)


def _filter_gradient(
    call: HloInstruction, body: Body, x: HloInstruction, w: HloInstruction, result: Shape
) -> HloInstruction:
    window, labels = conv_parts(call)[0], filter_gradient_labels(conv_parts(call)[1])
    spatial = zip(
        window.dimensions,
        labels.input_spatial_dimensions,
        labels.kernel_spatial_dimensions,
        labels.output_spatial_dimensions,
        strict=True,
    )
    dims = [
        replace(
            d,
            size=(size := w.shape.dimensions[kernel]),
            stride=1,
            window_dilation=d.stride,
            padding_high=result.dimensions[out] + (size - 1) * d.stride - x.shape.dimensions[lhs] - d.padding_low,
        )
        for d, lhs, kernel, out in spatial
    ]
    return _convolve(call, body, x, w, Window(tuple(dims)), labels)


def _fused(call: HloInstruction, body: Body, value: HloInstruction) -> HloInstruction:
    """`activation(conv_result_scale * conv + side_input_scale * side + bias)`."""
    config, kind = library_config(call), value.shape.element_type
    value = body.scaled(value, config.get("conv_result_scale", 1))
    _, _, bias, *side = body.parameters
    if side:
        value = body.op("add", value, body.scaled(body.convert(side[0], kind), config.get("side_input_scale", 0)))
    feature = (conv_parts(call)[1].output_feature_dimension,)
    value = body.op("add", value, body.add(build.broadcast(body.convert(bias, kind), value.shape, feature)))
    mode = str(config.get("activation_mode", "none")).lower()
    if mode not in ("none", "relu", "knone", "krelu"):
        raise Unsupported(f"convolution with the activation '{mode}': expected none or relu", call.span)
    return body.op("maximum", value, body.full(value.shape, 0)) if mode.endswith("relu") else value
