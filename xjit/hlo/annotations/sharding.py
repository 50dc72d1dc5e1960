"""Shardings and shapes: one sharding for all leaves, and whether a sharding survives a change of shape."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.types.shape import Shape


def sharding_of_leaves(shape: Shape, sharding: HloSharding) -> HloSharding:
    """Returns the sharding of a value of that shape all of whose arrays have the given one."""
    return HloSharding(elements=(sharding,) * shape.leaf_count) if shape.is_tuple else sharding


def sharding_of_elements(shape: Shape, sharding: HloSharding | None, keep: Iterable[int]) -> HloSharding | None:
    """Returns the sharding of a tuple of some elements of a tuple that has the given shape and sharding."""
    if sharding is None or len(sharding.elements) != shape.leaf_count:
        return None
    ends = list(accumulate((s.leaf_count for s in shape.tuple_shapes), initial=0))
    kept = tuple(leaf for i in keep for leaf in sharding.elements[ends[i] : ends[i + 1]])
    return HloSharding(elements=kept) if kept else None


def sharding_fits(sharding: HloSharding | None, old: Shape, new: Shape) -> bool:
    """Whether a sharding of an old shape says something about a new one: same tuple structure and ranks."""
    if sharding is None:
        return True
    before, after = list(old.leaves()), list(new.leaves())
    if [index for index, _ in before] != [index for index, _ in after]:
        return False
    return all(x.rank == y.rank for (_, x), (_, y) in zip(before, after)) or "devices=" not in str(sharding)
