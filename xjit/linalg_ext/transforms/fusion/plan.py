"""Which producers are computed inside a loop nest, and which tile of each: from the roots up, each producer once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import LinalgError, Operation, OpResult, Value
from xjit.linalg_ext.structured import REDUCTION
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile, united
from xjit.linalg_ext.transforms.tilable import StructuredTilable, Tilable, find_tilable

__all__ = ["FusionPlan", "Planned", "Request", "cuts_reduction"]


@dataclass(eq=False)
class Planned:
    """An operation of the nest: its domain and the tiles of its operands.

    `fused`: the operands whose producers are computed in the nest, too. `accumulates`: iterations of the nest add up in
    its inits, which start once, outside. `rescaled_by`: a producer by whose last result the inits are scaled before.
    """

    tilable: Tilable
    domain: Tile
    operand_tiles: list[Tile | None]
    is_root: bool = False
    accumulates: bool = False
    rescaled_by: Planned | None = None
    fused: set[int] = field(default_factory=set)

    @property
    def op(self) -> Operation:
        return self.tilable.op

    def accumulates_in(self, result: OpResult) -> bool:
        """Whether iterations add up in a result."""
        return self.accumulates and self.tilable.reads_init(result.index)


@dataclass(frozen=True, eq=False)
class Request:
    """A consumer in the nest needs a tile of result `number` of a producer, as its operand `operand`."""

    consumer: Planned
    operand: int
    number: int
    tile: Tile


def cuts_reduction(index: IndexBuilder, tilable: Tilable, domain: Tile) -> bool:
    """Whether a domain has only a part of the steps of a reduction."""
    whole = tilable.whole_loops(index, domain)
    return any(kind == REDUCTION and not all_of for kind, all_of in zip(tilable.iterator_types, whole))


class FusionPlan:
    """The operations of a nest. A producer is planned when all its consumers in the nest are: consumers stand behind it
    in their block, so producers are taken from the last one to the first, and each gets the least tile that has what
    all its consumers need.

    `accept(tilable, domain, requests)` tells whether a producer whose reduction is cut may add up in the loops, and its
    consumer be rescaled; if not, the producer stays outside.
    """

    def __init__(
        self,
        index: IndexBuilder,
        stop: Collection[Operation] = (),
        accept: Callable[[StructuredTilable, Tile, list[Request]], bool] = lambda tilable, domain, requests: False,
    ) -> None:
        self.index = index
        self.planned: dict[Operation, Planned] = {}
        self._stop = frozenset(stop)
        self._accept = accept
        self._requests: dict[Operation, list[Request]] = {}
        self._queue: list[tuple[int, int, Operation]] = []
        self._position: dict[Operation, int] = {}

    def add_roots(self, roots: Iterable[tuple[Tilable, Tile]]) -> list[Planned]:
        """Plans roots of one block with their domains, and all producers that can be fused with them."""
        result: list[Planned] = []
        for tilable, domain in roots:
            planned = Planned(tilable, domain, tilable.operand_tiles(self.index, domain), is_root=True)
            planned.accumulates = cuts_reduction(self.index, tilable, domain)
            if not self._position:
                assert tilable.op.block is not None
                self._position = {op: i for i, op in enumerate(tilable.op.block.operations)}
            self.planned[tilable.op] = planned
            result.append(planned)
        for planned in result:
            self._ask_producers(planned)
        while self._queue:
            self._plan_producer(heappop(self._queue)[2])
        return result

    def _ask_producers(self, planned: Planned) -> None:
        outside = {planned.tilable.init_of(r) for r in planned.op.results if planned.accumulates_in(r)}
        for number, (value, tile) in enumerate(zip(planned.op.operands, planned.operand_tiles)):
            producer = value.defining_op
            if tile is None or producer is None or producer not in self._position or producer in self._stop:
                continue
            if number in outside or producer in self.planned:
                continue
            assert isinstance(value, OpResult)
            requests = self._requests.setdefault(producer, [])
            if not requests:
                heappush(self._queue, (-self._position[producer], len(self._requests), producer))
            requests.append(Request(planned, number, value.index, tile))

    def _plan_producer(self, op: Operation) -> None:
        requests = self._requests[op]
        tilable = find_tilable(op)
        if tilable is None:
            return
        domain = self._domain(tilable, requests)
        if domain is None:
            return
        cut = self._is_cut(tilable, domain)
        if cut and not (isinstance(tilable, StructuredTilable) and self._accept(tilable, domain, requests)):
            return
        try:
            tiles = tilable.operand_tiles(self.index, domain)
        except LinalgError:
            return  # it stays outside, and consumers take slices of it
        planned = self.planned[op] = Planned(tilable, domain, tiles, accumulates=cut)
        for request in requests:
            request.consumer.fused.add(request.operand)
            if cut:
                request.consumer.rescaled_by = planned
        self._ask_producers(planned)

    def _domain(self, tilable: Tilable, requests: Sequence[Request]) -> Tile | None:
        domains: list[Tile] = []
        for request in requests:
            domain = tilable.domain_of(self.index, request.number, request.tile)
            if domain is None:
                return None
            domains.append(domain)
        return united(self.index, domains)

    def _is_cut(self, tilable: Tilable, domain: Tile) -> bool:
        """Whether the domain has only a part of a loop that must be whole."""
        whole, kinds = tilable.whole_loops(self.index, domain), tilable.iterator_types
        return any(not w and (kinds[i] == REDUCTION or i in tilable.fixed_loops) for i, w in enumerate(whole))

    def in_order_of_use(self, roots: Sequence[Planned]) -> Iterator[Planned]:
        """Yields the roots, and producers when all their consumers have been there, by their operands."""
        uses: Counter[Operation] = Counter()
        for planned in self.planned.values():
            uses.update(self._producers(planned))
        queue = deque(planned for planned in roots if not uses[planned.op])
        while queue:
            planned = queue.popleft()
            yield planned
            for producer in self._producers(planned):
                uses[producer] -= 1
                if not uses[producer]:
                    queue.append(self.planned[producer])

    def _producers(self, planned: Planned) -> list[Operation]:
        sources = [planned.op.operands[number].defining_op for number in sorted(planned.fused)]
        return [op for op in sources if op is not None]

    def producer_of(self, value: Value) -> Planned:
        """Returns the planned operation that defines a fused operand."""
        assert value.defining_op is not None
        return self.planned[value.defining_op]

    def inits_in_nest(self, planned: Planned, result: OpResult) -> Iterator[OpResult]:
        """Yields the fused results that a result is written into, one after the other."""
        while (init := planned.tilable.init_of(result)) is not None and init in planned.fused:
            value = planned.op.operands[init]
            if not isinstance(value, OpResult):
                return
            yield value
            planned, result = self.producer_of(value), value

    def final_init(self, planned: Planned, result: OpResult) -> Value | None:
        """Returns the tensor that a result is written into, followed through producers of the nest; None if none is."""
        last = [result, *self.inits_in_nest(planned, result)][-1]
        init = self.planned[last.owner].tilable.init_of(last)
        if init is not None:
            return last.owner.operands[init]
        return None if last is result else last
