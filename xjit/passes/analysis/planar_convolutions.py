"""Which convolutions have so few features that vectors are filled by pixels, those of a row of a plane, instead."""

from __future__ import annotations

import math
from typing import Final

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConvolutionAttributes, ConvolutionDimensionNumbers

MIN_ROW: Final = 16
"""Pixels: lanes of a vector."""
MAX_TERMS: Final = 512
"""Of one sum: more are dots of few columns, which read an image once."""
MAX_FEATURES: Final = 4
"""A quarter of a vector's lanes: a kernel with features in lanes would leave the others idle."""
MAX_STRIDED_BITS: Final = 384
"""Of the weights of a tap, of 32 bits each at least, where a window skips pixels of a row and channels lie behind each
other: transposes of whole images are half of the time then, and few elements of a vector that is loaded are used.
"""
MIN_PRODUCTS: Final = 1 << 14
"""For each feature: of fewer, the time that is gained is not worth that of compiling the loops."""


def suits_planes(convolution: HloInstruction) -> bool:
    """Whether pixels should be lanes, wherever the features are now. Its sizes must be static."""
    attributes = convolution.attributes_as(ConvolutionAttributes)
    numbers, windows = attributes.dim_labels, attributes.window.dimensions
    kinds = {convolution.shape.element_type, *(o.shape.element_type for o in convolution.operands)}
    if attributes.batch_group_count > 1 or len(kinds) > 1 or not windows or not convolution.shape.num_elements:
        return False
    if any(w.base_dilation > 1 for w in windows):
        return False
    outputs, groups = convolution.shape.dimensions[numbers.output_feature_dimension], attributes.feature_group_count
    if 1 < groups == outputs > MAX_FEATURES and not has_features_first(numbers):
        return False  # features are lanes where each has a channel of its own, and both transposes take their time
    given = convolution.operand(1).shape.dimensions[numbers.kernel_input_feature_dimension]
    features, taps = outputs // groups, math.prod(w.size for w in windows)
    if windows[-1].stride > 1 and not has_features_first(numbers):
        weight_bits = max(32, convolution.shape.element_type.bit_width)
        if features * given * weight_bits > MAX_STRIDED_BITS:
            return False
    row = convolution.shape.dimensions[numbers.output_spatial_dimensions[-1]]
    products = convolution.shape.num_elements // features * given * taps
    return features <= MAX_FEATURES and row >= MIN_ROW and given * taps <= MAX_TERMS and products >= MIN_PRODUCTS


def has_features_first(numbers: ConvolutionDimensionNumbers) -> bool:
    """Whether an image's features are planes."""
    return numbers.input_feature_dimension < min(numbers.input_spatial_dimensions)
