"""Convolutions to few features, as filters of images are: over padded planes, so that pixels side by side are lanes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import (
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    Window,
    WindowDimension,
)
from xjit.ops import build
from xjit.passes.analysis.planar_convolutions import suits_planes
from xjit.passes.expand.convolution_expander import ConvolutionExpander
from xjit.passes.expand.dot_factors import WIDE
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

SUMMED_AS = {**WIDE, PrimitiveType.S8: PrimitiveType.S16, PrimitiveType.U8: PrimitiveType.U16}
"""The types in which sums are kept where that is not the type of the result; those of bytes wrap around as two do."""


@dataclass
class PlanarConvolutionRewriter(ConvolutionExpander):
    """The image is padded ahead, has its features in front of its pixels, and the type of the sums.

    A kernel whose lanes are output features would leave most of them idle. With pixels as lanes, each weight is
    multiplied by a row of an image at some distance, and no step asks which pixels there are.
    """

    name = "planar-convolution-rewriter"

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same values in the old order; None where that gains nothing, or is what is there."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        if not suits_planes(instruction):
            return None
        planar, kind = _features_first(len(attributes.window.dimensions)), instruction.shape.element_type
        padded = any(w.padding_low or w.padding_high for w in attributes.window.dimensions)
        if attributes.dim_labels == planar and not padded and kind not in SUMMED_AS:
            return None
        return _rewrite(Writer(into), instruction, attributes, planar)


def _features_first(count: int) -> ConvolutionDimensionNumbers:
    """Returns `bf01_oi01->bf01` for two spatial dimensions, and so on."""
    space = tuple(range(2, count + 2))
    return ConvolutionDimensionNumbers(0, 1, space, 1, 0, space, 0, 1, space)


def _rewrite(
    writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes, planar: ConvolutionDimensionNumbers
) -> HloInstruction:
    numbers, windows, kind = attributes.dim_labels, attributes.window.dimensions, old.shape.element_type
    summed = SUMMED_AS.get(kind, kind)
    image, weights = (writer.convert(operand, summed) for operand in old.operands)
    order = (numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions)
    image = writer.permute(image, order)
    padding = [(0, 0, 0), (0, 0, 0), *((w.padding_low, w.padding_high, 0) for w in windows)]
    if any(map(any, padding)):
        image = writer.add(build.pad(image, writer.constant(0, summed), padding))
    filters = (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension)
    weights = writer.permute(weights, (*filters, *numbers.kernel_spatial_dimensions))
    places = (numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions)
    new = writer.make(
        "convolution",
        image,
        weights,
        attributes=replace(attributes, window=Window(tuple(map(_unpadded, windows))), dim_labels=planar),
        shape=Shape.array(summed, tuple(old.shape.dimensions[d] for d in places)),
    )
    new = writer.permute(writer.convert(new, kind), [places.index(d) for d in range(len(places))])
    new.mutable_shape = old.shape  # with its layout
    return new


def _unpadded(window: WindowDimension) -> WindowDimension:
    return replace(window, padding_low=0, padding_high=0)
