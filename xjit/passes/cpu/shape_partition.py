"""Cutting arrays into parts of about the same size, along the dimensions that change slowest."""

from __future__ import annotations

import math

from xjit.hlo import Shape


def partition_counts(shape: Shape, target: int) -> list[int]:
    """Returns into how many pieces to cut the slowest dimensions of an array, for at most `target` parts in all.

    Dimensions are taken, slowest first, until they have `target` elements together. A dimension of size d in p pieces
    has pieces of d // p, the last one what remains.
    """
    sizes: list[int] = []
    for dimension in reversed(shape.minor_to_major):
        if math.prod(sizes) >= target:
            break
        sizes.append(shape.dimensions[dimension])
    target = min(target, math.prod(sizes))
    if not sizes or target <= 1:
        return [1] * len(sizes)
    each = _root(target, len(sizes))
    counts = [min(size, each) for size in sizes]
    for i, size in enumerate(sizes):
        others = math.prod(counts) // counts[i]
        counts[i] = max(counts[i], min(size, target // others))
    return counts


def _root(value: int, degree: int) -> int:
    """Returns the largest integer whose power is at most `value`."""
    root = round(value ** (1 / degree))
    while root**degree > value:
        root -= 1
    while (root + 1) ** degree <= value:
        root += 1
    return root
