"""tile_reduction: splits a reduction into partial ones, each with a start of its own, and merges them at the end."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim, symbol
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import (
    Attribute,
    Block,
    Builder,
    DenseArrayAttr,
    Operation,
    Region,
    TensorType,
    Value,
)
from xjit.linalg_ext.structured import PARALLEL, REDUCTION, shape_of
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.transforms.building_blocks.collectives import Combiner, combiner_of, neutral_element
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, extract_tile, insert_tile
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable import StructuredTilable, as_tilable
from xjit.linalg_ext.transforms.tiling.forall import Forall, offset_of_share, size_of_share
from xjit.linalg_ext.transforms.tiling.loop_nest import LoopNest, size_of_tile

__all__ = ["ReductionTiling", "merge_parts", "tile_reduction_using_for", "tile_reduction_using_forall"]


@dataclass(frozen=True)
class ReductionTiling:
    """`init`: fills the partial results with the neutral element; `split`: reduces a part; `merge`: combines parts."""

    init: Operation
    split: Operation
    merge: Operation
    loop: Operation


@dataclass(frozen=True)
class _Reduction:
    """A reduction with one result along one loop that is split."""

    tilable: StructuredTilable
    combiner: Combiner
    loop: int
    size: int

    @property
    def kept(self) -> list[int]:
        """The loops of the result, in the order of its dimensions."""
        access = self.tilable.view.accesses[-1]
        return [e.position for e in access if e is not None]


def _reduction(op: Operation, sizes: Sequence[int], what: str) -> _Reduction:
    """Checks what is split: one reduction loop of a reduction with one known combiner and one result."""
    tilable = as_tilable(op)
    if not isinstance(tilable, StructuredTilable) or not op.results:
        raise tilable.error("is no reduction of tensors")
    combiner = combiner_of(tilable.view)
    if combiner is None:
        raise tilable.error("is no reduction with one result and one known scalar op that combines elements")
    cut = [loop for loop, n in enumerate(sizes) if n != 0]
    if len(sizes) > len(tilable.iterator_types) or any(n < 0 for n in sizes):
        raise tilable.error(f"has {len(tilable.iterator_types)} loops, found {what} {list(sizes)}")
    if len(cut) != 1 or tilable.iterator_types[cut[0]] != REDUCTION:
        raise tilable.error(f"expected {what} for one loop of a reduction, found {list(sizes)}")
    if tilable.view.has_index_semantics:
        raise tilable.error("is split only if its body asks for no indices")
    if any(e is None or not e.dims for e in tilable.view.accesses[-1]):
        raise tilable.error("has a result that is no projection of its loops")
    return _Reduction(tilable, combiner, cut[0], sizes[cut[0]])


def _partial_init(r: _Reduction, outer: IndexBuilder, parts: Index) -> Operation:
    """A tensor of the result's dimensions and one more, filled with the neutral element."""
    view = r.tilable.view
    kind = view.inits[0].type
    assert isinstance(kind, TensorType)
    sizes = [outer.dim_of(view.inits[0], axis) for axis in range(kind.rank)]
    neutral = neutral_element(r.combiner.op.name, kind.element)
    start = outer.builder.constant(neutral, kind.element)
    empty = create_empty(outer.builder, [*sizes, parts], kind)
    attributes: dict[str, Attribute] = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    return outer.builder.create("linalg.fill", (start, empty), (empty.type,), attributes)


def merge_parts(builder: Builder, combiner: Combiner, partial: Value, init: Value, axis: int) -> Operation:
    """Reduces dimension `axis` of the partial results into the init of the reduction."""
    rank = len(shape_of(init)) + 1
    combine = combiner.op
    element = combine.result.type
    body = Block([element, element])
    inner = Builder(body)
    total = inner.create(combine.name, body.arguments, (element,), combine.attributes).result
    inner.create("linalg.yield", (total,))
    maps = [AffineMap.identity(rank), AffineMap(rank, 0, tuple(dim(i) for i in range(rank) if i != axis))]
    kinds = [REDUCTION if i == axis else PARALLEL for i in range(rank)]
    return create_generic(builder, [partial], [init], maps, kinds, Region([body]))


def _merge(r: _Reduction, partial: Value, outer: IndexBuilder) -> Operation:
    """Reduces the last dimension of the partial results."""
    init = r.tilable.view.inits[0]
    return merge_parts(outer.builder, r.combiner, partial, init, len(shape_of(init)))


def tile_reduction_using_for(op: Operation, tile_sizes: Sequence[int]) -> ReductionTiling:
    """Adds tiles of a reduction elementwise in a `scf.for`, and reduces the sums at the end.

    One entry of `tile_sizes` is not 0: that of a loop of the reduction. LinalgError for what is no reduction with one
    known combiner. Floats are added in another order than before.
    """
    r = _reduction(op, tile_sizes, "tile sizes")
    tilable = r.tilable
    outer = IndexBuilder(Builder.before(op))
    extents = tilable.extents(outer)
    extent = extents[r.loop]
    size = min(r.size, extent) if isinstance(extent, int) and extent else r.size
    nest = LoopNest(op, [(extent, size)], outer)
    length = size_of_tile(nest, nest.ivs[0], size, extent)
    domain = Tile.of((nest.ivs[0], length, True) if i == r.loop else (0, n, True) for i, n in enumerate(extents))
    where = Tile.of((0, length if i == r.loop else extents[i], True) for i in (*r.kept, r.loop))
    with nest.guarded():
        inputs = _input_tiles(r, nest.index, domain)
    init = _partial_init(r, outer, size)
    [carried] = nest.add_iter_args([init.result])
    partial = extract_tile(nest.builder, carried, where)
    split = _split_generic(r, nest.builder, inputs, partial)
    [loop] = nest.close([insert_tile(nest.builder, split.result, carried, where)])
    merge = _merge(r, loop.result, outer)
    op.replace_all_uses_with(merge.results)
    op.erase()
    return ReductionTiling(init, split, merge, loop)


def _input_tiles(r: _Reduction, index: IndexBuilder, domain: Tile) -> list[Value]:
    tiles = r.tilable.operand_tiles(index, domain)
    view = r.tilable.view
    return [v if t is None else extract_tile(index.builder, v, t) for v, t in zip(view.inputs, tiles)]


def _split_generic(r: _Reduction, builder: Builder, inputs: Sequence[Value], partial: Value) -> Operation:
    """The reduction with its split loop made parallel: each step has an element of its own to add to."""
    view = r.tilable.view
    mapping: dict[Value, Value] = {}
    body = Block([a.type for a in view.body.arguments])
    mapping.update(zip(view.body.arguments, body.arguments))
    inner = Builder(body)
    for each in view.body.operations:
        copy = inner.clone(each, mapping)
        if each is view.body.terminator:
            copy.name = "linalg.yield"
    loops = len(r.tilable.iterator_types)
    target = AffineMap(loops, 0, tuple(dim(i) for i in (*r.kept, r.loop)))
    kinds = [PARALLEL if i == r.loop else kind for i, kind in enumerate(r.tilable.iterator_types)]
    maps = [*view.indexing_maps[:-1], target]
    return create_generic(builder, inputs, [partial], maps, kinds, Region([body]))


def tile_reduction_using_forall(
    op: Operation, num_threads: Sequence[int], tile_sizes: Sequence[int] = (), mapping: Attribute | None = None
) -> ReductionTiling:
    """Reduces parts in a `scf.forall`, each into a column of its own, and reduces these at the end.

    One entry of `num_threads` is not 0: that of a loop of the reduction. With a tile size for it, threads take tiles in
    turn, else one share each. LinalgError as for `tile_reduction_using_for`.
    """
    r = _reduction(op, num_threads, "numbers of threads")
    tilable, view = r.tilable, r.tilable.view
    step = tile_sizes[r.loop] if r.loop < len(tile_sizes) else 0
    outer = IndexBuilder(Builder.before(op))
    extents = tilable.extents(outer)
    extent = extents[r.loop]
    loop = Forall(op, [r.size], outer)  # a thread without a share leaves the neutral element
    column = Tile.of([*((0, extents[i], True) for i in r.kept), (loop.ids[0], 1, True)])
    kind = view.inits[0].type
    assert isinstance(kind, TensorType)
    reduced = TensorType(column.static_sizes[: len(r.kept)], kind.element)
    with loop.guarded():
        init = _partial_init(r, outer, r.size)
        [out] = loop.share([init.result])
        if step:
            total = extract_tile(loop.index.builder, out, column, reduced)
            split, value = _cyclic(r, loop, total, extents, step)
        else:
            size = outer.apply(dim(0).ceildiv(r.size), (extent,))
            rest = size_of_share(loop.index, loop.ids[0], size, extent, r.size, bounded=True)
            total = extract_tile(loop.index.builder, out, column, reduced)
            share = (offset_of_share(loop.index, loop.ids[0], size, rest), rest, True)
            domain = Tile.of(share if i == r.loop else (0, n, True) for i, n in enumerate(extents))
            split = _split_same(r, loop.index, total, domain)
            value = split.result
    loop.insert(value, 0, column)
    closed = loop.close({} if mapping is None else {"mapping": mapping})
    merge = _merge(r, closed.result, outer)
    op.replace_all_uses_with(merge.results)
    op.erase()
    return ReductionTiling(init, split, merge, closed)


def _split_same(r: _Reduction, index: IndexBuilder, total: Value, domain: Tile) -> Operation:
    """The same operation on a part of its input, put into the total."""
    inputs = _input_tiles(r, index, domain)
    where = r.tilable.result_tile(index, 0, domain)
    result = r.tilable.emit(index, domain, [*inputs, extract_tile(index.builder, total, where)])[0].defining_op
    assert result is not None
    return result


def _cyclic(r: _Reduction, loop: Forall, total: Value, extents: Sequence[Index], step: int) -> tuple[Operation, Value]:
    """Tiles i * step, (i + threads) * step, ... for thread i, in a `scf.for` inside."""
    index = loop.index
    start = index.apply(symbol(0) * step, (), (loop.ids[0],))
    extent = extents[r.loop]
    nest = LoopNest(r.tilable.op, [(extent, step * r.size)], index, lower=[start])
    [carried] = nest.add_iter_args([total])
    iv = nest.ivs[0]
    length = nest.index.minimum((dim(0) - dim(1), dim(2)), (extent, iv, step))
    domain = Tile.of((iv, length, True) if i == r.loop else (0, n, True) for i, n in enumerate(extents))
    with nest.guarded():
        split = _split_same(r, nest.index, carried, domain)
    [inner] = nest.close([split.result])
    return split, inner.result
