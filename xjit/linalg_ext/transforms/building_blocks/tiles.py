"""Tiles: boxes of tensors, or of iteration spaces, inside a loop nest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import Value
from xjit.linalg_ext.structured import shape_of
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder, same_index

__all__ = ["Tile", "is_whole", "same_tile", "tile_within", "united", "whole_tile"]


@dataclass(frozen=True)
class Tile:
    """The indices offset + j, j in [0, size), of each dimension, in one iteration of a loop nest.

    `covers`: whether all iterations together have each index of the dimension.
    """

    offsets: tuple[Index, ...]
    sizes: tuple[Index, ...]
    covers: tuple[bool, ...]

    @staticmethod
    def of(dimensions: Iterable[tuple[Index, Index, bool]]) -> Tile:
        """Returns the tile of some dimensions, each as offset, size and whether it is covered."""
        offsets, sizes, covers = [], [], []
        for offset, size, covered in dimensions:
            offsets.append(offset)
            sizes.append(size)
            covers.append(covered)
        return Tile(tuple(offsets), tuple(sizes), tuple(covers))

    @property
    def dimensions(self) -> list[tuple[Index, Index, bool]]:
        return list(zip(self.offsets, self.sizes, self.covers))

    @property
    def static_sizes(self) -> tuple[int | None, ...]:
        """The sizes as a type has them."""
        return tuple(size if isinstance(size, int) else None for size in self.sizes)


def whole_tile(index: IndexBuilder, value: Value) -> Tile:
    """Returns the tile that is all of a tensor or memref."""
    return Tile.of((0, index.dim_of(value, axis), True) for axis in range(len(shape_of(value))))


def is_whole(tile: Tile, value: Value) -> bool:
    """Whether the tile is known to be all of the value."""
    return all(o == 0 and s == n for o, s, n in zip(tile.offsets, tile.sizes, shape_of(value)) if n is not None) and (
        None not in shape_of(value)
    )


def same_tile(left: Tile, right: Tile) -> bool:
    """Whether both are known to be the same indices."""
    return all(map(same_index, left.offsets, right.offsets)) and all(map(same_index, left.sizes, right.sizes))


def united(index: IndexBuilder, tiles: Sequence[Tile]) -> Tile:
    """Returns the least tile that has the indices of all of some tiles."""
    return Tile.of(_united_dimension(index, list(parts)) for parts in zip(*(tile.dimensions for tile in tiles)))


def tile_within(index: IndexBuilder, tile: Tile, of: Tile) -> Tile:
    """Returns where a tile is in one that has its indices; where it is empty, from the first index on."""
    offsets = map(index.subtract, tile.offsets, of.offsets)
    found = (index.unless_zero(size, offset, 0) for size, offset in zip(tile.sizes, offsets))
    return Tile(tuple(found), tile.sizes, tile.covers)


def _united_dimension(index: IndexBuilder, parts: list[tuple[Index, Index, bool]]) -> tuple[Index, Index, bool]:
    covered = any(part[2] for part in parts)
    offset, size, _ = parts[0]
    if all(same_index(o, offset) and same_index(s, size) for o, s, _ in parts):
        return offset, size, covered
    if all(same_index(o, offset) for o, _, _ in parts) and all(isinstance(s, int) for _, s, _ in parts):
        return offset, max(s for _, s, _ in parts if isinstance(s, int)), covered
    lower, upper = offset, index.add(offset, size)
    for each_offset, each_size, _ in parts[1:]:
        lower, upper, size = _united_range(index, (lower, upper, size), (each_offset, each_size))
    return lower, size, covered


def _united_range(
    index: IndexBuilder, range_: tuple[Index, Index, Index], part: tuple[Index, Index]
) -> tuple[Index, Index, Index]:
    """Returns lower bound, upper bound and size of a range with a part; an empty one adds nothing, wherever it is."""
    (lower, upper, size), (offset, part_size) = range_, part
    if index.may_be_zero(size):
        lower, upper = index.unless_zero(size, lower, offset), index.unless_zero(size, upper, offset)
    offset = index.unless_zero(part_size, offset, lower)
    lower, upper = index.lesser(lower, offset), index.greater(upper, index.add(offset, part_size))
    united_size = index.subtract(upper, lower)
    if index.may_be_zero(size) and index.may_be_zero(part_size):
        index.note_zero(united_size)
    return lower, upper, united_size
