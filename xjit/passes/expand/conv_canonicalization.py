"""Convolutions whose channels are not the last dimension, by transposes around one whose channels are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import ConvolutionAttributes, ConvolutionDimensionNumbers, DimensionsAttributes
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

_LIBRARY_TYPES = (PrimitiveType.F16, PrimitiveType.F32)


@dataclass
class ConvCanonicalization(OpExpander):
    """The entry's convolutions get the dimensions batch, space, features; kernels space, input and output features.

    What a library for such convolutions does not take stays: other types than f16 and f32, reversed windows, groups
    of batches, more than three spatial dimensions, empty arrays. Without `entry_only`, other computations' convolutions
    get them, too, and with `any_float` those of other floats.
    """

    name = "conv-canonicalization"
    opcodes = frozenset({"convolution"})
    entry_only: bool = True
    any_float: bool = False

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the result in its old order, or None where nothing is to be gained."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        numbers, count = attributes.dim_labels, len(attributes.window.dimensions)
        canonical = _channels_last(count)
        if self.entry_only and not into.computation.is_entry_computation():
            return None
        if numbers == canonical or not _library_takes(instruction, self.any_float):
            return None
        writer = Writer(into)
        spatial = numbers.input_spatial_dimensions
        image = [numbers.input_batch_dimension, *spatial, numbers.input_feature_dimension]
        filters = (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension)
        operands = (
            writer.transpose(instruction.operand(0), image),
            writer.transpose(instruction.operand(1), [*numbers.kernel_spatial_dimensions, *filters]),
        )
        order = [numbers.output_batch_dimension, *numbers.output_spatial_dimensions, numbers.output_feature_dimension]
        shape = Shape.array(instruction.shape.element_type, [instruction.shape.dimensions[d] for d in order])
        labelled = replace(attributes, dim_labels=canonical)
        convolution = writer.make("convolution", *operands, attributes=labelled, shape=shape)
        convolution.raw_backend_config = instruction.raw_backend_config
        back = [order.index(d) for d in range(len(order))]
        if back == list(range(len(order))):
            convolution.mutable_shape = instruction.shape  # with its layout
            return convolution
        return into.like_source("transpose", [convolution], DimensionsAttributes(tuple(back)))


def _channels_last(count: int) -> ConvolutionDimensionNumbers:
    """Returns `b01f_01io->b01f` for two spatial dimensions, and so on."""
    space, kernel = tuple(range(1, count + 1)), tuple(range(count))
    return ConvolutionDimensionNumbers(0, count + 1, space, count, count + 1, kernel, 0, count + 1, space)


def is_fast_cpu_convolution(convolution: HloInstruction) -> bool:
    """Whether a library for convolutions with channels last takes a convolution as it is."""
    attributes = convolution.attributes_as(ConvolutionAttributes)
    canonical = _channels_last(len(attributes.window.dimensions))
    return attributes.dim_labels == canonical and _library_takes(convolution)


def _library_takes(convolution: HloInstruction, any_float: bool = False) -> bool:
    attributes = convolution.attributes_as(ConvolutionAttributes)
    arrays = [convolution.shape, *(o.shape for o in convolution.operands)]
    return (
        all(s.element_type.is_float and (any_float or s.element_type in _LIBRARY_TYPES) for s in arrays)
        and all(s.is_static_array and s.num_elements for s in arrays)
        and 1 <= len(attributes.window.dimensions) <= 3
        and not any(d.window_reversal for d in attributes.window.dimensions)
        and attributes.batch_group_count == 1
    )
