"""How the lanes of accumulators become one value: the part of a reduction that differs between targets.

On a CPU lanes are those of one register. Elsewhere they can be threads, which shuffle or go through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xjit.emitters.elemental import ComplexValue, RegisterValue
from xjit.emitters.nested import width_of
from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value

Values = Sequence[RegisterValue]
CombinePair = Callable[[Values, Values], list[RegisterValue]]


class CombineLanes(Protocol):
    """Combines sets of accumulators, a vector for each value of a set, into one scalar for each: always the same tree.

    `combine` takes two sets; the first is the one of lower chains, or lanes.
    """

    def __call__(self, builder: IRBuilder, sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
        """Emits the tree and returns one set of scalars."""
        ...


def combine_in_register(builder: IRBuilder, sets: Sequence[Values], combine: CombinePair) -> list[RegisterValue]:
    """Halves the number of sets until one is left, then its vectors until they have one lane."""
    left = [list(values) for values in sets]
    while len(left) > 1:
        half = len(left) // 2
        left = [combine(a, b) for a, b in zip(left[:half], left[half:], strict=True)]
    values = left[0]
    width = width_of(values[0])
    while width > 1:
        width //= 2
        low, high = ([_lanes_of(v, first, width, builder) for v in values] for first in (0, width))
        values = combine(low, high)
    return values


def _lanes_of(value: RegisterValue, first: int, count: int, builder: IRBuilder) -> RegisterValue:
    if count == 1:
        return _map_parts(value, lambda v: builder.extract_element(v, first))
    return _map_parts(value, lambda v: builder.shuffle_vector(v, None, list(range(first, first + count))))


def _map_parts(value: RegisterValue, function: Callable[[Value], Value]) -> RegisterValue:
    if isinstance(value, ComplexValue):
        return ComplexValue(function(value.real), function(value.imag))
    return function(value)
