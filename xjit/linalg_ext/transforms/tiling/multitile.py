"""multitile_sizes: two sizes of tiles that together make up a loop exactly."""

from __future__ import annotations

from xjit.affine import dim, symbol
from xjit.affine.semi import floordiv, product
from xjit.linalg_ext.ir import Builder, LinalgError, Operation
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.tilable import as_tilable

__all__ = ["multitile_sizes"]


def multitile_sizes(op: Operation, dimension: int, target_size: int, divisor: int = 1) -> tuple[Index, Index, Index]:
    """Returns sizes a < b, multiples of `divisor`, and the point where tiles of a give way to tiles of b.

    No tile is larger than `target_size`: that point is the end where b would be. The loop's length must be a multiple
    of `divisor`, and not 0. LinalgError, with the operation's place, if it is known to be another, for a loop that is
    not there, and for sizes below 1.
    """
    root = as_tilable(op)
    index = IndexBuilder(Builder.before(op))
    extents = root.extents(index)
    if not 0 <= dimension < len(extents) or divisor < 1 or target_size < divisor:
        raise root.error(f"has no tiles of {target_size} by {divisor} along loop {dimension} of {len(extents)}")
    length = extents[dimension]
    if length == 0:
        raise root.error(f"has no tiles along loop {dimension}, which has no iterations")
    if isinstance(length, int) and length % divisor:
        raise LinalgError(f"cannot compute multi-tile sizes: {divisor} does not divide {length}", op.location)
    units = index.apply(dim(0).floordiv(divisor), (length,))
    count = index.apply(dim(0).ceildiv(target_size // divisor), (units,))
    low = index.apply(floordiv(dim(0), symbol(0)), (units,), (count,))
    larger = index.apply(dim(0) - product(dim(1), symbol(0)), (units, low), (count,))
    split = index.multiply(index.multiply(low, divisor), index.subtract(count, larger))
    return index.multiply(low, divisor), index.apply((dim(0) + 1) * divisor, (low,)), split
