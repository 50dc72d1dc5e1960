"""Which convolutions over an input that is spread out are done as several over the input itself.

`emitters/gemm/convolution/phases.py` says what these are. Their results lie between each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at

MAX_PHASES = 16
"""More are more code and calls than they save."""


def phased_dimensions(window: Sequence[at.WindowDimension], outputs: Sequence[int]) -> tuple[bool, ...]:
    """Says of each spatial dimension whether its phases are convolutions; `outputs` are sizes of the result."""
    found = tuple(_has_phases(d, output) for d, output in zip(window, outputs, strict=True))
    count = math.prod(d.base_dilation for d, has_phases in zip(window, found, strict=True) if has_phases)
    return found if count <= MAX_PHASES else (False,) * len(found)


def num_phases(instruction: HloInstruction) -> int:
    """Returns in how many parts an instruction is done because its input is spread out: 1 for most."""
    if instruction.opcode != "convolution":
        return 1
    attributes = instruction.attributes_as(at.ConvolutionAttributes)
    window = attributes.window.dimensions
    outputs = [instruction.shape.dimensions[d] for d in attributes.dim_labels.output_spatial_dimensions]
    phased = phased_dimensions(window, outputs)
    return math.prod(d.base_dilation for d, is_phased in zip(window, phased, strict=True) if is_phased)


def _has_phases(d: at.WindowDimension, output: int) -> bool:
    """Whether every phase of a dimension has taps, and a place in the result."""
    return 1 < d.base_dilation <= d.size and d.stride == d.window_dilation == 1 and output >= d.base_dilation
