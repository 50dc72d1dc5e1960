"""`tensor.extract_slice` and `tensor.empty`: a tile of them is a tile of the source, or an empty tensor of its size."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import dim
from xjit.linalg_ext.ir import Operation, TensorType, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, extract_tile, slice_lists
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable.interface import Tilable

__all__ = ["EmptyTilable", "ExtractSliceTilable"]


class EmptyTilable(Tilable):
    """`tensor.empty`."""

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        kind = self.op.result.type
        assert isinstance(kind, TensorType)
        values = iter(self.op.operands)
        return tuple(next(values) if n is None else n for n in kind.shape)

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        return [None] * len(self.op.operands)

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        kind = self.op.result.type
        assert isinstance(kind, TensorType)
        return [create_empty(index.builder, domain.sizes, kind)]


class ExtractSliceTilable(Tilable):
    """`tensor.extract_slice` with steps of one; dimensions of size one may be dropped."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        self.offsets, self.sizes, strides = slice_lists(op, 1)
        if any(s != 1 for s in strides):
            raise self.error("is tiled only with steps of one")
        kind = op.result.type
        assert isinstance(kind, TensorType)
        self.kind = kind
        self.kept = self._kept()

    def _kept(self) -> list[int]:
        """The dimensions of the source that the result has."""
        kept: list[int] = []
        for axis, size in enumerate(self.sizes):
            left = len(self.sizes) - axis
            needed = self.kind.rank - len(kept)
            if needed and (left == needed or size != 1 or self.kind.shape[len(kept)] == 1):
                kept.append(axis)
        return kept

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        return tuple(self.sizes[axis] for axis in self.kept)

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        dimensions: list[tuple[Index, Index, bool]] = []
        for axis, offset in enumerate(self.offsets):
            size = index.dim_of(self.op.operands[0], axis)
            if axis in self.kept:
                start, length, covered = domain.dimensions[self.kept.index(axis)]
                covered = covered and offset == 0 and self.sizes[axis] == size
                dimensions.append((index.apply(dim(0) + dim(1), (start, offset)), length, covered))
            else:
                dimensions.append((offset, 1, size == 1))
        return [Tile.of(dimensions), *[None] * (len(self.op.operands) - 1)]

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        if self.kind.rank == len(self.sizes):
            return [operands[0]]
        sizes = iter(domain.sizes)
        box = Tile.of((0, next(sizes) if a in self.kept else 1, False) for a in range(len(self.sizes)))
        result = TensorType(domain.static_sizes, self.kind.element)
        return [extract_tile(index.builder, operands[0], box, result)]
