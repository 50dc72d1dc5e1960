"""What a leaf of a while's result is computed from: the closure of what its body reads.

After no iteration a leaf is the operand's; after one more it is computed from what the body reads, and that from what
the body reads of it, and so on. How often the body runs is what the condition reads. The closure is found by adding
maps until nothing changes. A set that keeps growing is widened, result by result, to everything in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from xjit.affine import UNKNOWN, IndexingMap
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.indexing.map_sets import MapSet, add, full_map, hull, reads_everything, without_runtime_values
from xjit.indexing.structure import Read, element_of_leaf, leaf_shape, same
from xjit.ops.indexing.maps import scalar_map

MAX_LOOP_MAPS: Final = 4

LeafReads = Callable[[int], Sequence[Read]]
Compose = Callable[[IndexingMap, IndexingMap], "tuple[IndexingMap, bool]"]


def while_reads(
    instruction: HloInstruction, leaf: int, body: LeafReads, condition: Sequence[Read], compose: Compose
) -> list[Read]:
    """Returns the reads of leaf `leaf` of a while.

    `body` says what a leaf of the body's result reads of the body's parameter, `condition` what the condition reads
    of its own, both as `iterated` gives them; both parameters have the while's shape.
    """
    start = leaf_shape(instruction.shape, leaf)
    if not start.is_array:
        return []
    if _hands_on(instruction, leaf):
        return [Read(0, leaf, same(start))]
    closure = _Closure(instruction, leaf, body, compose)
    for read in condition:
        for m in read.maps:
            closure.extend(read.leaf, scalar_map(start.dimensions), m)
    closure.close()
    return [Read(0, n, tuple(maps), is_exact=False) for n, maps in sorted(closure.sets.items()) if maps]


def iterated(found: Sequence[Read]) -> tuple[Read, ...]:
    """Returns reads in the form in which they are composed over and over: few maps, no run-time variables.

    A run-time value of a body is another one in every iteration.
    """
    reads: list[Read] = []
    for read in found:
        maps: MapSet = {}
        for m in read.maps:
            add(maps, without_runtime_values(m), limit=MAX_LOOP_MAPS)
        reads.append(Read(read.operand, read.leaf, tuple(maps), read.is_exact))
    return tuple(reads)


def _hands_on(instruction: HloInstruction, leaf: int) -> bool:
    """Whether the body's result has its parameter's leaf in the same place."""
    root, shape = instruction.while_body.root_instruction, instruction.shape
    if root.opcode != "tuple" or not shape.is_tuple:
        return False
    element = element_of_leaf(shape, leaf)
    operand = root.operand(element)
    if operand.opcode != "get-tuple-element" or operand.operand(0).opcode != "parameter":
        return False
    return operand.attributes_as(at.GetTupleElementAttributes).index == element


def leaves_of_body(instruction: HloInstruction, leaf: int, body: LeafReads, condition: Sequence[Read]) -> Iterator[int]:
    """Yields the leaves of the body's result that the reads of leaf `leaf` of a while ask for, each before its reads
    are asked for here.
    """
    if not leaf_shape(instruction.shape, leaf).is_array or _hands_on(instruction, leaf):
        return
    pending = [leaf, *[r.leaf for r in condition]]
    seen = set(pending)
    while pending:
        reached = pending.pop()
        yield reached
        for read in body(reached):
            if read.leaf not in seen:
                seen.add(read.leaf)
                pending.append(read.leaf)


class _Closure:
    """Maps from an index of the leaf asked for to every leaf of the operand, growing."""

    def __init__(self, instruction: HloInstruction, leaf: int, body: LeafReads, compose: Compose) -> None:
        self.shape = instruction.shape
        self.start = leaf_shape(instruction.shape, leaf).dimensions
        self.body = body
        self.compose = compose
        self.sets: dict[int, MapSet] = {leaf: dict.fromkeys(same(leaf_shape(instruction.shape, leaf)))}
        self.everything: set[int] = set()  # leaves whose set is all there is to read
        self.widened: set[int] = set()  # leaves whose set is one map, which only grows
        self.pending: dict[int, None] = {leaf: None}

    def close(self) -> None:
        """Adds what the body reads of what is there, until nothing changes."""
        while self.pending:
            leaf = next(iter(self.pending))
            del self.pending[leaf]
            for read in self.body(leaf):
                for first in list(self.sets[leaf]):
                    for second in read.maps:
                        self.extend(read.leaf, first, second)

    def extend(self, leaf: int, first: IndexingMap, second: IndexingMap) -> None:
        """Adds second(first) to the set of `leaf`."""
        if leaf in self.everything:
            return
        composed, _ = self.compose(first, second)
        maps = self.sets.setdefault(leaf, {})
        before = tuple(maps)
        if leaf in self.widened:
            self._grow(leaf, composed)
        elif not add(maps, composed, limit=MAX_LOOP_MAPS):
            self.widened.add(leaf)
        if tuple(self.sets[leaf]) != before:
            self.pending[leaf] = None

    def _grow(self, leaf: int, new: IndexingMap) -> None:
        """Makes the one map of a leaf take in another one. What is no range of everything becomes one at once."""
        (known,) = self.sets[leaf]
        if known.is_unknown or new.is_known_empty or new == known:
            return
        grown = UNKNOWN if new.is_unknown else hull([known, new])
        if grown != known and not grown.is_unknown:
            grown = full_map(grown, self.start, leaf_shape(self.shape, leaf).dimensions)
        self.sets[leaf] = {grown: None}
        if reads_everything(self.sets[leaf], leaf_shape(self.shape, leaf)):
            self.everything.add(leaf)
