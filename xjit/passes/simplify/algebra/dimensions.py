"""Dimensions: which ones a reshape keeps, and permutations."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DimensionsAttributes


def dimensions_of(instruction: HloInstruction) -> tuple[int, ...]:
    """The dimensions attribute of a broadcast, transpose, reverse or reduce."""
    return instruction.attributes_as(DimensionsAttributes).dimensions


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes one."""
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


Group = tuple[tuple[int, ...], tuple[int, ...]]


def reshape_groups(before: Sequence[int], after: Sequence[int]) -> list[Group]:
    """Returns the finest groups of dimensions with as many elements before as after a reshape, ones left out.

    No dimension may be empty.
    """
    left = [d for d, n in enumerate(before) if n != 1]
    right = [d for d, n in enumerate(after) if n != 1]
    groups: list[Group] = []
    while left:
        a, b = [left.pop(0)], [right.pop(0)]
        m, n = before[a[0]], after[b[0]]
        while m != n:
            if m < n:
                a.append(left.pop(0))
                m *= before[a[-1]]
            else:
                b.append(right.pop(0))
                n *= after[b[-1]]
        groups.append((tuple(a), tuple(b)))
    return groups


def kept_dimensions(before: Sequence[int], after: Sequence[int]) -> dict[int, int]:
    """Returns the dimensions above size 1 that a reshape leaves as they are, with their new numbers."""
    return {a[0]: b[0] for a, b in reshape_groups(before, after) if len(a) == len(b) == 1}
