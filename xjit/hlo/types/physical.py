"""How many bytes an array takes in memory: the one place that knows about the padding of tiles."""

from __future__ import annotations

import math

from xjit.affine.layout_maps import tiled_shape
from xjit.hlo.types.shape import Shape


def physical_dimensions(shape: Shape) -> tuple[int, ...]:
    """Returns the dimensions of an array as it lies in memory, major to minor, tiles applied and padded.

    `f32[3,5]{1,0:T(2,4)}` gives (2, 2, 2, 4): two rows and two columns of tiles of 2 by 4.
    """
    dims = [shape.dimensions[d] for d in reversed(shape.minor_to_major)]
    return tiled_shape(dims, shape.layout.tile_dimensions if shape.layout is not None else ())


def physical_byte_size(shape: Shape) -> int:
    """Returns the bytes of an array's buffer (sub-byte types take one byte each); 0 for tuples and tokens."""
    if not shape.is_array:
        return 0
    if shape.layout is None or not shape.layout.tiles:
        elements = shape.num_elements
    else:
        elements = math.prod(physical_dimensions(shape)) if shape.num_elements else 0
    if shape.layout is not None and (alignment := shape.layout.tail_padding_alignment_in_elements) > 1:
        elements = -(-elements // alignment) * alignment
    return elements * shape.element_type.byte_width
