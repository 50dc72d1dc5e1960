"""Composition of indexing maps through graphs and called computations, within budgets.

Every (instruction, leaf) between a root and the parameters holds an ordered set of simplified maps. Sets, variables per
map and compositions per analysis are limited; beyond a limit maps are widened (see `map_sets`), which stays sound.
Called computations are summarised once per result leaf, callees before callers, without recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from xjit.affine import UNKNOWN, AffineExprKind, IndexingBudgetError, IndexingMap, compose_indexing_maps
from xjit.dataclass import dataclass
from xjit.hlo import attributes as at
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing.loops import iterated, leaves_of_body, while_reads
from xjit.indexing.map_sets import MAX_MAPS, MapSet, add, add_all, box_map, finished, reads_everything
from xjit.indexing.structure import CALLS, COMPOSED, Read, argument_read, leaf_count, leaf_shape, reads, same
from xjit.ops.indexing.maps import Maps, invert_relation, scalar_map

MAX_VARIABLES: Final = 48
MAX_COMPOSITIONS: Final = 1000
LARGE: Final = 1000  # instructions; sets are smaller and compositions fewer in a larger graph
MAX_MAPS_IF_LARGE: Final = 4
MAX_COMPOSITIONS_IF_LARGE: Final = 100

Place: TypeAlias = "tuple[HloInstruction, int]"
Summary: TypeAlias = "tuple[Read, ...]"  # operand: the parameter's number
Key: TypeAlias = "tuple[HloComputation, int]"


@dataclass(frozen=True, slots=True)
class _Missing:
    """In the place of reads: a leaf of a called computation has to be summarised first."""

    key: Key


class _Sources:
    """The parameter leaves that places are computed from, whatever the way: what an UNKNOWN place makes UNKNOWN."""

    def __init__(self) -> None:
        self._masks: dict[Place, int] = {}
        self._parameters: list[Place] = []

    def of(self, places: list[Place]) -> list[Place]:
        """Returns the parameter leaves behind any of the places."""
        mask = 0
        for place in places:
            mask |= self._mask(place)
        return [p for bit, p in enumerate(self._parameters) if mask >> bit & 1]

    def _mask(self, wanted: Place) -> int:
        stack = [wanted]
        while stack:
            place = stack[-1]
            if place in self._masks:
                stack.pop()
                continue
            below = self._below(place)
            missing = [p for p in below if p not in self._masks]
            if missing:
                stack += missing
                continue
            mask = 0
            for p in below:
                mask |= self._masks[p]
            if place[0].opcode == "parameter":
                mask = 1 << len(self._parameters)
                self._parameters.append(place)
            self._masks[place] = mask
        return self._masks[wanted]

    def _below(self, place: Place) -> list[Place]:
        instruction, leaf = place
        if instruction.opcode in COMPOSED and instruction.opcode not in CALLS:
            return [(instruction.operand(r.operand), r.leaf) for r in reads(instruction, leaf)]
        return [
            (o, n) for o in instruction.operands for n in range(leaf_count(o.shape)) if leaf_shape(o.shape, n).is_array
        ]


class Composer:
    """Composes maps under budgets and remembers summaries; one per analysis (or per module, to share the work)."""

    def __init__(self, max_compositions: int = MAX_COMPOSITIONS) -> None:
        self.max_compositions = max_compositions
        self.left = max_compositions
        self._summaries: dict[Key, Summary] = {}
        self._of_loops: dict[Key, Summary] = {}
        self._reads: dict[Place, list[Read]] = {}
        self._sources = _Sources()
        self._positions: dict[HloInstruction, dict[HloInstruction, int]] = {}
        self._composed: dict[tuple[IndexingMap, IndexingMap], tuple[IndexingMap, bool]] = {}

    def refill(self) -> None:
        """Gives the next query its own budget of compositions."""
        self.left = self.max_compositions
        self._composed.clear()

    def compose(self, first: IndexingMap, second: IndexingMap) -> tuple[IndexingMap, bool]:
        """Returns `second` after `first`, simplified, and whether it is exactly that or, beyond a budget, more."""
        if first.is_unknown or second.is_unknown:
            return UNKNOWN, True
        if first.is_identity and not first.num_symbols and first.dim_bounds == second.dim_bounds:
            return second, True
        if second.is_identity and len(first.results) == second.num_dims and _covers(second, first):
            return first, True
        key = (first, second)
        found = self._composed.get(key)
        if found is None:
            found = self._composed[key] = self._compose(first, second)
        return found

    def _compose(self, first: IndexingMap, second: IndexingMap) -> tuple[IndexingMap, bool]:
        variables = first.num_dims + first.num_symbols + second.num_symbols
        if self.left > 0 and variables <= MAX_VARIABLES:
            self.left -= 1
            try:
                composed = compose_indexing_maps(first, second).simplify()
                if not composed.is_unknown:
                    return composed, True
            except IndexingBudgetError:
                pass
        return box_map(first, second), False

    def compose_all(self, first: Iterable[IndexingMap], second: Maps, into: MapSet, limit: int = MAX_MAPS) -> bool:
        """Adds every second(first) to a set; returns whether that is exactly what the set says now."""
        exact = True
        for a in first:
            for b in second:
                composed, is_exact = self.compose(a, b)
                exact = add(into, composed, limit=limit) and is_exact and exact
        return exact

    # -- what an instruction reads

    def reads(self, instruction: HloInstruction, leaf: int) -> list[Read]:
        """Returns what a leaf of the instruction reads, called computations included."""
        if instruction.opcode not in CALLS:
            return reads(instruction, leaf)
        while isinstance(found := self._call_reads(instruction, leaf), _Missing):
            self._summarize(found.key)
        return found

    def _call_reads(self, instruction: HloInstruction, leaf: int) -> list[Read] | _Missing:
        for key in self._needed(instruction, leaf):
            if key not in self._summaries:
                return _Missing(key)
        opcode = instruction.opcode
        if opcode == "while":
            return self._while_reads(instruction, leaf)
        if opcode == "conditional":
            return self._conditional_reads(instruction, leaf)
        if opcode == "async-start" and leaf < leaf_count(arguments := instruction.shape.tuple_shapes[0]):
            return argument_read(instruction, leaf, arguments)
        return [read for key in self._needed(instruction, leaf) for read in self._summaries[key]]

    def _needed(self, instruction: HloInstruction, leaf: int) -> Iterator[Key]:
        """Yields the summaries that the reads of a call are made of. Those behind a missing one are not known yet."""
        called = instruction.called_computations
        if instruction.opcode == "while":
            condition, body = (instruction.while_condition, 0), instruction.while_body
            yield condition
            reached = leaves_of_body(instruction, leaf, lambda n: self._iterated((body, n)), self._iterated(condition))
            yield from ((body, n) for n in reached)
        elif instruction.opcode == "async-start":
            arguments, results = map(leaf_count, instruction.shape.tuple_shapes[:2])
            if arguments <= leaf < arguments + results:
                yield called[0], leaf - arguments
        else:
            yield from ((c, leaf) for c in (called if instruction.opcode == "conditional" else called[:1]))

    def _conditional_reads(self, instruction: HloInstruction, leaf: int) -> list[Read]:
        """Any branch may run; operand 0 chooses."""
        out = leaf_shape(instruction.shape, leaf)
        found = [Read(0, 0, (scalar_map(out.dimensions),))] if out.is_array else []
        for number, branch in enumerate(instruction.called_computations):
            found += [Read(number + 1, r.leaf, r.maps, is_exact=False) for r in self._summaries[branch, leaf]]
        return found

    def _while_reads(self, instruction: HloInstruction, leaf: int) -> list[Read]:
        body = instruction.while_body
        condition = self._iterated((instruction.while_condition, 0))
        return while_reads(instruction, leaf, lambda n: self._iterated((body, n)), condition, self.compose)

    def _iterated(self, key: Key) -> Summary:
        found = self._of_loops.get(key)
        if found is None:
            found = self._of_loops[key] = iterated(self._summaries[key])
        return found

    def _summarize(self, wanted: Key) -> None:
        stack = [wanted]
        while stack:
            computation, leaf = stack[-1]
            if stack[-1] in self._summaries:
                stack.pop()
                continue
            found = self._summary_of(computation, leaf)
            if isinstance(found, _Missing):
                stack.append(found.key)
            else:
                self._summaries[stack.pop()] = found

    def _summary_of(self, computation: HloComputation, leaf: int) -> Summary | _Missing:
        unknown: list[Place] = []
        rough: set[Place] = set()
        sets = self._walk(computation.root_instruction, leaf, self._nested_reads, frozenset(), unknown, rough)
        if isinstance(sets, _Missing):
            return sets
        for place in self._sources.of(unknown):
            sets[place] = {UNKNOWN: None}
        found: list[Read] = []
        for (instruction, place), maps in sets.items():
            if instruction.opcode == "parameter":
                known = tuple(finished(maps))
                if known:
                    number = instruction.attributes_as(at.ParameterAttributes).parameter_number
                    found.append(Read(number, place, known, (instruction, place) not in rough))
        return tuple(sorted(found, key=lambda r: (r.operand, r.leaf)))

    def _nested_reads(self, instruction: HloInstruction, leaf: int) -> list[Read] | _Missing:
        known = self._reads.get((instruction, leaf))
        if known is not None:
            return known
        found = self._call_reads(instruction, leaf) if instruction.opcode in CALLS else reads(instruction, leaf)
        if not isinstance(found, _Missing):
            self._reads[instruction, leaf] = found
        return found

    # -- walks

    def walk(
        self,
        root: HloInstruction,
        leaf: int,
        stop: frozenset[HloInstruction] = frozenset(),
        rough: set[Place] | None = None,
    ) -> dict[Place, MapSet]:
        """Returns, for everything that a leaf of `root` is computed from, the maps from the leaf's index to it.

        Instructions in `stop` are not looked into. Into `rough` go places of which less may be read than the maps say.
        """
        sets = self._walk(root, leaf, self.reads, stop, None, rough if rough is not None else set())
        assert not isinstance(sets, _Missing)  # `reads` makes the summaries that it needs
        return sets

    def _walk(
        self,
        root: HloInstruction,
        leaf: int,
        reads_of: Callable[[HloInstruction, int], list[Read] | _Missing],
        stop: frozenset[HloInstruction],
        unknown: list[Place] | None,
        rough: set[Place],
    ) -> dict[Place, MapSet] | _Missing:
        """As `walk`. If there is a list `unknown`, nor are places looked into that are reached in unknown ways: they
        are put there, and all that they are computed from is UNKNOWN.
        """
        sets: dict[Place, MapSet] = {(root, leaf): dict.fromkeys(same(leaf_shape(root.shape, leaf)))}
        everything: set[Place] = set()  # read whole: nothing can be added
        positions = self._positions_of(root)
        limit = MAX_MAPS
        if len(positions) > LARGE:
            limit = MAX_MAPS_IF_LARGE
            self.left = min(self.left, MAX_COMPOSITIONS_IF_LARGE)
        queue: list[tuple[int, int, Place]] = [(-positions[root], 0, (root, leaf))]  # users before operands
        while queue:
            _, _, (instruction, place) = heappop(queue)
            if instruction in stop:
                continue
            maps = sets[instruction, place]
            if unknown is not None and UNKNOWN in maps:
                unknown.append((instruction, place))
                continue
            found = reads_of(instruction, place)
            if isinstance(found, _Missing):
                return found
            for read in found:
                operand = instruction.operand(read.operand)
                target = (operand, read.leaf)
                if target in everything:
                    continue
                if target not in sets:
                    sets[target] = {}
                    heappush(queue, (-positions[operand], len(sets), target))
                if _is_identity_on(read.maps, instruction, place):
                    exact = add_all(maps, sets[target], limit)
                else:
                    exact = self.compose_all(maps, read.maps, sets[target], limit)
                if not (exact and read.is_exact) or (instruction, place) in rough:
                    rough.add(target)
                if not exact and reads_everything(sets[target], leaf_shape(operand.shape, read.leaf)):
                    everything.add(target)
        return sets

    def _positions_of(self, root: HloInstruction) -> dict[HloInstruction, int]:
        """Places in an order of operands before users; kept for the roots of computations that were summarised."""
        found = self._positions.get(root)
        if found is None:
            found = {instruction: n for n, instruction in enumerate(reversed(users_first(root)))}
            if root.is_root():
                self._positions[root] = found
        return found

    def walk_forward(
        self, source: HloInstruction, leaf: int, allowed: frozenset[HloInstruction]
    ) -> dict[Place, MapSet]:
        """Returns, for everything in `allowed` computed from a leaf of `source`, the maps from the leaf's index to it.

        `allowed` comes in any order; it contains what lies between source and the roots.
        """
        sets: dict[Place, MapSet] = {(source, leaf): dict.fromkeys(same(leaf_shape(source.shape, leaf)))}
        for instruction in operands_first(source, allowed):
            for out in range(leaf_count(instruction.shape)):
                for read in self.reads(instruction, out):
                    maps = sets.get((instruction.operand(read.operand), read.leaf))
                    if maps:
                        shape = leaf_shape(instruction.operand(read.operand).shape, read.leaf)
                        back = tuple([invert_relation(m, shape.dimensions) for m in read.maps])
                        self.compose_all(maps, back, sets.setdefault((instruction, out), {}))
        return sets


def _is_identity_on(maps: Maps, instruction: HloInstruction, leaf: int) -> bool:
    """Whether `maps` is the identity alone, on all of a leaf: what is composed with it stays as it is."""
    if len(maps) != 1 or not maps[0].is_identity or maps[0].num_symbols:
        return False
    sizes = leaf_shape(instruction.shape, leaf).dimensions
    return all(b.lower == 0 and b.upper == n - 1 for b, n in zip(maps[0].dim_bounds, sizes, strict=True))


def _covers(second: IndexingMap, first: IndexingMap) -> bool:
    """Whether every result of `first` surely is in the box of `second`: only the simplest cases."""
    for e, bounds in zip(first.results, second.dim_bounds, strict=True):
        if e.is_constant:
            inside = e.value in bounds
        elif e.kind is AffineExprKind.DIM or e.kind is AffineExprKind.SYMBOL:
            own = (first.dim_bounds if e.kind is AffineExprKind.DIM else first.symbol_bounds)[e.position]
            inside = bounds.lower <= own.lower and own.upper <= bounds.upper
        else:
            inside = False
        if not inside:
            return False
    return True


def users_first(root: HloInstruction) -> list[HloInstruction]:
    """Returns everything the root is computed from, users before operands."""
    order: list[HloInstruction] = []
    state: dict[HloInstruction, bool] = {}
    stack = [root]
    while stack:
        instruction = stack[-1]
        if instruction not in state:
            state[instruction] = False
            stack.extend(o for o in instruction.operands if o not in state)
            continue
        stack.pop()
        if not state[instruction]:
            state[instruction] = True
            order.append(instruction)
    return order[::-1]


def operands_first(source: HloInstruction, allowed: frozenset[HloInstruction]) -> list[HloInstruction]:
    """Returns what is computed from `source` within `allowed`, operands before users, without the source."""
    order: list[HloInstruction] = []
    state: dict[HloInstruction, bool] = {}
    stack = [source]
    while stack:
        instruction = stack[-1]
        if instruction not in state:
            state[instruction] = False
            stack.extend(u for u in instruction.users if u in allowed and u not in state)
            continue
        stack.pop()
        if not state[instruction]:
            state[instruction] = True
            order.append(instruction)
    return order[::-1][1:]
