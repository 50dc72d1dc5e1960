"""continuous_tile_sizes: falling sizes of tiles, such that full tiles make up a loop exactly."""

from __future__ import annotations

from xjit.affine import dim
from xjit.linalg_ext.ir import Builder, Operation
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.tilable import as_tilable

__all__ = ["continuous_tile_sizes"]


def continuous_tile_sizes(op: Operation, dimension: int, target_size: int) -> list[tuple[int, Index]]:
    """Returns sizes of tiles, each with the number of iterations that full tiles of that size cover, in order.

    The first size is the target, the others are the powers of two below; those that are known to cover nothing are left
    out. LinalgError, with the operation's place, for a loop that is not there, and for sizes below 1.
    """
    root = as_tilable(op)
    index = IndexBuilder(Builder.before(op))
    extents = root.extents(index)
    if not 0 <= dimension < len(extents) or target_size < 1:
        raise root.error(f"has no tiles of {target_size} along loop {dimension} of {len(extents)}")
    left = extents[dimension]
    size = target_size
    found: list[tuple[int, Index]] = []
    while True:
        covered = index.apply(dim(0).floordiv(size) * size, (left,))
        if covered != 0:
            found.append((size, covered))
        if size == 1:
            return found
        left = index.apply(dim(0) % size, (left,))
        size = 1 << ((size - 1).bit_length() - 1)
