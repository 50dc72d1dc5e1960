"""fuse_in_forall: tiles an operation in one `scf.forall`, and computes its producers in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms.building_blocks.index_values import Index
from xjit.linalg_ext.transforms.fusion.fuse_into_containing_op import fuse_into_containing_op
from xjit.linalg_ext.transforms.tilable import find_tilable
from xjit.linalg_ext.transforms.tiling.forall import tile_to_forall
from xjit.linalg_ext.transforms.tiling.tile import TilingResult

__all__ = ["fuse_in_forall"]


def fuse_in_forall(root: Operation, tile_sizes: Sequence[Index], tile_interchange: Sequence[int] = ()) -> TilingResult:
    """Tiles `root` by sizes, and fuses its producers and theirs; one with other users is computed once more, outside.

    LinalgError, with its place, if `root` cannot be tiled, or another order of its loops is asked for; a producer that
    cannot be fused stays outside.
    """
    if list(tile_interchange) != sorted(tile_interchange):
        raise LinalgError(f"'{root.name}' op has parallel loops in their order only", root.location)
    if not root.results:
        raise LinalgError(
            f"only TilingInterface ops are supported, on tensors: '{root.name}' op has no results", root.location
        )
    result = tile_to_forall(root, tile_sizes)
    tried: set[Operation] = set()
    for loop in result.loops:
        producer = _next_producer(loop, tried)
        while producer is not None:
            tried.add(producer)
            with suppress(LinalgError):  # it stays outside
                fuse_into_containing_op(producer, loop)
            producer = _next_producer(loop, tried)
    return result


def _next_producer(loop: Operation, tried: set[Operation]) -> Operation | None:
    """Returns the last operation in front of a loop that can be tiled and that slices in the loop are taken of."""
    assert loop.block is not None
    found: dict[Operation, None] = {}
    for op in loop.walk():
        source = op.operands[0].defining_op if op.name == "tensor.extract_slice" else None
        if source is not None and source.block is loop.block and source not in tried and source.name != "tensor.empty":
            found[source] = None
    usable = [op for op in found if find_tilable(op) is not None]
    return max(usable, key=loop.block.position, default=None)
