"""Convolutions whose features or batches come in groups, by ones without groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import ConvolutionAttributes, ConvolutionDimensionNumbers, Window, WindowDimension
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


def _always(_convolution: HloInstruction) -> bool:
    return True


@dataclass
class ConvolutionGroupConverter(OpExpander):
    """Writes groups into the kernel, or as one more spatial dimension.

    With `filter_expansion`, or where `is_cost_viable` says that a dimension more does not pay, the kernel of feature
    groups gets every input feature, and zeros where group and feature do not belong together: infinities of other
    groups become NaN. Otherwise, and for groups of batches, position i along a dimension of groups meets only slice i
    of the kernel. `should_expand` chooses among convolutions with groups.
    """

    name = "convolution-group-converter"
    opcodes = frozenset({"convolution"})
    convert_batch_groups_only: bool = False
    filter_expansion: bool = True
    should_expand: Callable[[HloInstruction], bool] = _always
    is_cost_viable: Callable[[HloInstruction], bool] = _always

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same values without groups of one kind; None if there are none to convert."""
        attributes, writer = instruction.attributes_as(ConvolutionAttributes), Writer(into)
        if not all(s.is_static_array for s in (instruction.shape, *(o.shape for o in instruction.operands))):
            return None
        if not self.should_expand(instruction):
            return None
        if attributes.batch_group_count > 1:
            batch = attributes.dim_labels.input_batch_dimension
            return _as_dimension(writer, instruction, attributes.batch_group_count, batch)
        if attributes.feature_group_count == 1 or self.convert_batch_groups_only:
            return None
        if self.filter_expansion or not self.is_cost_viable(instruction):
            return _with_whole_kernel(writer, instruction)
        feature = attributes.dim_labels.input_feature_dimension
        return _as_dimension(writer, instruction, attributes.feature_group_count, feature)


def _with_whole_kernel(writer: Writer, convolution: HloInstruction) -> HloInstruction:
    """Repeats the kernel for every group of input features, with zeros where it is another group's."""
    attributes = convolution.attributes_as(ConvolutionAttributes)
    groups, numbers, kernel = attributes.feature_group_count, attributes.dim_labels, convolution.operand(1)
    at, out = numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
    sizes = list(kernel.shape.dimensions)
    per_group, others = sizes[at], [d for d in range(len(sizes)) if d != at]
    if per_group == 1:
        sizes[at] = groups
        tiled = writer.broadcast(writer.reshape(kernel, [sizes[d] for d in others]), sizes, others)
    else:
        around = [*sizes[:at], groups, *sizes[at:]]
        repeated = writer.broadcast(kernel, around, [d + (d >= at) for d in range(len(sizes))])
        sizes[at] *= groups
        tiled = writer.reshape(repeated, sizes)

    def group_ids(dimension: int, length: int) -> HloInstruction:
        ids = writer.constant(np.repeat(np.arange(groups), length), PrimitiveType.S32)
        return writer.broadcast(ids, sizes, [dimension])

    mask = writer.compare("EQ", group_ids(at, per_group), group_ids(out, sizes[out] // groups))
    expanded = writer.make("select", mask, tiled, writer.like(tiled, 0))
    return _convolve(
        writer, convolution, convolution.operand(0), expanded, replace(attributes, feature_group_count=1), None
    )


def _as_dimension(writer: Writer, convolution: HloInstruction, groups: int, grouped: int) -> HloInstruction:
    """Splits the groups off dimension `grouped` of the input, and off the output features, as a spatial dimension.

    With g groups the input is dilated by g there and a window of g elements moves by g - 1: window o begins at
    o (g - 1), and the only element of the input in it is number o, at o g, which meets element o of the kernel.
    """
    attributes = convolution.attributes_as(ConvolutionAttributes)
    numbers = attributes.dim_labels
    kernel_out, out = numbers.kernel_output_feature_dimension, numbers.output_feature_dimension
    image = _split(writer, convolution.operand(0), grouped, groups)
    kernel = _split(writer, convolution.operand(1), kernel_out, groups)
    window = Window((*attributes.window.dimensions, WindowDimension(groups, groups - 1, base_dilation=groups)))
    inputs = (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions)
    kernels = (
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
        *numbers.kernel_spatial_dimensions,
    )
    outputs = (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions)
    new = ConvolutionDimensionNumbers(*_labels(inputs, grouped), *_labels(kernels, kernel_out), *_labels(outputs, out))
    without = replace(attributes, window=window, dim_labels=new, feature_group_count=1, batch_group_count=1)
    sizes = list(convolution.shape.dimensions)
    sizes[out : out + 1] = [groups, sizes[out] // groups]
    return _convolve(writer, convolution, image, kernel, without, sizes)


def _labels(dimensions: Sequence[int], at: int) -> tuple[int, int, tuple[int, ...]]:
    """Returns two numbers and the spatial ones with one more dimension, the last of these, in front of `at`."""
    first, second, *spatial = [d + (d >= at) for d in dimensions]
    return first, second, (*spatial, at)


def _split(writer: Writer, operand: HloInstruction, dimension: int, groups: int) -> HloInstruction:
    sizes = list(operand.shape.dimensions)
    sizes[dimension : dimension + 1] = [groups, sizes[dimension] // groups]
    return writer.reshape(operand, sizes)


def _convolve(
    writer: Writer,
    old: HloInstruction,
    image: HloInstruction,
    kernel: HloInstruction,
    attributes: ConvolutionAttributes,
    sizes: Sequence[int] | None,
) -> HloInstruction:
    """Returns the convolution, reshaped where its result has other dimensions, `sizes`, than the old one's."""
    if sizes is None:
        new = writer.into.like_source("convolution", [image, kernel], attributes)
        new.raw_backend_config = old.raw_backend_config
        return new
    shape = Shape.array(old.shape.element_type, sizes)
    new = writer.make("convolution", image, kernel, attributes=attributes, shape=shape)
    new.raw_backend_config = old.raw_backend_config
    return writer.into.like_source("reshape", [new])
