"""Convolutions to few features, as the last ones of networks that make images: all taps are columns of one dot."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import reduce

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConvolutionAttributes, DotAttributes
from xjit.ops import build
from xjit.passes.expand.convolution_expander import ConvolutionExpander
from xjit.passes.expand.dot_factors import WIDE
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

MAX_FEATURES = 4
"""A quarter of a vector: a kernel that has a tap's features in lanes leaves the other lanes idle."""
MIN_INPUT_FEATURES = 16
TAPS = range(4, 65)


@dataclass
class NarrowConvolutionExpander(ConvolutionExpander):
    """Multiplies each element by the weights of all taps at once, and adds up what falls on the same output.

    That is for windows that go on element by element, to at most MAX_FEATURES features without groups.
    """

    name = "narrow-convolution-expander"

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the same sums, by taps; None for other convolutions."""
        attributes = instruction.attributes_as(ConvolutionAttributes)
        return _by_taps(Writer(into), instruction, attributes) if _is_narrow(instruction, attributes) else None


def _is_narrow(convolution: HloInstruction, attributes: ConvolutionAttributes) -> bool:
    numbers, windows = attributes.dim_labels, attributes.window.dimensions
    if attributes.feature_group_count > 1 or attributes.batch_group_count > 1:
        return False
    if any(w.stride > 1 or w.base_dilation > 1 or w.window_reversal for w in windows):
        return False
    features = convolution.shape.dimensions[numbers.output_feature_dimension]
    few = 0 < features <= MAX_FEATURES and convolution.shape.num_elements > 0
    given = convolution.operand(0).shape.dimensions[numbers.input_feature_dimension]
    return few and given >= MIN_INPUT_FEATURES and math.prod(w.size for w in windows) in TAPS


def _by_taps(writer: Writer, old: HloInstruction, attributes: ConvolutionAttributes) -> HloInstruction:
    numbers, windows = attributes.dim_labels, attributes.window.dimensions
    image, kernel = old.operands
    kind = WIDE.get(old.shape.element_type, old.shape.element_type)
    dot = DotAttributes(
        lhs_contracting_dims=(numbers.kernel_input_feature_dimension,),
        rhs_contracting_dims=(numbers.input_feature_dimension,),
        operand_precision=tuple(reversed(attributes.operand_precision)),
    )
    products = writer.add(build.make_dot(kernel, image, dot, kind))
    # its dimensions: those of the kernel, then those of the image, without the features that are summed
    of_kernel = [d for d in range(kernel.shape.rank) if d != numbers.kernel_input_feature_dimension]
    of_image = [d for d in range(image.shape.rank) if d != numbers.input_feature_dimension]
    taps = [of_kernel.index(d) for d in numbers.kernel_spatial_dimensions]
    space = [len(of_kernel) + of_image.index(d) for d in numbers.input_spatial_dimensions]
    outputs = [old.shape.dimensions[d] for d in numbers.output_spatial_dimensions]
    padding = [(0, 0, 0)] * products.shape.rank
    for place, window in zip(space, windows, strict=True):
        padding[place] = (window.padding_low, window.padding_high, 0)
    products = writer.add(build.pad(products, writer.constant(0, kind), padding))

    def seen_by(tap: tuple[int, ...]) -> HloInstruction:
        starts, limits = [0] * products.shape.rank, list(products.shape.dimensions)
        for n, index in enumerate(tap):
            starts[taps[n]], limits[taps[n]] = index, index + 1
            starts[space[n]] = index * windows[n].window_dilation
            limits[space[n]] = starts[space[n]] + outputs[n]
        part = writer.slice(products, starts, limits)
        return writer.reshape(part, [size for d, size in enumerate(part.shape.dimensions) if d not in taps])

    terms = map(seen_by, itertools.product(*(range(w.size) for w in windows)))
    total = writer.convert(reduce(lambda a, b: writer.make("add", a, b), terms), old.shape.element_type)
    places = {numbers.output_feature_dimension: 0}
    batch = 1 + of_image.index(numbers.input_batch_dimension)
    places[numbers.output_batch_dimension] = batch
    for n, d in enumerate(numbers.output_spatial_dimensions):
        places[d] = 1 + space[n] - len(of_kernel)
    moved = writer.transpose(total, [places[d] for d in range(old.shape.rank)])
    return writer.into.like_source("reshape", [moved])
