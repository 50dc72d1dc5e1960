"""`tensor.pad` and `tensor.insert_slice`: of a tile of the result the part that the source has is cut out."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import constant, dim
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import DenseArrayAttr, Operation, OpResult, TensorType, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder, same_index
from xjit.linalg_ext.transforms.building_blocks.slices import insert_tile, mixed, slice_lists, static_list
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, whole_tile
from xjit.linalg_ext.transforms.tilable.interface import Tilable

__all__ = ["InsertSliceTilable", "PadTilable"]


@dataclass(frozen=True)
class _Part:
    """What of a source, which stands at `before` of the result, lies in a tile of the result's dimension."""

    before: Index  # elements of the tile before those of the source
    offset: Index  # of the part, in the source
    size: Index
    after: Index  # elements of the tile after those of the source


def _part(index: IndexBuilder, low: Index, source: Index, high: Index, offset: Index, size: Index) -> _Part:
    """Cuts [offset, offset + size) of the result with [low, low + source), behind which are `high` elements more.

    A part may be empty, with a size of 0, unless the tile is longer than what is on either side.
    """
    before = index.maximum((dim(1) - dim(0), constant(0)), (offset, low))
    start = index.maximum((constant(0), dim(0) - dim(1)), (offset, low))
    start = index.minimum((dim(1), dim(0)), (start, source))
    end = dim(0) - dim(1) + dim(2)
    if isinstance(size, int) and isinstance(low, int) and size >= low:  # reaches beyond `low`
        stop = index.minimum((dim(3), end), (offset, low, size, source))
    else:
        stop = index.maximum((constant(0), end), (offset, low, size))
        stop = index.minimum((dim(1), dim(0)), (stop, source))
        before = index.minimum((dim(1), dim(0)), (before, size))
    length = index.apply(dim(0) - dim(1), (stop, start))
    if not (isinstance(size, int) and all(isinstance(n, int) and size > n for n in (low, high))):
        index.note_zero(length)
    after = index.apply(dim(2) - dim(0) - dim(1), (before, length, size))
    return _Part(before, start, length, after)


class _InResult(Tilable):
    """An op whose result is a source inside of something else."""

    def place(self, index: IndexBuilder, axis: int) -> tuple[Index, Index]:
        """Returns where the source stands in dimension `axis`, and its size."""
        raise NotImplementedError

    def part(self, index: IndexBuilder, axis: int, domain: Tile) -> _Part:
        low, source = self.place(index, axis)
        offset, size = domain.offsets[axis], domain.sizes[axis]
        extent = self.extents(index)[axis]
        high = index.apply(dim(2) - dim(1) - dim(0), (low, source, extent))
        if offset == 0 and same_index(size, extent):
            return _Part(low, 0, source, high)
        if low == 0 and same_index(source, extent):
            return _Part(0, offset, size, 0)
        return _part(index, low, source, high, offset, size)

    def source_tile(self, index: IndexBuilder, domain: Tile) -> Tile:
        parts = [self.part(index, axis, domain) for axis in range(len(domain.sizes))]
        return Tile(tuple(p.offset for p in parts), tuple(p.size for p in parts), domain.covers)


class PadTilable(_InResult):
    """Pads with a value that is the same everywhere."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        body = op.body
        if body.terminator.operands[0].parent_block is body and len(body.operations) > 1:
            raise self.error("is tiled only if it pads with one value")
        if body.terminator.operands[0] in body.arguments:
            raise self.error("is tiled only if it pads with one value")
        low, high = op.attributes["static_low"], op.attributes["static_high"]
        assert isinstance(low, DenseArrayAttr) and isinstance(high, DenseArrayAttr)
        self.low, rest = mixed(low.ints, op.operands[1:])
        self.high, _ = mixed(high.ints, rest)

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        kind = self.op.result.type
        assert isinstance(kind, TensorType)
        source = self.op.operands[0]
        return tuple(
            index.apply(dim(0) + dim(1) + dim(2), (self.low[i], index.dim_of(source, i), self.high[i]))
            if n is None
            else n
            for i, n in enumerate(kind.shape)
        )

    def place(self, index: IndexBuilder, axis: int) -> tuple[Index, Index]:
        return self.low[axis], index.dim_of(self.op.operands[0], axis)

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        return [self.source_tile(index, domain), *[None] * (len(self.op.operands) - 1)]

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        parts = [self.part(index, axis, domain) for axis in range(len(domain.sizes))]
        low, high = [p.before for p in parts], [p.after for p in parts]
        values = [i for i in (*low, *high) if isinstance(i, Value)]
        num_low = sum(isinstance(i, Value) for i in low)
        kind = self.op.result.type
        assert isinstance(kind, TensorType)
        attributes = {
            **self.op.attributes,
            "static_low": static_list(low),
            "static_high": static_list(high),
            "operandSegmentSizes": DenseArrayAttr.i32((1, num_low, len(values) - num_low)),
        }
        new = Operation(
            "tensor.pad", (operands[0], *values), (TensorType(domain.static_sizes, kind.element),), attributes
        )
        new.add_region(self.op.regions[0].clone({}))
        return [index.builder.insert(new).result]


class InsertSliceTilable(_InResult):
    """Replaces a box of the destination by the source, with steps of one and no change of rank."""

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        self.offsets, self.sizes, strides = slice_lists(op, 2)
        source, dest = op.operands[0].type, op.operands[1].type
        assert isinstance(source, TensorType) and isinstance(dest, TensorType)
        if source.rank != dest.rank or any(s != 1 for s in strides):
            raise self.error("is tiled only with steps of one and a source of the same rank")

    def extents(self, index: IndexBuilder) -> tuple[Index, ...]:
        return whole_tile(index, self.op.operands[1]).sizes

    def place(self, index: IndexBuilder, axis: int) -> tuple[Index, Index]:
        return self.offsets[axis], self.sizes[axis]

    def operand_tiles(self, index: IndexBuilder, domain: Tile) -> list[Tile | None]:
        return [self.source_tile(index, domain), domain, *[None] * (len(self.op.operands) - 2)]

    def emit(self, index: IndexBuilder, domain: Tile, operands: Sequence[Value]) -> list[Value]:
        parts = [self.part(index, axis, domain) for axis in range(len(domain.sizes))]
        where = Tile(tuple(p.before for p in parts), tuple(p.size for p in parts), domain.covers)
        return [insert_tile(index.builder, operands[0], operands[1], where)]

    def init_of(self, result: OpResult) -> int | None:
        return 1

    def reads_init(self, number: int) -> bool:
        return True
