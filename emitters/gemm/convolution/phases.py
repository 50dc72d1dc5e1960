"""Convolutions over an input that is spread out, or with taps that are, as several without gaps.

With a base dilation b every b-th output position along a dimension, a phase, has the same taps of the kernel, every
b-th one, on elements; the others are on the zeros between them. So each phase is a convolution without dilation:
transposed convolutions and gradients of strided ones multiply no zeros.

With a window dilation d every d-th output position sees every d-th element. So each phase is a convolution without
dilation over these elements: gradients of strided convolutions by their kernels read neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape, SpatialDimension
from xjit.passes.analysis.convolution_phases import phased_dimensions


@dataclass(frozen=True, slots=True)
class Phase:
    """A convolution, and the elements that its input, kernel and result start behind those of the whole."""

    shape: ConvolutionShape
    input_start: int = 0
    kernel_start: int = 0
    result_start: int = 0


def convolution_phases(shape: ConvolutionShape) -> Sequence[Phase]:
    """Returns convolutions that compute the result of one together; itself where that would not save products."""
    outputs = [d.output for d in shape.spatial]
    phased = phased_dimensions([d.window for d in shape.spatial], outputs, shape.batch // shape.batch_groups)
    if not any(phased):
        return [Phase(shape)]
    found: list[Phase] = []
    choices = zip(shape.spatial, phased, strict=True)
    for dims in itertools.product(*(_phases(d) if is_phased else [(d, 0, 0, 0)] for d, is_phased in choices)):
        spatial, *starts = zip(*dims, strict=True)
        found.append(Phase(replace(shape, spatial=spatial), *map(sum, starts)))
    return found


def _phases(d: SpatialDimension) -> Iterator[tuple[SpatialDimension, int, int, int]]:
    """Yields the dimension of each phase, and where its input, its kernel and its result start."""
    return _phases_of_taps(d) if d.window_dilation > 1 else _phases_of_input(d)


def _phases_of_taps(d: SpatialDimension) -> Iterator[tuple[SpatialDimension, int, int, int]]:
    """Output o = first + dilation * q sees, for tap k, element o + dilation * k - padding, which is number q + k - low
    of those from `start` on.
    """
    dilation = d.window_dilation
    for first in range(dilation):
        start = (first - d.padding_low) % dilation
        phase = replace(
            d,
            input=-(-(d.input - start) // dilation),
            output=-(-(d.output - first) // dilation),
            input_stride=dilation * d.input_stride,
            output_stride=dilation * d.output_stride,
            padding_low=(d.padding_low - first + start) // dilation,
            window_dilation=1,
        )
        yield phase, start * d.input_stride, 0, first * d.output_stride


def _phases_of_input(d: SpatialDimension) -> Iterator[tuple[SpatialDimension, int, int, int]]:
    """Output o = first + base * q sees, for tap k = tap + base * j, element (o + k - padding) / base = q + j - low."""
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
        yield phase, 0, (unseen if d.reversed else tap) * d.kernel_stride, first * d.output_stride
