"""Logical arrays to physical buffers and back, for XLA layouts: dimension order and tiles.

Role: callers pass and get plain NumPy arrays of the logical shape; the program's buffers have the layout of its HLO. A
buffer is a 1-D array of the element type. Padding is zero where we write it and ignored where we read it. What a layout
means is defined in `xjit.affine.layout_maps`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjit.affine import tile_array, tiled_shape, untile_array
from xjit.hlo.types.physical import physical_byte_size
from xjit.hlo.types.shape import Shape
from xjit.runtime.program import ArraySignature

Array = np.ndarray[Any, np.dtype[Any]]


def array_signature(shape: Shape, name: str) -> ArraySignature:
    """The signature of an array of that shape, in its layout."""
    layout = shape.layout
    order = None if layout is None or layout.is_row_major() else layout.minor_to_major
    tiles = layout.tile_dimensions if layout else ()
    dtype: np.dtype[Any] = shape.dtype
    return ArraySignature(dtype, shape.dimensions, order, physical_byte_size(shape), name, tiles)


def to_physical(array: Array, signature: ArraySignature) -> Array:
    """The 1-D physical buffer of a logical array; a view where no byte has to move."""
    data = tile_array(array, _minor_to_major(signature), signature.tiles)
    missing = signature.byte_size // data.itemsize - data.size  # padding of the tail
    return np.pad(data, (0, missing)) if missing > 0 else data


def from_physical(buffer: Array, signature: ArraySignature) -> Array:
    """The logical array of a 1-D physical buffer: without tiles a strided view, else often a copy."""
    order = _minor_to_major(signature)
    buffer = buffer[: math.prod(tiled_shape([signature.shape[d] for d in reversed(order)], signature.tiles))]
    if signature.is_row_major:
        return buffer.reshape(signature.shape)
    return untile_array(buffer, signature.shape, order, signature.tiles)


def _minor_to_major(signature: ArraySignature) -> tuple[int, ...]:
    if signature.minor_to_major is None:
        return tuple(range(len(signature.shape) - 1, -1, -1))
    return signature.minor_to_major
