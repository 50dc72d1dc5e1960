"""Tiled layouts for callers: `xjit.affine.layout_maps` with `Shape` and `Layout` objects as well as plain numbers.

linear_index_with_tile((2, 3), (3, 5), (2, 2))            # 17
tile_array(x, layout)                                     # the physical buffer of x
untile_array(buffer, shape)                               # x again; the shape carries the layout
physical_map(shape), logical_map(shape)                   # logical index -> offset, and back
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjit.affine import IndexingError, IndexingMap, linear_index, linear_index_with_tile
from xjit.affine import logical_map as _logical_map
from xjit.affine import physical_map as _physical_map
from xjit.affine import tile_array as _tile_array
from xjit.affine import untile_array as _untile_array
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import Shape

__all__ = [
    "linear_index",
    "linear_index_with_tile",
    "logical_map",
    "physical_map",
    "tile_array",
    "untile_array",
]

Tiles = Sequence[Sequence[int]]
LayoutLike = Layout | Shape | Sequence[int]


def _order(rank: int, layout: LayoutLike | None, tiles: Tiles) -> tuple[tuple[int, ...], Tiles]:
    """Returns (minor_to_major, tiles) of any of the forms; None is row-major."""
    if isinstance(layout, Shape):
        layout = layout.layout
    if layout is None:
        layout = Layout.row_major(rank)
    if isinstance(layout, Layout):
        return layout.minor_to_major, (*layout.tile_dimensions, *tiles)
    return tuple(layout), tiles


def _described(shape: Shape | Sequence[int], layout: LayoutLike | None, tiles: Tiles) -> tuple[Any, Any, Tiles]:
    if isinstance(shape, Shape):
        if not shape.is_array:
            raise InvalidArgument(f"a layout needs an array shape, found {shape}")
        dims = shape.dimensions
        layout = shape.layout if layout is None else layout
    else:
        dims = tuple(shape)
    return dims, *_order(len(dims), layout, tiles)


def tile_array(x: Any, layout: LayoutLike | None = None, tiles: Tiles = (), fill: Any = 0) -> Any:
    """Returns the 1-D physical buffer of array `x` in a layout (or a shape's, or minor_to_major and tiles).

    Padding is set to `fill`. InvalidArgument if the layout does not fit to x.
    """
    try:
        return _tile_array(x, *_order(len(x.shape), layout, tiles), fill=fill)
    except IndexingError as error:
        raise InvalidArgument(str(error)) from error


def untile_array(buffer: Any, shape: Shape | Sequence[int], layout: LayoutLike | None = None, tiles: Tiles = ()) -> Any:
    """Returns the array of `shape` whose physical buffer is `buffer`; the layout is the shape's unless one is given.

    InvalidArgument if the buffer has another size.
    """
    dims, order, all_tiles = _described(shape, layout, tiles)
    try:
        return _untile_array(buffer, dims, order, all_tiles)
    except IndexingError as error:
        raise InvalidArgument(str(error)) from error


def physical_map(shape: Shape | Sequence[int], layout: LayoutLike | None = None, tiles: Tiles = ()) -> IndexingMap:
    """Returns the map from a logical index to the physical offset in elements. InvalidArgument for invalid layouts."""
    try:
        return _physical_map(*_described(shape, layout, tiles))
    except IndexingError as error:
        raise InvalidArgument(str(error)) from error


def logical_map(shape: Shape | Sequence[int], layout: LayoutLike | None = None, tiles: Tiles = ()) -> IndexingMap:
    """Returns the map from a physical offset to the logical index; its constraints leave padding out."""
    try:
        return _logical_map(*_described(shape, layout, tiles))
    except IndexingError as error:
        raise InvalidArgument(str(error)) from error
