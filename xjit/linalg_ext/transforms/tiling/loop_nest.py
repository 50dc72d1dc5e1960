"""A nest of `scf.for` that is built from the inside: first the body, then its iteration arguments, last the loops."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import gcd

from xjit.affine import dim, symbol
from xjit.linalg_ext.ir import Block, BlockArgument, Builder, IndexType, Operation, Region, Value
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.rollback import taking_back
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.tilable import Tilable

__all__ = ["LoopNest", "checked_interchange", "checked_sizes", "cut_by_sizes", "size_of_tile"]


class LoopNest:
    """Loops to `bounds[i][0]` in steps of `bounds[i][1]`, from zero if not from `lower[i]`, where `outer` emits.

    `index` emits into the innermost body. `anchor` is the operation that the loops are made for, or before.
    """

    def __init__(
        self, anchor: Operation, bounds: Sequence[tuple[Index, Index]], outer: IndexBuilder, lower: Sequence[Index] = ()
    ) -> None:
        self.anchor = anchor
        self.bounds = list(bounds)
        self.lower = [*lower, *[0] * (len(bounds) - len(lower))]
        self.outer = outer
        self._blocks = [Block([IndexType()]) for _ in bounds]
        self.index = IndexBuilder(Builder(self._blocks[-1], location=anchor.location), outer)
        self._inits: list[Value] = []
        for iv, low, (_, step) in zip(self.ivs, self.lower, bounds):
            self.index.set_divisor(iv, step if isinstance(step, int) and low == 0 else 1)

    @property
    def builder(self) -> Builder:
        """Emits into the innermost body."""
        return self.index.builder

    @property
    def ivs(self) -> list[BlockArgument]:
        """The loop variables, outermost first."""
        return [block.arguments[0] for block in self._blocks]

    def runs_once(self, iv: BlockArgument) -> bool:
        """Whether the loop of a variable is known to have one iteration at most."""
        upper, step = self.bounds[self.ivs.index(iv)]
        return isinstance(upper, int) and isinstance(step, int) and upper <= step

    def guarded(self) -> AbstractContextManager[None]:
        """Takes back what has been emitted if the loops cannot be finished."""
        return taking_back(self.outer, self._blocks)

    def add_iter_args(self, inits: Sequence[Value]) -> list[BlockArgument]:
        """Carries values through the loops; returns what they are in the innermost body."""
        self._inits += inits
        for block in self._blocks:
            for value in inits:
                block.add_argument(value.type)
        return self._blocks[-1].arguments[len(self._blocks[-1].arguments) - len(inits) :]

    def close(self, yielded: Sequence[Value]) -> list[Operation]:
        """Ends the body with the next values of what is carried; returns the loops, outermost first."""
        value = self.outer.value
        bounds = [(value(low), value(high), value(step)) for low, (high, step) in zip(self.lower, self.bounds)]
        loops: list[Operation] = []
        values = list(yielded)
        for level in reversed(range(len(self._blocks))):
            Builder(self._blocks[level], location=self.anchor.location).create("scf.yield", values)
            inits = self._blocks[level - 1].arguments[1:] if level else self._inits
            outside = Builder(self._blocks[level - 1]) if level else self.outer.builder
            loop = outside.create(
                "scf.for",
                (*bounds[level], *inits),
                [value.type for value in inits],
                {},
                [Region([self._blocks[level]])],
                self.anchor.location,
            )
            loops.insert(0, loop)
            values = list(loop.results)
        return loops


def checked_sizes(root: Tilable, tile_sizes: Sequence[Index]) -> list[Index]:
    """Returns one tile size per loop, 0 for loops that are not cut; LinalgError for sizes that do not fit."""
    loops = len(root.iterator_types)
    if len(tile_sizes) > loops:
        raise root.error(f"has {loops} loops, found {len(tile_sizes)} tile sizes")
    for loop, size in enumerate(tile_sizes):
        if isinstance(size, int) and size < 0:
            raise root.error(f"expected tile sizes that are not negative, found {size}")
        if size != 0 and loop in root.fixed_loops:
            raise root.error(f"cannot be tiled: unsupported tiling dim at loop {loop}: {root.fixed_loops[loop]}")
    return [*tile_sizes, *[0] * (loops - len(tile_sizes))]


def checked_interchange(root: Tilable, interchange: Sequence[int], count: int) -> list[int]:
    """Returns the loops in the order of the nest; an order of some loops leaves the others behind them."""
    given = list(interchange[:count])
    order = [*given, *(i for i in range(count) if i not in given)]
    if sorted(order) != list(range(count)):
        raise root.error(f"expects interchange to be a permutation, found {list(interchange)} for {count} loops")
    return order


def size_of_tile(nest: LoopNest, offset: Index, size: Index, extent: Index) -> Index:
    """Returns the number of elements from `offset` on, at most `size`, for offsets that are multiples of the size."""
    if isinstance(size, int) and isinstance(extent, int) and (extent % size == 0 or size == 1):
        return size
    result = nest.index.minimum((symbol(0), symbol(1) - dim(0)), (offset,), (size, extent))
    if isinstance(size, int) and isinstance(extent, int):
        nest.index.set_divisor(result, gcd(size, extent))
    return result


def cut_by_sizes(
    root: Tilable, anchor: Operation, tile_sizes: Sequence[Index], interchange: Sequence[int]
) -> tuple[LoopNest, Tile] | None:
    """Returns loops over the tiles of an operation and its domain in them; None if nothing is cut."""
    sizes = checked_sizes(root, tile_sizes)
    order = [loop for loop in checked_interchange(root, interchange, len(sizes)) if sizes[loop] != 0]
    if not order:
        return None
    outer = IndexBuilder(Builder.before(anchor))
    extents = root.extents(outer)
    nest = LoopNest(anchor, [(extents[loop], sizes[loop]) for loop in order], outer)
    dimensions: list[tuple[Index, Index, bool]] = [(0, extent, True) for extent in extents]
    for loop, iv in zip(order, nest.ivs):
        extent, size = extents[loop], sizes[loop]
        if not (isinstance(size, int) and isinstance(extent, int) and size >= extent):  # else one iteration
            dimensions[loop] = iv, size_of_tile(nest, iv, size, extent), True
    return nest, Tile.of(dimensions)
