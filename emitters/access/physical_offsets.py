"""Where an element lies in its buffer: the buffer's layout map, applied to a logical index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xjit.affine import AffineExpr, constant, physical_map, substitute
from xjit.emitters.loops.variables import VariableTable
from xjit.hlo.types.shape import Shape


@lru_cache(maxsize=4096)
def _offset_expression(
    dimensions: tuple[int, ...], order: tuple[int, ...], tiles: tuple[tuple[int, ...], ...]
) -> AffineExpr:
    return physical_map(dimensions, order, tiles).map.results[0]


def physical_offset(table: VariableTable, shape: Shape, index: Sequence[AffineExpr]) -> AffineExpr:
    """Returns the element offset of a logical index in a buffer of that shape, simplified."""
    if shape.rank == 0:
        return constant(0)
    tiles = shape.layout.tile_dimensions if shape.layout else ()
    offset = _offset_expression(shape.dimensions, shape.minor_to_major, tiles)
    return table.simplify(substitute(offset, index))
