"""`pack` and `unpack`: loops are the dimensions of the unpacked tensor, for `pack` counted in tiles."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import dim, symbol
from xjit.affine.semi import product
from xjit.linalg_ext.dialects.packing import packed_shape, packing_of
from xjit.linalg_ext.dialects.registry import operand_group
from xjit.linalg_ext.ir import Operation, OpResult, TensorType, Value
from xjit.linalg_ext.structured import PARALLEL
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, whole_tile
from xjit.linalg_ext.transforms.tilable.interface import Tilable

__all__ = ["PackTilable", "UnpackTilable"]


class _PackingTilable(Tilable):
    """A tile of the packed tensor has whole tiles of the unpacked one."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        self.how = packing_of(op)
        self.rank = len(self.how.outer)

    @property
    def iterator_types(self) -> tuple[str, ...]:
        return (PARALLEL,) * self.rank

    def packed_tile(self, index: IndexBuilder, packed: Value, counts: Tile) -> Tile:
        """Returns the tile of the packed tensor that has some tiles, told by the unpacked tensor's dimensions."""
        inner = whole_tile(index, packed).dimensions[self.rank :]
        return Tile.of([*(counts.dimensions[d] for d in self.how.outer), *inner])

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        kind = operands[1].type
        return [index.builder.create(self.op.name, operands, (kind,), self.op.attributes).result]

    def init_of(self, result: OpResult) -> int | None:
        return 1


class PackTilable(_PackingTilable):
    """Loops count tiles along each dimension."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        source, packed = op.operands[0].type, op.result.type
        assert isinstance(source, TensorType) and isinstance(packed, TensorType)
        needed = packed_shape(source.shape, self.how.outer, self.how.inner, self.how.static_tiles)
        if any(n is not None and found is not None and found > n for n, found in zip(needed, packed.shape)):
            raise self.error("is not tiled where some tiles are padding only")

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        sizes = whole_tile(index, self.op.operands[1]).sizes
        return tuple(sizes[self.how.outer.index(d)] for d in range(self.rank))

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        source, dest = self.op.operands[:2]
        elements = [self._elements(index, d, domain, index.dim_of(source, d)) for d in range(self.rank)]
        tiles: list[Tile | None] = [Tile.of(elements), self.packed_tile(index, dest, domain)]
        return [*tiles, *[None] * (len(self.op.operands) - 2)]

    def _elements(self, index: IndexBuilder, d: int, domain: Tile, extent: Index) -> tuple[Index, Index, bool]:
        """Returns the elements of some tiles along a dimension; padded ones may have fewer than they have room for."""
        offset, count, covered = domain.dimensions[d]
        n = self.how.tile_of(d)
        if n == 1 and d not in self.how.inner:
            return offset, count, covered
        start, room = (index.apply(product(dim(0), symbol(0)), (i,), (n,)) for i in (offset, count))
        if not operand_group(self.op, "padding_value"):
            return start, room, covered
        if isinstance(extent, int) and isinstance(n, int) and extent % n == 0:
            return start, room, covered
        return start, index.minimum((dim(0), dim(1) - dim(2)), (room, extent, start)), covered

    def result_tile(self, index: IndexBuilder, number: int, domain: Tile) -> Tile:
        return self.packed_tile(index, self.op.operands[1], domain)

    def domain_of(self, index: IndexBuilder, number: int, tile: Tile) -> Tile | None:
        """Tiles that a consumer takes whole."""
        inner = whole_tile(index, self.op.operands[1]).dimensions[self.rank :]
        if any(found[:2] != whole[:2] for found, whole in zip(tile.dimensions[self.rank :], inner)):
            return None
        return Tile.of(tile.dimensions[self.how.outer.index(d)] for d in range(self.rank))


class UnpackTilable(_PackingTilable):
    """Loops count elements; a tile of them begins where a tile of the packed tensor does."""

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        return whole_tile(index, self.op.operands[1]).sizes

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        whole = self.whole_loops(index, domain)
        counts = Tile.of(self._counts(index, d, domain, whole[d]) for d in range(self.rank))
        packed = self.packed_tile(index, self.op.operands[0], counts)
        return [packed, domain, *[None] * (len(self.op.operands) - 2)]

    def _counts(self, index: IndexBuilder, d: int, domain: Tile, whole: bool) -> tuple[Index, Index, bool]:
        offset, size, covered = domain.dimensions[d]
        n = self.how.tile_of(d)
        if whole:
            return 0, index.dim_of(self.op.operands[0], self.how.outer.index(d)), True
        if not isinstance(n, int) or index.divisor(offset) % n:
            raise self.error("is tiled only at multiples of its inner tiles")
        start = index.apply(dim(0).floordiv(n), (offset,))
        count = index.apply((dim(0) + (n - 1)).floordiv(n), (size,))
        return start, count, covered
