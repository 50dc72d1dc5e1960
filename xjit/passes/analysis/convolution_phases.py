"""Which convolutions over an input that is spread out, or with taps that are, are done as several without gaps.

`emitters/gemm/convolution/phases.py` says what these are. Their results lie between each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at

MAX_PHASES = 16
"""More are more code and calls than they save."""


MIN_PIXELS_OF_TAPS = 512
"""Of the result, all images, where taps are spread out in rows: for the phases of fewer, taps are packed too often.
Within a row, taps that are apart would be multiplied one by one.
"""


def phased_dimensions(window: Sequence[at.WindowDimension], outputs: Sequence[int], images: int) -> tuple[bool, ...]:
    """Says of each spatial dimension whether its phases are convolutions; `outputs` are sizes of resulting images."""
    last, has_many = len(window) - 1, images * math.prod(outputs) >= MIN_PIXELS_OF_TAPS
    counts = [
        _phases(d, output) if has_many or d.window_dilation == 1 or n == last else 1
        for n, (d, output) in enumerate(zip(window, outputs, strict=True))
    ]
    return tuple(count > 1 and math.prod(counts) <= MAX_PHASES for count in counts)


def num_phases(instruction: HloInstruction) -> int:
    """Returns in how many parts an instruction is done because its input or its taps are spread out: 1 for most."""
    if instruction.opcode != "convolution":
        return 1
    attributes = instruction.attributes_as(at.ConvolutionAttributes)
    window = attributes.window.dimensions
    sizes, numbers = instruction.shape.dimensions, attributes.dim_labels
    outputs = [sizes[d] for d in numbers.output_spatial_dimensions]
    phased = phased_dimensions(window, outputs, sizes[numbers.output_batch_dimension])
    return math.prod(max(d.base_dilation, d.window_dilation) for d, is_phased in zip(window, phased) if is_phased)


def _phases(d: at.WindowDimension, output: int) -> int:
    """In how many phases a dimension is done: each has taps, and a place in the result.

    Taps are spread out in gradients of strided convolutions. There they are many; few are as well left where they are.
    """
    if d.stride != 1 or 1 not in (d.base_dilation, d.window_dilation):
        return 1
    if d.window_dilation > 1:
        return d.window_dilation if d.window_dilation <= output < d.size else 1
    return d.base_dilation if d.base_dilation <= min(d.size, output) else 1
