"""What a fusion would cost: how large the tiles of its operations are, and how much goes through memory.

Tiles are followed from the root to the producers by their accesses, as a fusion does it, but only their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import prod
from typing import TypeAlias

from xjit.affine.expr import AffineExprKind
from xjit.affine.interval import Interval
from xjit.affine.walks import interval_of
from xjit.linalg_ext.ir import FloatType, IntegerType, LinalgError, Operation, OpResult, Value, element_type
from xjit.linalg_ext.structured import Access, StructuredOp, as_structured, shape_of
from xjit.linalg_ext.transforms.reshapes import groups_of

__all__ = ["Estimate", "FusionEstimator", "static_loops"]

_REPEATED = 1.25
"""By how much more than once a producer may be computed to count as computed once: tiles at borders overlap."""

_MOST_OPS = 64
"""How many producers a nest may have. With the limit, all nests of a program together take time in proportion to it."""

MIN_TILE = 16
"""Iterations that the lanes of vectors share out. Loops that are shorter are those of batches and windows."""


@dataclass(frozen=True, slots=True)
class _Extent:
    """How many elements of a dimension one tile has, and which loops of the root move it."""

    size: int
    loops: frozenset[int] = frozenset()


_Tile: TypeAlias = tuple[_Extent, ...]


@dataclass(slots=True)
class Estimate:
    """Costs of one nest of loops over tiles of these `sizes`.

    `short`: loops that were cut too short for vectors. `tile_bytes`: of all tiles of one iteration. `traffic`: bytes
    that the nest loads and stores. `outside`: producers with reductions that the nest would compute again and again.
    `beyond`: producers that would be more than a nest may have.
    """

    sizes: Sequence[int]
    short: int
    tile_bytes: int = 0
    traffic: int = 0
    outside: list[Operation] = field(default_factory=list[Operation])
    beyond: list[Operation] = field(default_factory=list[Operation])

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """What makes one estimate better than another, the less the better. It grows with every producer."""
        return len(self.outside), self.short, self.traffic, self.tile_bytes


def static_loops(op: StructuredOp) -> list[int]:
    """Returns the lengths of the loops; LinalgError if one is known at run time only."""
    ranges = [n for n in op.loop_ranges if n is not None]
    if len(ranges) != len(op.loop_ranges):
        raise LinalgError(f"'{op.operation.name}' op: no tile sizes for loops of unknown length", op.operation.location)
    return ranges


class FusionEstimator:
    """Tells the costs of `root` with all its producers in loops over tiles, while nobody changes the program.

    Errors: LinalgError for dynamic sizes.
    """

    def __init__(self, root: StructuredOp) -> None:
        self.root = root
        self.ranges = static_loops(root)
        self._views: dict[Operation, tuple[StructuredOp, list[int]] | None] = {}

    def view(self, op: Operation) -> tuple[StructuredOp, list[int]] | None:
        """Returns a structured op with the lengths of its loops, None for another one."""
        if op not in self._views:
            view = as_structured(op)
            self._views[op] = None if view is None else (view, static_loops(view))
        return self._views[op]

    def of(self, tile_sizes: Sequence[int], bound: Estimate | None = None) -> Estimate:
        """Returns the costs for the size of a tile in each loop.

        With a `bound`, no producers are followed any more once the costs rank behind that: they are just too large.
        """
        return _Walk(self, tile_sizes).run(bound)


class _Walk:
    """From the root up: a producer is visited when all its consumers in the nest were."""

    def __init__(self, estimator: FusionEstimator, tile_sizes: Sequence[int]) -> None:
        self._estimator = estimator
        self._root = estimator.root
        self._sizes = tile_sizes
        self._counts = [-(-n // max(size, 1)) for n, size in zip(estimator.ranges, tile_sizes)]
        self._needed: dict[Operation, list[tuple[int, _Tile]]] = {}
        self._queue: list[tuple[int, Operation]] = []  # the last one in the block first
        short = sum(size < MIN_TILE <= n for size, n in zip(tile_sizes, estimator.ranges))
        self._found = Estimate(list(tile_sizes), short)

    def run(self, bound: Estimate | None) -> Estimate:
        loops = [
            _Extent(size, frozenset((i,)) if count > 1 else frozenset[int]())
            for i, (size, count) in enumerate(zip(self._sizes, self._counts))
        ]
        self._ask(self._root, loops)
        while self._queue and (bound is None or self._found.rank <= bound.rank):
            op = heappop(self._queue)[1]
            self._visit(op, self._needed[op])
        return self._found

    def _visit(self, op: Operation, requests: list[tuple[int, _Tile]]) -> None:
        found = self._estimator.view(op)
        if found is None:
            value = op.operands[0]
            self._need(value, _source_tile(op, _largest([tile for _, tile in requests])))
            return
        view, ranges = found
        loops = [_loop(view, loop, size, requests) for loop, size in enumerate(ranges)]
        done = prod(e.size for e in loops) * prod(self._counts)
        if view.reduction_loops and done > _REPEATED * prod(ranges):
            self._found.outside.append(op)
            for number, tile in requests:
                self._load(op.results[number], tile)
            return
        self._ask(view, loops)

    def _ask(self, view: StructuredOp, loops: Sequence[_Extent]) -> None:
        for value, access in zip(view.operands, view.accesses):
            self._need(value, _operand_tile(value, access, loops))

    def _need(self, value: Value, tile: _Tile) -> None:
        self._found.tile_bytes += _bytes(value, tile)
        producer, block = value.defining_op, self._root.operation.block
        if producer is None or block is None or producer.block is not block:
            self._load(value, tile)
        elif producer.name in _SOURCES or self._estimator.view(producer) is not None:
            assert isinstance(value, OpResult)
            if producer not in self._needed:
                if len(self._needed) == _MOST_OPS:
                    self._found.beyond.append(producer)
                    self._load(value, tile)
                    return
                heappush(self._queue, (-block.position(producer), producer))
            self._needed.setdefault(producer, []).append((value.index, tile))
        elif producer.name != "tensor.empty":
            self._load(value, tile)

    def _load(self, value: Value, tile: _Tile) -> None:
        """A tile is loaded again when one of its loops goes on, or one around these."""
        last = max((loop for e in tile for loop in e.loops), default=-1)
        self._found.traffic += prod(self._counts[: last + 1]) * _bytes(value, tile)


def _loop(view: StructuredOp, loop: int, size: int, requests: Sequence[tuple[int, _Tile]]) -> _Extent:
    """Returns the part of a producer's loop that its consumers need: all of it where no result's index is the loop."""
    found: list[_Extent] = []
    for number, tile in requests:
        for e, extent in zip(view.accesses[len(view.inputs) + number], tile):
            if e is not None and e.kind is AffineExprKind.DIM and e.position == loop:
                found.append(extent)
    return _largest([(extent,) for extent in found])[0] if found else _Extent(size)


def _largest(tiles: Sequence[_Tile]) -> _Tile:
    return tuple(
        _Extent(max(e.size for e in along), frozenset[int]().union(*(e.loops for e in along))) for along in zip(*tiles)
    )


def _operand_tile(value: Value, access: Access, loops: Sequence[_Extent]) -> _Tile:
    """Returns what an operand's index takes on over the loops' tile."""
    found: list[_Extent] = []
    for index, size in zip(access, shape_of(value)):
        assert size is not None
        if index is None:
            found.append(_Extent(size))
        elif index.kind is AffineExprKind.DIM:
            loop = loops[index.position]
            found.append(_Extent(min(size, loop.size), loop.loops))
        else:
            spans = [Interval(0, e.size - 1) for e in loops]
            moved = frozenset[int]().union(*(loops[d].loops for d in index.dims))
            found.append(_Extent(min(size, interval_of(index, spans).size), moved))
    return tuple(found)


def _collapsed(op: Operation, tile: _Tile) -> Iterator[_Extent]:
    """The tile of what is collapsed: inner dimensions first."""
    shape = shape_of(op.operands[0])
    for group, extent in zip(groups_of(op), tile):
        rest, part = extent.size, dict[int, _Extent]()
        for d in reversed(group):
            size = min(shape[d] or 1, rest)
            part[d], rest = _Extent(size, extent.loops), -(-rest // size)
        yield from (part[d] for d in group)


def _expanded(op: Operation, tile: _Tile) -> Iterator[_Extent]:
    for group in groups_of(op):
        parts = [tile[d] for d in group]
        yield _Extent(prod(e.size for e in parts), frozenset[int]().union(*(e.loops for e in parts)))


def _same(op: Operation, tile: _Tile) -> Iterator[_Extent]:
    yield from (_Extent(min(e.size, n or 1), e.loops) for e, n in zip(tile, shape_of(op.operands[0])))


_SOURCES = {
    "tensor.collapse_shape": _collapsed,
    "tensor.expand_shape": _expanded,
    "tensor.extract_slice": _same,
    "tensor.pad": _same,
}
"""Which tile of its source an operation needs for a tile of its result, about."""


def _source_tile(op: Operation, tile: _Tile) -> _Tile:
    return tuple(_SOURCES[op.name](op, tile))


def _bytes(value: Value, tile: _Tile) -> int:
    kind = element_type(value.type)
    bits = kind.width if isinstance(kind, FloatType | IntegerType) else 64
    return prod(e.size for e in tile) * max(1, bits // 8)
