"""tile: computes an operation tile by tile, in a nest of `scf.for`."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import Operation, OpResult, TensorType, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, extract_tile, insert_tile
from xjit.linalg_ext.transforms.tilable import Tilable, as_tilable
from xjit.linalg_ext.transforms.tiling.loop_nest import cut_by_sizes

__all__ = ["TilingResult", "destination_of", "tile"]


@dataclass(frozen=True)
class TilingResult:
    """The operation on a tile, and the loops around it, outermost first; without loops nothing has changed.

    The innermost loop stands for an operation that had nothing to do on a tile.
    """

    tiled_op: Operation
    loops: tuple[Operation, ...]


def tile(op: Operation, tile_sizes: Sequence[Index], interchange: Sequence[int] = ()) -> TilingResult:
    """Tiles an operation with tensors or memrefs; loop i gets `tile_sizes[i]`, 0 leaves it.

    `interchange` gives the loops in the order of the nest, outermost first. A loop of a reduction carries its partial
    results. LinalgError, with the operation's place, if it cannot be tiled like that; then nothing has changed.
    """
    root = as_tilable(op, "only linalg ops are supported")
    cut = cut_by_sizes(root, op, tile_sizes, interchange)
    if cut is None:
        return TilingResult(op, ())
    nest, domain = cut
    with nest.guarded():
        tiles = root.operand_tiles(nest.index, domain)
        results = [root.result_tile(nest.index, i, domain) for i in range(len(op.results))]
    carried = nest.add_iter_args([destination_of(root, result, nest.outer) for result in op.results])
    sources = list(op.operands)
    for result, argument in zip(op.results, carried):
        init = root.init_of(result)
        if init is not None:
            sources[init] = argument
    operands = [v if t is None else extract_tile(nest.builder, v, t) for v, t in zip(sources, tiles)]
    values = root.emit(nest.index, domain, operands)
    tiled = values[0].defining_op if values else nest.builder.block.terminator
    loops = nest.close([insert_tile(nest.builder, v, a, t) for v, a, t in zip(values, carried, results)])
    op.replace_all_uses_with(loops[0].results)
    op.erase()
    return TilingResult(tiled or loops[-1], tuple(loops))


def destination_of(root: Tilable, result: OpResult, outer: IndexBuilder) -> Value:
    """Returns the tensor that the tiles of a result are put into."""
    init = root.init_of(result)
    if init is not None:
        return root.op.operands[init]
    kind = result.type
    assert isinstance(kind, TensorType)
    sizes = root.extents(outer)
    return create_empty(outer.builder, sizes, kind)
