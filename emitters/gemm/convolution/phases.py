"""Convolutions over an input that is spread out, as several over the input itself.

With a base dilation b every b-th output position along a dimension, a phase, has the same taps of the kernel, every
b-th one, on elements; the others are on the zeros between them. So each phase is a convolution without dilation:
transposed convolutions and gradients of strided ones multiply no zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape, SpatialDimension
from xjit.passes.analysis.convolution_phases import phased_dimensions


@dataclass(frozen=True, slots=True)
class Phase:
    """A convolution, and the elements that its kernel and result start behind those of the whole."""

    shape: ConvolutionShape
    kernel_start: int = 0
    result_start: int = 0


def convolution_phases(shape: ConvolutionShape) -> Sequence[Phase]:
    """Returns convolutions that compute the result of one together; itself where that would not save products."""
    phased = phased_dimensions([d.window for d in shape.spatial], [d.output for d in shape.spatial])
    if not any(phased):
        return [Phase(shape)]
    return [
        Phase(
            replace(shape, spatial=tuple(d for d, _, _ in dims)), sum(k for _, k, _ in dims), sum(o for _, _, o in dims)
        )
        for dims in itertools.product(
            *(_phases(d) if is_phased else [(d, 0, 0)] for d, is_phased in zip(shape.spatial, phased, strict=True))
        )
    ]


def _phases(d: SpatialDimension) -> Iterator[tuple[SpatialDimension, int, int]]:
    """Yields the dimension of each phase, and where its kernel and its result start.

    Output o = first + base * q sees, for tap k = tap + base * j, element (o + k - padding) / base = q + j - low.
    """
    base = d.base_dilation
    for first in range(base):
        tap = (d.padding_low - first) % base
        taps = -(-(d.kernel - tap) // base)
        unseen = d.kernel - 1 - tap - base * (taps - 1)  # behind the last tap
        phase = replace(
            d,
            kernel=taps,
            output=-(-(d.output - first) // base),
            kernel_stride=base * d.kernel_stride,
            output_stride=base * d.output_stride,
            padding_low=(d.padding_low - first - tap) // base,
            base_dilation=1,
        )
        yield phase, (unseen if d.reversed else tap) * d.kernel_stride, first * d.output_stride
