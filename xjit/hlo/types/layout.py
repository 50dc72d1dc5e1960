"""`Layout`: the order of dimensions in memory, and the tiles on top of it (docs/tiled_layouts.md)."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument

COMBINE = -1  # a tile dimension written `*`: merged into the next more minor one


@dataclass(frozen=True, slots=True)
class Tile:
    """One level of tiling: sizes of the most minor physical dimensions, major to minor; -1 is `*`."""

    dimensions: tuple[int, ...]

    def __str__(self) -> str:
        return "(" + ",".join("*" if d == COMBINE else str(d) for d in self.dimensions) + ")"


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory. `minor_to_major[i]` is the logical dimension of the i-th most minor position."""

    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...] = ()
    tail_padding_alignment_in_elements: int = 1
    index_primitive_type: str = ""
    pointer_primitive_type: str = ""
    element_size_in_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[tuple[int, tuple[int, ...]], ...] = ()
    dim_level_types: str = ""
    physical_shape: str = ""
    dynamic_shape_metadata_prefix_bytes: int = 0

    @staticmethod
    def row_major(rank: int) -> Layout:
        """Returns the default layout of a rank: the last dimension is the most minor one."""
        return _row_major(rank)

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """Logical dimensions from the most major to the most minor position."""
        return self.minor_to_major[::-1]

    @property
    def tile_dimensions(self) -> tuple[tuple[int, ...], ...]:
        """The tiles as plain tuples, as `xjit.affine.layout_maps` takes them."""
        return tuple(tile.dimensions for tile in self.tiles)

    def is_row_major(self) -> bool:
        """Whether the order is the default one (tiles are not looked at)."""
        return self.minor_to_major == tuple(range(len(self.minor_to_major) - 1, -1, -1))

    def validate_order(self, rank: int) -> None:
        """Raises InvalidArgument unless each dimension of an array of that rank has its place."""
        if sorted(self.minor_to_major) != list(range(rank)):
            order = ",".join(map(str, self.minor_to_major))
            raise InvalidArgument(f"layout {{{order}}} is not a permutation of the {rank} dimensions of its shape")

    def validate(self, rank: int) -> None:
        """Raises InvalidArgument unless this is a layout of an array of that rank, with tiles that can be laid out."""
        self.validate_order(rank)
        if self.tiles and not rank:
            rank = len(self.tiles[0].dimensions)  # a scalar is the first element of a tile
        for tile in self.tiles:
            _validate_tile(tile, rank)
            combined = tile.dimensions.count(COMBINE)
            rank += len(tile.dimensions) - 2 * combined  # the tile's sizes join the counts of tiles

    def __str__(self) -> str:
        parts = [self.dim_level_types and f"D({self.dim_level_types})"]
        parts.append("T" + "".join(map(str, self.tiles)) if self.tiles else "")
        if self.tail_padding_alignment_in_elements != 1:
            parts.append(f"L({self.tail_padding_alignment_in_elements})")
        parts.append(self.index_primitive_type and f"#({self.index_primitive_type})")
        parts.append(self.pointer_primitive_type and f"*({self.pointer_primitive_type})")
        parts.append(f"E({self.element_size_in_bits})" if self.element_size_in_bits else "")
        parts.append(f"S({self.memory_space})" if self.memory_space else "")
        if self.split_configs:
            configs = "".join(f"({dim}:{','.join(map(str, at))})" for dim, at in self.split_configs)
            parts.append(f"SC{configs}")
        parts.append(self.physical_shape and f"P({self.physical_shape})")
        if self.dynamic_shape_metadata_prefix_bytes:
            parts.append(f"M({self.dynamic_shape_metadata_prefix_bytes})")
        tail = "".join(parts)
        return "{" + ",".join(map(str, self.minor_to_major)) + (":" + tail if tail else "") + "}"


def _validate_tile(tile: Tile, rank: int) -> None:
    if not tile.dimensions:
        raise InvalidArgument("a tile needs at least one dimension")
    if len(tile.dimensions) > rank:
        raise InvalidArgument(f"tile {tile} has more dimensions than the {rank} that it applies to")
    if tile.dimensions[-1] == COMBINE:
        raise InvalidArgument(f"tile {tile}: `*` on the most minor dimension has nothing to combine with")
    if any(d <= 0 and d != COMBINE for d in tile.dimensions):
        raise InvalidArgument(f"tile {tile}: sizes must be positive or `*`")


_ROW_MAJOR: dict[int, Layout] = {}


def _row_major(rank: int) -> Layout:
    layout = _ROW_MAJOR.get(rank)
    if layout is None:
        layout = _ROW_MAJOR[rank] = Layout(tuple(range(rank - 1, -1, -1)))
    return layout
