"""Shape rule of convolution: groups, dilation, any order of dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.opdef import ShapeRule
from xjit.ops.shape_inference.common import array_operand, fail, make_shape, show
from xjit.ops.shape_inference.dot import result_type
from xjit.ops.shape_inference.reduction import window_output_dimensions

Numbers = at.ConvolutionDimensionNumbers


def infer_convolution(instruction: HloInstruction) -> Shape:
    """Output batch, features and one spatial dimension per window dimension, in the order of `dim_labels`."""
    attributes = instruction.attributes_as(at.ConvolutionAttributes)
    numbers = attributes.dim_labels
    lhs, rhs = array_operand(instruction, 0), array_operand(instruction, 1)
    _check_numbers(instruction, numbers, lhs, rhs)
    _check_groups(instruction, attributes, lhs, rhs)
    kernel = tuple(rhs.dimensions[d] for d in numbers.kernel_spatial_dimensions)
    sizes = tuple(w.size for w in attributes.window.dimensions)
    if sizes != kernel:
        fail(instruction, f"window size {list(sizes)} does not match the kernel's spatial sizes {list(kernel)}")
    base = [lhs.dimensions[d] for d in numbers.input_spatial_dimensions]
    spatial = window_output_dimensions(instruction, attributes.window, base)
    dims = [0] * lhs.rank
    dims[numbers.output_batch_dimension] = lhs.dimensions[numbers.input_batch_dimension] // attributes.batch_group_count
    dims[numbers.output_feature_dimension] = rhs.dimensions[numbers.kernel_output_feature_dimension]
    for position, size in zip(numbers.output_spatial_dimensions, spatial, strict=True):
        dims[position] = size
    return make_shape(result_type(instruction, lhs, rhs), dims, _dynamic(instruction, numbers, lhs, rhs))


def _check_numbers(instruction: HloInstruction, numbers: Numbers, lhs: Shape, rhs: Shape) -> None:
    rank = len(numbers.input_spatial_dimensions) + 2
    for shape, name in ((lhs, "input"), (rhs, "kernel")):
        if shape.rank != rank:
            fail(instruction, f"dim_labels need an {name} of rank {rank}, but it has shape {show(shape)}")
    roles = {
        "input": (
            numbers.input_batch_dimension,
            numbers.input_feature_dimension,
            *numbers.input_spatial_dimensions,
        ),
        "kernel": (
            numbers.kernel_input_feature_dimension,
            numbers.kernel_output_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ),
        "output": (
            numbers.output_batch_dimension,
            numbers.output_feature_dimension,
            *numbers.output_spatial_dimensions,
        ),
    }
    for name, dims in roles.items():
        if sorted(dims) != list(range(rank)):
            fail(instruction, f"dim_labels must name each of the {rank} {name} dimensions once, got {list(dims)}")


def _check_groups(instruction: HloInstruction, attributes: at.ConvolutionAttributes, lhs: Shape, rhs: Shape) -> None:
    numbers = attributes.dim_labels
    features, batches = attributes.feature_group_count, attributes.batch_group_count
    if features < 1 or batches < 1:
        fail(instruction, f"group counts must be positive, got feature {features} and batch {batches}")
    if features > 1 and batches > 1:
        fail(instruction, f"feature_group_count={features} and batch_group_count={batches} cannot both exceed 1")
    inputs = lhs.dimensions[numbers.input_feature_dimension]
    kernel_inputs = rhs.dimensions[numbers.kernel_input_feature_dimension]
    outputs = rhs.dimensions[numbers.kernel_output_feature_dimension]
    batch = lhs.dimensions[numbers.input_batch_dimension]
    if inputs != kernel_inputs * features:
        fail(
            instruction,
            f"the input has {inputs} features, expected {kernel_inputs} kernel input features times "
            f"feature_group_count={features}",
        )
    if outputs % features or outputs % batches:
        fail(instruction, f"the {outputs} output features are not a multiple of the group count {features * batches}")
    if batch % batches:
        fail(instruction, f"the batch size {batch} is not a multiple of batch_group_count={batches}")


def _dynamic(instruction: HloInstruction, numbers: Numbers, lhs: Shape, rhs: Shape) -> list[bool]:
    """Batch and spatial dimensions pass their dynamic marks on; features are contracted."""
    marks = [False] * lhs.rank
    marks[numbers.output_batch_dimension] = lhs.is_dynamic_dimension(numbers.input_batch_dimension)
    if rhs.is_dynamic_dimension(numbers.kernel_output_feature_dimension):
        fail(instruction, f"the kernel {show(rhs)} must not have a dynamic output feature dimension")
    positions = zip(
        numbers.output_spatial_dimensions,
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        strict=True,
    )
    for output, left, right in positions:
        marks[output] = lhs.is_dynamic_dimension(left) or rhs.is_dynamic_dimension(right)
    return marks


RULES: Mapping[str, ShapeRule] = MappingProxyType({"convolution": infer_convolution})
