"""What a fusion would cost: how large the tiles of its operations are, and how much goes through memory.

Tiles are followed from the root to the producers by their accesses, as a fusion does it, but only their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from heapq import heappop, heappush
from math import prod

from xjit.dataclass import dataclass
from xjit.linalg_ext.automatic.nodes import Node, OperandFacts, Tile, node_of
from xjit.linalg_ext.ir import Operation
from xjit.linalg_ext.structured import StructuredOp

__all__ = ["Estimate", "FusionEstimator"]

_REPEATED = 1.25
"""By how much more than once a producer may be computed to count as computed once: tiles at borders overlap."""

_MOST_OPS = 64
"""How many producers a nest may have. With the limit, all nests of a program together take time in proportion to it."""

MIN_TILE = 16
"""Iterations that the lanes of vectors share out. Loops that are shorter are those of batches and windows."""


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


class FusionEstimator:
    """Tells the costs of `root` with all its producers in loops over tiles, while nobody changes the program.

    `asked`: the producers that estimates have looked for so far, each with its place in the block.
    Errors: LinalgError for dynamic sizes.
    """

    def __init__(self, root: StructuredOp) -> None:
        self.root = root
        self.asked: dict[Operation, int] = {}
        self._nodes: dict[Operation, Node] = {}
        ranges = self.node(root.operation).ranges
        assert ranges is not None
        self.ranges: Sequence[int] = ranges

    def node(self, op: Operation) -> Node:
        """Returns the facts of an operation that estimates follow."""
        found = self._nodes.get(op)
        if found is None:
            found = self._nodes[op] = node_of(op, self.root.operation.block)
        return found

    def of(self, tile_sizes: Sequence[int], bound: Estimate | None = None) -> Estimate:
        """Returns the costs for the size of a tile in each loop.

        With a `bound`, no producers are followed any more once the costs rank behind that: they are just too large.
        """
        return _Walk(self, tile_sizes).run(bound)


class _Walk:
    """From the root up: a producer is visited when all its consumers in the nest were."""

    def __init__(self, estimator: FusionEstimator, tile_sizes: Sequence[int]) -> None:
        self._estimator = estimator
        self._sizes = tile_sizes
        self._counts = [-(-n // max(size, 1)) for n, size in zip(estimator.ranges, tile_sizes)]
        self._iterations = prod(self._counts)
        self._needed: dict[Operation, list[tuple[int, Tile]]] = {}
        self._queue: list[tuple[int, Operation]] = []  # the last one in the block first
        short = sum(size < MIN_TILE <= n for size, n in zip(tile_sizes, estimator.ranges))
        self._found = Estimate(list(tile_sizes), short)

    def run(self, bound: Estimate | None) -> Estimate:
        loops = tuple(
            (size, 1 << i if count > 1 else 0) for i, (size, count) in enumerate(zip(self._sizes, self._counts))
        )
        self._ask(self._estimator.node(self._estimator.root.operation), loops)
        while self._queue and (bound is None or self._found.rank <= bound.rank):
            op = heappop(self._queue)[1]
            self._visit(op, self._needed[op])
        return self._found

    def _visit(self, op: Operation, requests: list[tuple[int, Tile]]) -> None:
        node = self._estimator.node(op)
        if node.ranges is None:
            self._need(node.operands[0], node.source_tile([tile for _, tile in requests]))
            return
        loops = node.loops_for(requests)
        if node.reduces and prod([size for size, _ in loops]) * self._iterations > _REPEATED * node.trips:
            self._found.outside.append(op)
            for number, tile in requests:
                self._load(tile, node.result_bytes[number])
            return
        self._ask(node, loops)

    def _ask(self, node: Node, loops: Tile) -> None:
        for operand in node.operands:
            self._need(operand, operand.tile(loops))

    def _need(self, operand: OperandFacts, tile: Tile) -> None:
        self._found.tile_bytes += operand.bytes * prod([size for size, _ in tile])
        producer = operand.producer
        if producer is None:
            if operand.is_loaded:
                self._load(tile, operand.bytes)
            return
        requests = self._needed.get(producer)
        if requests is None:
            self._estimator.asked[producer] = operand.position
            if len(self._needed) == _MOST_OPS:
                self._found.beyond.append(producer)
                self._load(tile, operand.bytes)
                return
            requests = self._needed[producer] = []
            heappush(self._queue, (-operand.position, producer))
        requests.append((operand.result, tile))

    def _load(self, tile: Tile, bytes_each: int) -> None:
        """A tile is loaded again when one of its loops goes on, or one around these."""
        moved = 0
        for _, loops in tile:
            moved |= loops
        elements = prod([size for size, _ in tile])
        self._found.traffic += prod(self._counts[: moved.bit_length()]) * elements * bytes_each
