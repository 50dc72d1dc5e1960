"""What a convolution computes and how it is blocked: plain numbers, no code generation. Compare `shapes.py`.

Any order of dimensions and any layout is a matter of strides. The emitted code reads a `ConvolutionParameters` record.
"""

from __future__ import annotations

import math

import numpy as np

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.shapes import numbers_of, span
from xjit.hlo.attributes import WindowDimension

MAX_SPATIAL_DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class SpatialDimension:
    """One spatial dimension: sizes, strides in elements, and the window.

    Element o of the output sees, for tap k, position `o * window_stride + k * window_dilation - padding_low` of the
    input that is spread out by `base_dilation`; positions between or outside its elements are zeros.
    """

    input: int
    kernel: int
    output: int
    input_stride: int
    kernel_stride: int
    output_stride: int
    window_stride: int = 1
    padding_low: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    reversed: bool = False

    @property
    def window(self) -> WindowDimension:
        """How the kernel moves over the input, whatever there is behind it."""
        return WindowDimension(
            self.kernel,
            self.window_stride,
            self.padding_low,
            window_dilation=self.window_dilation,
            base_dilation=self.base_dilation,
            window_reversal=self.reversed,
        )


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """A convolution of `batch` images. Strides are in elements, >= 0.

    `batch` and `input_features` are those of the input, `output_features` those of the output (and kernel); the
    kernel has `input_features / feature_groups` input features. The output has `batch / batch_groups` images.
    """

    batch: int
    input_features: int
    output_features: int
    spatial: tuple[SpatialDimension, ...]
    input_batch: int
    input_feature: int
    kernel_input: int
    kernel_output: int
    output_batch: int
    output_feature: int
    feature_groups: int = 1
    batch_groups: int = 1

    @property
    def groups(self) -> int:
        """The number of independent convolutions."""
        return self.feature_groups * self.batch_groups

    @property
    def pixels(self) -> int:
        """Pixels of the output."""
        return math.prod(d.output for d in self.spatial) * self.batch // self.batch_groups

    @property
    def terms(self) -> int:
        """Products that an element of the output is the sum of, those with padding included."""
        return math.prod(d.kernel for d in self.spatial) * (self.input_features // self.feature_groups)

    @property
    def flops(self) -> int:
        """Additions and multiplications, those with padding included."""
        return 2 * self.pixels * self.terms * self.output_features


def convolution_spans(shape: ConvolutionShape) -> tuple[int, int]:
    """Elements from the first to the last of the input, and of the kernel."""
    channels = shape.input_features // shape.feature_groups
    source = [(d.input, d.input_stride) for d in shape.spatial]
    kernel = [(d.kernel, d.kernel_stride) for d in shape.spatial]
    return (
        span([(shape.batch, shape.input_batch), (shape.input_features, shape.input_feature), *source]),
        span([(channels, shape.kernel_input), (shape.output_features, shape.kernel_output), *kernel]),
    )


@dataclass(frozen=True, slots=True)
class ConvolutionParameters:
    """The record. Spatial dimensions are 0, 1, 2, outermost first; strides are in bytes, sizes are those of one
    group.
    """

    batch: int
    groups: int
    features: int  # output features
    channels: int  # input features
    input_0: int
    input_1: int
    input_2: int
    kernel_0: int
    kernel_1: int
    kernel_2: int
    output_0: int
    output_1: int
    output_2: int
    window_stride_0: int
    window_stride_1: int
    window_stride_2: int
    padding_0: int
    padding_1: int
    padding_2: int
    dilation_0: int
    dilation_1: int
    dilation_2: int
    base_0: int
    base_1: int
    base_2: int
    in_batch: int
    in_group: int
    in_channel: int
    in_0: int
    in_1: int
    in_2: int
    tap_start: int  # of tap (0, 0, 0): not 0 where dimensions are reversed
    tap_group: int
    tap_channel: int
    tap_feature: int
    tap_0: int
    tap_1: int
    tap_2: int
    out_batch: int
    out_group: int
    out_feature: int
    out_0: int
    out_1: int
    out_2: int
    depthwise: int
    tile_batch: int
    tile_1: int
    tile_2: int
    block_features: int
    tiles_batch: int
    tiles_1: int
    tiles_2: int
    blocks_features: int
    num_tasks: int
    parallel: int
    chunk_1: int  # taps and channels of a chunk of k
    chunk_2: int
    chunk_channels: int
    step_1: int  # input positions between neighbours in the slab
    step_2: int
    slab_1: int  # size of the slab of one image, in pixels
    slab_2: int
    slab_stride_1: int  # slab pixels between neighbours in the output
    slab_stride_2: int
    slab_tap_1: int  # slab pixels between taps
    slab_tap_2: int
    use_scratch: int
    merge_rows: int  # dimension 1 of the output continues dimension 2
    result_row: int  # bytes between pixels of the result (in scratch, or in the output)

    def to_array(self) -> np.ndarray:
        """The record as int64."""
        return np.array(numbers_of(self), np.int64)
