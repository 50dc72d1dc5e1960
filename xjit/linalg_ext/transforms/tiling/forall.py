"""tile_to_forall: computes the tiles of an operation in any order, in one `scf.forall`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from xjit.affine import constant, dim, symbol
from xjit.affine.semi import ceildiv, product
from xjit.linalg_ext.ir import (
    Attribute,
    Block,
    BlockArgument,
    Builder,
    DenseArrayAttr,
    IndexType,
    Operation,
    OpResult,
    Region,
    Value,
)
from xjit.linalg_ext.structured import REDUCTION
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.rollback import taking_back
from xjit.linalg_ext.transforms.building_blocks.slices import extract_tile, insert_tile_in_parallel, static_list
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable import Tilable, as_tilable
from xjit.linalg_ext.transforms.tiling.loop_nest import checked_sizes
from xjit.linalg_ext.transforms.tiling.tile import TilingResult, destination_of

__all__ = [
    "Forall",
    "add_shared_output",
    "offset_of_share",
    "share_of",
    "size_of_share",
    "tile_to_forall",
]


class Forall:
    """A `scf.forall` of some numbers of iterations that is built from the inside, before `anchor`."""

    def __init__(self, anchor: Operation, counts: Sequence[Index], outer: IndexBuilder) -> None:
        self.anchor, self._counts, self._outer = anchor, list(counts), outer
        self._shared: list[Value] = []
        self._block = Block([IndexType()] * len(counts))
        self.index = IndexBuilder(Builder(self._block, location=anchor.location), outer)
        self.insertions = Block()

    def share(self, inits: Sequence[Value]) -> list[BlockArgument]:
        """Adds outputs that begin as `inits` , of which iterations write parts; returns what these see."""
        self._shared += inits
        return [self._block.add_argument(value.type) for value in inits]

    @property
    def ids(self) -> list[BlockArgument]:
        return self._block.arguments[: len(self._counts)]

    @property
    def outs(self) -> list[BlockArgument]:
        return self._block.arguments[len(self._counts) :]

    def guarded(self) -> AbstractContextManager[None]:
        """Takes back what has been emitted if the loop cannot be finished."""
        return taking_back(self._outer, (self._block, self.insertions))

    def insert(self, tile_value: Value, number: int, tile: Tile) -> None:
        """Has a tile of shared output `number` written at the end of each iteration."""
        insert_tile_in_parallel(Builder(self.insertions), tile_value, self.outs[number], tile)

    def close(self, attributes: dict[str, Attribute] | None = None) -> Operation:
        """Returns the loop."""
        self.index.builder.create("scf.forall.in_parallel", (), (), {}, [Region([self.insertions])])
        values = [c for c in self._counts if isinstance(c, Value)]
        bounds: dict[str, Attribute] = {
            "operandSegmentSizes": DenseArrayAttr.i32((0, len(values), 0, len(self._shared))),
            "staticLowerBound": DenseArrayAttr.i64((0,) * len(self._counts)),
            "staticUpperBound": static_list(self._counts),
            "staticStep": DenseArrayAttr.i64((1,) * len(self._counts)),
        }
        return self._outer.builder.create(
            "scf.forall",
            (*values, *self._shared),
            [value.type for value in self._shared],
            {**bounds, **(attributes or {})},
            [Region([self._block])],
        )


def add_shared_output(loop: Operation, init: Value, tile_value: Value, tile: Tile) -> OpResult:
    """Gives a `scf.forall` one more result, which begins as `init`: each iteration writes one tile into it."""
    loop.set_operands([*loop.operands, init])
    segments = loop.attributes["operandSegmentSizes"]
    assert isinstance(segments, DenseArrayAttr)
    loop.attributes["operandSegmentSizes"] = DenseArrayAttr.i32((*segments.ints[:3], segments.ints[3] + 1))
    argument = loop.body.add_argument(init.type)
    insert_tile_in_parallel(Builder(loop.body.terminator.body), tile_value, argument, tile)
    return loop.add_result(init.type)


def tile_to_forall(
    op: Operation,
    tile_sizes: Sequence[Index] = (),
    num_threads: Sequence[int] = (),
    mapping: Attribute | None = None,
) -> TilingResult:
    """Tiles an operation with tensors or memrefs by sizes, or into a number of shares per loop; 0 leaves a loop.

    LinalgError, with the operation's place, for loops of reductions, and where neither or both are given.
    """
    root = as_tilable(op)
    if bool(tile_sizes) == bool(num_threads):
        raise root.error("expects either tile sizes or numbers of threads")
    given = checked_sizes(root, num_threads or tile_sizes)
    cut = [loop for loop, n in enumerate(given) if n != 0]
    for loop in cut:
        if root.iterator_types[loop] == REDUCTION:
            raise root.error(f"cannot be tiled along loop {loop} in parallel: it is a reduction")
    if not cut:
        return TilingResult(op, ())
    outer = IndexBuilder(Builder.before(op))
    extents = root.extents(outer)
    sizes = [_size(outer, extents[loop], given[loop], bool(num_threads)) for loop in cut]
    threads = given if num_threads else [None] * len(given)
    counts = [_count(outer, extents[loop], size, threads[loop]) for loop, size in zip(cut, sizes)]
    loop_op = Forall(op, counts, outer)
    ids = list(zip(cut, loop_op.ids, sizes, counts))
    rests = [size_of_share(loop_op.index, i, n, extents[loop], count, bool(num_threads)) for loop, i, n, count in ids]
    offsets = [offset_of_share(loop_op.index, i, n, rest) for (_, i, n, _), rest in zip(ids, rests)]
    shares = {loop: (offset, rest, True) for loop, offset, rest in zip(cut, offsets, rests)}
    domain = Tile.of(shares.get(loop, (0, extent, True)) for loop, extent in enumerate(extents))
    with loop_op.guarded():
        loop_op.share([destination_of(root, result, outer) for result in op.results])
        tiled = _emit(root, loop_op, domain)
    closed = loop_op.close({} if mapping is None else {"mapping": mapping})
    op.replace_all_uses_with(closed.results)
    op.erase()
    return TilingResult(tiled or closed, (closed,))


def _emit(root: Tilable, loop: Forall, domain: Tile) -> Operation | None:
    """Emits the operation on its tiles, and what becomes of the results."""
    sources = list(root.op.operands)
    for result, out in zip(root.op.results, loop.outs):
        init = root.init_of(result)
        if init is not None:
            sources[init] = out
    tiles = root.operand_tiles(loop.index, domain)
    operands = [v if t is None else extract_tile(loop.index.builder, v, t) for v, t in zip(sources, tiles)]
    where = [root.result_tile(loop.index, number, domain) for number in range(len(root.op.results))]
    values = root.emit(loop.index, domain, operands)
    for number, (value, tile) in enumerate(zip(values, where)):
        loop.insert(value, number, tile)
    return values[0].defining_op if values else loop.index.builder.block.terminator


def _size(outer: IndexBuilder, extent: Index, given: Index, is_count: bool) -> Index:
    if not is_count:
        return given
    assert isinstance(given, int)
    return outer.apply(dim(0).ceildiv(given), (extent,))


def _count(outer: IndexBuilder, extent: Index, size: Index, threads: Index | None) -> Index:
    """The number of shares of `size` elements: those that have elements, or all threads where that is not known, or
    where there are no elements.
    """
    if threads is not None and (isinstance(extent, Value) or extent == 0):
        return threads
    return outer.apply(ceildiv(dim(0), symbol(0)), (extent,), (size,))


def share_of(
    index: IndexBuilder, i: Value, size: Index, extent: Index, count: Index, bounded: bool | None = None
) -> tuple[Index, Index]:
    """Returns offset and size of share `i` of `count`: `size` elements, but less or none for the last ones.

    Where there may be none, the index builder knows, and the offset may lie behind the end. `bounded` is as for
    `size_of_share`.
    """
    rest = size_of_share(index, i, size, extent, count, bounded)
    return offset_of_share(index, i, size, rest), rest


def size_of_share(
    index: IndexBuilder, i: Value, size: Index, extent: Index, count: Index, bounded: bool | None = None
) -> Index:
    """Returns the size of share `i` of `count`. `bounded` tells whether a size below zero is made zero where the shares
    are not all of one size; None: where it is not known that there is none.
    """
    fits, some_in_each = False, bounded is False
    if isinstance(extent, int) and isinstance(count, int) and isinstance(size, int):
        fits, some_in_each = size * count == extent, size * (count - 1) < extent
    if fits:
        return size
    rest = index.minimum((symbol(1) - product(dim(0), symbol(0)), symbol(0)), (i,), (size, extent))
    if bounded or not some_in_each:
        rest = index.maximum((constant(0), dim(0)), (rest,))
    if not some_in_each:
        index.note_zero(rest)
    return rest


def offset_of_share(index: IndexBuilder, i: Value, size: Index, rest: Index) -> Index:
    """Returns the offset of share `i` of `size` elements, of which `rest` are there."""
    offset = index.apply(product(dim(0), symbol(0)), (i,), (size,))
    if rest is size and isinstance(size, int):
        index.set_divisor(offset, size)
    return offset
