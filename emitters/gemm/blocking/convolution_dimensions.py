"""What a convolution's dimensions amount to: the three that matter, a multiplication, the axes of a slab.

Pure arithmetic on sizes and strides.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.convolution_shapes import MAX_SPATIAL_DIMENSIONS, ConvolutionShape, SpatialDimension
from xjit.emitters.gemm.blocking.shapes import BatchDimension, GemmShape

_UNIT = SpatialDimension(1, 1, 1, 0, 0, 0)


def as_gemm(shape: ConvolutionShape) -> GemmShape | None:
    """The multiplication that a convolution with 1x1 windows is, if its pixels lie in one row."""
    if shape.groups != 1 or any(not _is_pointwise(d) for d in shape.spatial):
        return None
    dimensions = [(d.output, d.input_stride, d.output_stride) for d in shape.spatial if d.output != 1]
    if shape.batch != 1:
        dimensions.insert(0, (shape.batch, shape.input_batch, shape.output_batch))
    dimensions.sort(key=lambda item: -item[1])
    merged: list[tuple[int, int, int]] = []
    for size, input_stride, output_stride in dimensions:
        if merged and merged[-1][1] == size * input_stride and merged[-1][2] == size * output_stride:
            merged[-1] = (merged[-1][0] * size, input_stride, output_stride)
        else:
            merged.append((size, input_stride, output_stride))
    if not merged:
        merged = [(1, shape.input_features, shape.output_features)]
    if len(merged) > 2:
        return None
    m, lhs_row, out_row = merged[-1]
    batch = tuple(BatchDimension(size, lhs, 0, out) for size, lhs, out in merged[:-1])
    return GemmShape(
        m,
        shape.output_features,
        shape.input_features,
        lhs_row,
        shape.input_feature,
        shape.kernel_input,
        shape.kernel_output,
        out_row,
        shape.output_feature,
        batch=batch,
    )


def is_depthwise(shape: ConvolutionShape) -> bool:
    """Whether each feature is computed from one channel of its own."""
    return 1 < shape.feature_groups == shape.input_features == shape.output_features


def _is_pointwise(d: SpatialDimension) -> bool:
    return (
        d.kernel == 1 and d.window_stride == 1 and d.padding_low == 0 and d.base_dilation == 1 and d.output == d.input
    )


def spatial_dimensions(shape: ConvolutionShape) -> tuple[SpatialDimension, SpatialDimension, SpatialDimension]:
    """The dimensions that matter, widest input stride first, with trivial ones in front to make three."""
    kept = [d for d in shape.spatial if (d.input, d.kernel, d.output, d.padding_low) != (1, 1, 1, 0)]
    if len(kept) > MAX_SPATIAL_DIMENSIONS:
        raise ValueError(f"convolutions have at most {MAX_SPATIAL_DIMENSIONS} spatial dimensions here, not {len(kept)}")
    kept.sort(key=lambda d: -d.input_stride)
    kept = [replace(d, window_dilation=1) if d.kernel == 1 else d for d in kept]
    kept = [replace(d, base_dilation=1) if d.input == 1 else d for d in kept]
    padded = [_UNIT] * (MAX_SPATIAL_DIMENSIONS - len(kept)) + kept
    return padded[0], padded[1], padded[2]


@dataclass(slots=True)
class SlabAxis:
    """How one of the two inner dimensions lies in the slab."""

    taps: int  # taps of a chunk
    step: int  # input positions between slab pixels
    stride: int  # slab pixels between outputs
    tap: int  # slab pixels between taps

    def pixels(self, tile: int) -> int:
        """Slab pixels that `tile` outputs see."""
        return (tile - 1) * self.stride + (self.taps - 1) * self.tap + 1


def slab_axis(d: SpatialDimension, taps: int) -> SlabAxis:
    """How a dimension lies in a slab for `taps` taps of its window."""
    if d.base_dilation > 1:
        return SlabAxis(taps, 1, d.window_stride, d.window_dilation)
    if taps == 1:
        return SlabAxis(1, d.window_stride, 1, 0)
    step = math.gcd(d.window_stride, d.window_dilation)
    return SlabAxis(taps, step, d.window_stride // step, d.window_dilation // step)
