"""Gradients of depthwise convolutions by their kernels: depthwise convolutions themselves, of every image alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import ConvolutionAttributes, ConvolutionDimensionNumbers
from xjit.passes.expand.convolution_expander import ConvolutionExpander
from xjit.passes.expand.dot_factors import WIDE
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class DepthwiseGradientExpander(ConvolutionExpander):
    """Makes channels of the images and channels of groups of batches one dimension of groups, and adds the images up.

    What is expanded has one image and one output feature in each group of batches: so JAX writes these gradients. No
    channel is summed with another one then: vectors hold channels, not sums.
    """

    name = "depthwise-gradient-expander"

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same sums, by images first; None if there are no such groups."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        numbers, groups = attributes.dim_labels, attributes.batch_group_count
        images = instruction.operand(0).shape.dimensions[numbers.input_feature_dimension]
        channels = instruction.shape.dimensions[numbers.output_feature_dimension]
        batch = instruction.operand(0).shape.dimensions[numbers.input_batch_dimension]
        if not 1 < groups == channels == batch or not images:
            return None
        return _by_images(Writer(into), instruction, attributes, images)


def _by_images(writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, images: int) -> HloInstruction:
    numbers, channels = attributes.dim_labels, attributes.batch_group_count
    rank = len(attributes.window.dimensions)
    spatial = tuple(range(rank))
    given: list[HloInstruction] = []
    for operand, space, last in (
        (old.operand(0), numbers.input_spatial_dimensions, _features_of_input(numbers)),
        (old.operand(1), numbers.kernel_spatial_dimensions, _features_of_kernel(numbers)),
    ):
        moved = writer.transpose(operand, (*space, *last))
        given.append(writer.reshape(moved, (*moved.shape.dimensions[:rank], 1, images * channels)))
    last = (rank, rank + 1)
    kind = WIDE.get(old.shape.element_type, old.shape.element_type)
    outputs = tuple(old.shape.dimensions[d] for d in numbers.output_spatial_dimensions)
    sums = writer.make(
        "convolution",
        *given,
        attributes=replace(
            attributes,
            batch_group_count=1,
            feature_group_count=images * channels,
            dim_labels=ConvolutionDimensionNumbers(*last, spatial, *last, spatial, *last, spatial),
        ),
        shape=Shape.array(kind, (*outputs, 1, images * channels)),
    )
    total = writer.into.sum(writer.reshape(sums, (*outputs, images, channels)), (rank,))
    total = writer.convert(total, old.shape.element_type)
    places = {d: n for n, d in enumerate(numbers.output_spatial_dimensions)}
    places[numbers.output_feature_dimension] = rank
    order = [places[d] for d in range(old.shape.rank) if d in places]
    return writer.into.like_source("reshape", [writer.transpose(total, order)])


def _features_of_input(numbers: ConvolutionDimensionNumbers) -> tuple[int, int]:
    """Images and channels: what is summed, and what is apart."""
    return numbers.input_feature_dimension, numbers.input_batch_dimension


def _features_of_kernel(numbers: ConvolutionDimensionNumbers) -> tuple[int, int]:
    return numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension
