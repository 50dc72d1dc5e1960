"""The loop of a reduction over its lanes, and how these become one value: the part that differs between targets.

On a CPU lanes are those of one register. Elsewhere they can be threads, which shuffle or go through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xjit.emitters.elemental import ComplexValue, RegisterValue
from xjit.emitters.loops.loop_nest import LoopBody, LoopNest
from xjit.emitters.nested import width_of
from xjit.emitters.schedule.statements import Lanes, Role
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

Values = Sequence[RegisterValue]
CombinePair = Callable[[Values, Values], list[RegisterValue]]


class LaneLoops(Protocol):
    """How the lanes of a reduction are done."""

    def first(self, lanes: Lanes, chain: int) -> Value:
        """Emits the number of the element that the first lane of a chain starts with, of those that `first` counts."""
        ...

    def loop(self, lanes: Lanes, body: LoopBody, accumulators: Sequence[Value]) -> list[Value]:
        """Emits the loop over the lanes' variable; returns the accumulators after it.

        `accumulators` are the sets of the chains, one after the other; `body` gets one set.
        """
        ...

    def combine(self, lanes: Lanes, sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
        """Emits the tree that makes one set of sets of accumulators, always the same one.

        `combine` takes two sets; the first is the one of lower chains, or lanes.
        """
        ...


class RegisterLanes:
    """Lanes of one register."""

    def __init__(self, nest: LoopNest) -> None:
        self._nest = nest

    def first(self, lanes: Lanes, chain: int) -> Value:
        """See LaneLoops."""
        return const_int(I64, chain * lanes.width)

    def loop(self, lanes: Lanes, body: LoopBody, accumulators: Sequence[Value]) -> list[Value]:
        """See LaneLoops."""
        assert lanes.role is Role.VECTOR, f"lanes of role {lanes.role.value}: this target has none"
        return self._nest.interleaved_vector_loop(lanes.variable, lanes.width, lanes.chains, body, accumulators)

    def combine(self, lanes: Lanes, sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
        """See LaneLoops."""
        return combine_in_register(self._nest.builder, sets, combine)


def combine_in_register(builder: IRBuilder, sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
    """Halves the number of sets until one is left, then its vectors until they have one lane."""
    values = combine_sets(sets, combine)
    width = width_of(values[0])
    while width > 1:
        width //= 2
        low, high = ([_lanes_of(v, first, width, builder) for v in values] for first in (0, width))
        values = combine(low, high)
    return values


def combine_rows(builder: IRBuilder, rows: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
    """Does for as many rows as they have lanes what `combine_in_register` does for one: lane r is the result of row r.

    Each round combines the halves of all rows and puts those of two registers into one.
    """
    left, width = [list(values) for values in rows], len(rows)
    half = width // 2
    while half:
        low = [lane for lane in range(2 * width) if not lane & half]
        high = [lane + half for lane in low]
        left = [
            combine(*([_shuffled(x, y, lanes, builder) for x, y in zip(a, b, strict=True)] for lanes in (low, high)))
            for a, b in zip(left[::2], left[1::2], strict=True)
        ]
        half //= 2
    return left[0]


def _shuffled(a: RegisterValue, b: RegisterValue, lanes: list[int], builder: IRBuilder) -> RegisterValue:
    if isinstance(a, ComplexValue):
        assert isinstance(b, ComplexValue)
        parts = ((a.real, b.real), (a.imag, b.imag))
        return ComplexValue(*(builder.shuffle_vector(x, y, lanes) for x, y in parts))
    assert not isinstance(b, ComplexValue)
    return builder.shuffle_vector(a, b, lanes)


def combine_sets(sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
    """Halves the number of sets (a power of two) until one is left."""
    left = [list(values) for values in sets]
    while len(left) > 1:
        half = len(left) // 2
        left = [combine(a, b) for a, b in zip(left[:half], left[half:], strict=True)]
    return left[0]


def _lanes_of(value: RegisterValue, first: int, count: int, builder: IRBuilder) -> RegisterValue:
    if count == 1:
        return _map_parts(value, lambda v: builder.extract_element(v, first))
    return _map_parts(value, lambda v: builder.shuffle_vector(v, None, list(range(first, first + count))))


def _map_parts(value: RegisterValue, function: Callable[[Value], Value]) -> RegisterValue:
    if isinstance(value, ComplexValue):
        return ComplexValue(function(value.real), function(value.imag))
    return function(value)
