"""Convolutions of StableHLO as HLO: dimension numbers as labels, five lists as one window."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xjit.frontends.stablehlo_reader.declined import Declined
from xjit.frontends.stablehlo_reader.scope import Scope, Value
from xjit.frontends.stablehlo_reader.values import Constant, precisions_of
from xjit.hlo import attributes as at
from xjit.hlo.attributes.values import ConvolutionDimensionNumbers, Window, WindowDimension
from xjit.hlo.types.shape import Shape

CONVOLUTION_ATTRIBUTES: Final = frozenset((
    "batch_group_count", "dimension_numbers", "feature_group_count", "lhs_dilation", "padding", "precision_config",
    "rhs_dilation", "window_reversal", "window_strides",
))  # fmt: skip


def read_convolution(scope: Scope, op: Any, operands: list[Value], shape: Shape) -> Value:
    """Returns a convolution. Errors: Declined for one of constants alone."""
    if all(isinstance(operand, Constant) for operand in operands):
        raise Declined("convolution of constants")
    given = op.attributes
    numbers = _dimension_numbers(given["dimension_numbers"])
    sizes = [operands[1].shape.dimensions[d] for d in numbers.kernel_spatial_dimensions]
    attributes = at.ConvolutionAttributes(
        window=_window(given, sizes),
        dim_labels=numbers,
        feature_group_count=given["feature_group_count"].value,
        batch_group_count=given["batch_group_count"].value,
        operand_precision=precisions_of(given),
    )
    return scope.make("convolution", shape, operands, attributes)


def _window(given: Any, sizes: list[int]) -> Window:
    ones = [1] * len(sizes)
    strides, base, dilations = (
        list(given[name]) if name in given else ones for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    reversals = [bool(x) for x in given["window_reversal"]] if "window_reversal" in given else [False] * len(sizes)
    padding = np.asarray(given["padding"]).tolist() if "padding" in given else [(0, 0)] * len(sizes)
    rows = zip(sizes, strides, padding, dilations, base, reversals, strict=True)
    return Window(
        tuple(
            WindowDimension(size, stride, low, high, inner, outer, is_reversed)
            for size, stride, (low, high), inner, outer, is_reversed in rows
        )
    )


def _dimension_numbers(attribute: Any) -> ConvolutionDimensionNumbers:
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.ConvDimensionNumbers(attribute)
    return ConvolutionDimensionNumbers(
        input_batch_dimension=numbers.input_batch_dimension,
        input_feature_dimension=numbers.input_feature_dimension,
        input_spatial_dimensions=tuple(numbers.input_spatial_dimensions),
        kernel_input_feature_dimension=numbers.kernel_input_feature_dimension,
        kernel_output_feature_dimension=numbers.kernel_output_feature_dimension,
        kernel_spatial_dimensions=tuple(numbers.kernel_spatial_dimensions),
        output_batch_dimension=numbers.output_batch_dimension,
        output_feature_dimension=numbers.output_feature_dimension,
        output_spatial_dimensions=tuple(numbers.output_spatial_dimensions),
    )
