"""`PartitionedHlo`: the part of a value that one device holds, and giving it another sharding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.annotations.device_sharding import DeviceSharding
from xjit.hlo.diagnostics import HloVerifyError
from xjit.passes.sharding.spmd.builder import SpmdBuilder
from xjit.passes.sharding.spmd.placement import Groups, Placement, grouped, keep_tiles, place, sharding_of


@dataclass(frozen=True, slots=True)
class PartitionedHlo:
    """One array: `local` is this device's tile of an array of `shape`, which is split by `sharding`.

    What lies in a tile beyond the array is anything: who mixes elements along that dimension masks it.
    """

    local: HloInstruction
    shape: Shape
    sharding: DeviceSharding

    def placement(self, devices: int) -> Placement:
        """Which device holds what."""
        return place(self.shape.dimensions, self.sharding, devices)


def reshard(part: PartitionedHlo, target: DeviceSharding, b: SpmdBuilder) -> PartitionedHlo:
    """Returns the same array under another sharding, by the least communication that one of the forms below is.

    A device takes a part of what it holds; devices pass their tiles on; tiles move from one dimension to another;
    dimensions are gathered, and parts taken of the result. Several steps follow one another. An array is brought into
    a sharding only once.
    HloVerifyError between what each device has of its own and what they share.
    """
    if not part.shape.is_array or part.sharding == target:
        return PartitionedHlo(part.local, part.shape, target)
    known = b.spmd.moved.get((part.local, target))
    if known is None:
        known = b.spmd.moved[part.local, target] = _moved(part, target, b)
    return PartitionedHlo(known, part.shape, target)


def _moved(part: PartitionedHlo, target: DeviceSharding, b: SpmdBuilder) -> HloInstruction:
    have, want = part.placement(b.spmd.devices), place(part.shape.dimensions, target, b.spmd.devices)
    if have.subgroup.any() and not np.array_equal(have.subgroup, want.subgroup):
        raise HloVerifyError(
            f"an array of sharding {{{part.sharding}}} is used as one of {{{target}}}: that needs a custom-call "
            "SPMDFullToShardShape or SPMDShardToFullShape",
            part.local.span,
        )
    for form in (_sliced, _passed_on, _partly_gathered):
        local = form(part.local, have, want, b)
        if local is not None:
            return local
    for step in (_exchanged, _lined_up, _gathered):
        nearer = step(part, have, want, b)
        if nearer is not None:
            return reshard(nearer, target, b).local
    raise AssertionError("dimensions that differ can be gathered")


def _sliced(local: HloInstruction, have: Placement, want: Placement, b: SpmdBuilder) -> HloInstruction | None:
    """What the target asks for lies within each device's own tile: no communication."""
    ends = np.minimum(want.starts + np.array(want.local, np.int64), np.array(want.sizes, np.int64))
    needs = (ends > want.starts).all(axis=1, keepdims=True)  # some have nothing but what is beyond the array
    inside = (want.starts >= have.starts) & (ends <= have.starts + np.array(have.local, np.int64))
    if not (inside | ~needs).all():
        return None
    return b.slice_at(local, np.where(needs, want.starts - have.starts, 0), want.local)


def _passed_on(local: HloInstruction, have: Placement, want: Placement, b: SpmdBuilder) -> HloInstruction | None:
    """The same tiles on other devices: each is sent by the one holder of it whose turn it is."""
    if have.tiles != want.tiles:
        return None
    holders = {(key, rank): p for p, (key, rank) in enumerate(zip(have.keys, have.ranks))}
    sources = [holders.get((key, rank)) for key, rank in zip(want.keys, want.ranks)]
    if None in sources:
        return None
    return b.collective_permute(local, [(s, t) for t, s in enumerate(sources) if s is not None])


def _exchanged(part: PartitionedHlo, have: Placement, want: Placement, b: SpmdBuilder) -> PartitionedHlo | None:
    """Tiles of a dimension that has too many become tiles of one that has too few: an all-to-all."""
    found = [
        (count, i, j)
        for i, j in itertools.permutations(range(len(have.tiles)), 2)
        if (count := math.gcd(_ratio(have, want, i), _ratio(want, have, j))) > 1 and _can_exchange(have, i, j, count)
    ]
    if not found:
        return None
    count, i, j = max(found, key=lambda item: item[0])
    coordinates = have.coordinates.copy()
    coordinates[:, i] = have.coordinates[:, i] // count
    coordinates[:, j] = have.coordinates[:, j] * count + have.coordinates[:, i] % count
    sharding = sharding_of(coordinates, have.subgroup)
    if sharding is None:
        return None
    keys = [(*key[:i], key[i] // count, *key[i + 1 :], rank) for key, rank in zip(have.keys, have.ranks)]
    groups = grouped(keys, [(int(c),) for c in have.coordinates[:, i]])
    sizes = place(have.sizes, sharding, have.devices).local
    return PartitionedHlo(_all_to_all(part.local, groups, (i, j), sizes, b), part.shape, sharding)


def _ratio(many: Placement, few: Placement, dimension: int) -> int:
    """How many tiles of a dimension become one; 1 unless that is a whole number."""
    count, rest = divmod(many.tiles[dimension], few.tiles[dimension])
    return 1 if rest else count


def _can_exchange(have: Placement, i: int, j: int, count: int) -> bool:
    """Whether tiles merge, and are cut, without a rest: only at the end of a whole dimension there may be one."""
    merges = have.tiles[i] == count or not have.is_uneven(i)
    return merges and (have.tiles[j] == 1 or not (have.is_uneven(j) or have.local[j] % count))


def _all_to_all(
    local: HloInstruction, groups: Groups, dimensions: tuple[int, int], sizes: Sequence[int], b: SpmdBuilder
) -> HloInstruction:
    """The tile of some sizes after the members of groups have exchanged pieces: of `j`, which merge along `i`."""
    i, j = dimensions
    count, before = len(groups[0]), local.shape.dimensions
    short = count * sizes[j] - before[j]
    padded = b.pad(local, [(0, short if d == j else 0) for d in range(len(before))], 0) if short else local
    cut = [*before[:j], count, sizes[j], *before[j + 1 :]]
    split = b.all_to_all(b.reshape(padded, cut), groups, j)
    axis, rest = (i if i < j else i + 1), [d for d in range(len(cut)) if d != j]
    rest.insert(rest.index(axis), j)
    merged = [count * before[i] if d == i else n for d, n in enumerate(sizes)]
    return _cut(b.reshape(b.transpose(split, rest), merged), sizes, b)


def _lined_up(part: PartitionedHlo, have: Placement, want: Placement, b: SpmdBuilder) -> PartitionedHlo | None:
    """The same tiles, on devices that have neighbours of them in the end: what is gathered afterwards is less."""
    differ = [d for d in range(len(have.tiles)) if have.tiles[d] != want.tiles[d]]
    if len(differ) != 1:
        return None
    d = differ[0]
    if have.is_uneven(d) and want.tiles[d] > 1:
        return None
    merged = _ratio(have, want, d)
    coordinates = want.coordinates.copy()
    coordinates[:, d] = want.coordinates[:, d] * merged + np.array(want.ranks) % merged
    sharding = sharding_of(coordinates, have.subgroup)
    if merged == 1 or sharding is None or sharding == part.sharding:
        return None
    local = _passed_on(part.local, have, place(have.sizes, sharding, have.devices), b)
    return None if local is None else PartitionedHlo(local, part.shape, sharding)


def _partly_gathered(local: HloInstruction, have: Placement, want: Placement, b: SpmdBuilder) -> HloInstruction | None:
    """One dimension has fewer tiles, each of them some whole tiles of before: an all-gather of these."""
    differ = [d for d in range(len(have.tiles)) if have.tiles[d] != want.tiles[d]]
    others = [d for d in range(len(have.tiles)) if d not in differ]
    if len(differ) != 1 or (have.coordinates[:, others] != want.coordinates[:, others]).any():
        return None
    d = differ[0]
    merged, rest = divmod(have.tiles[d], want.tiles[d])
    fits = want.tiles[d] == 1 or merged * have.local[d] == want.local[d]
    if rest or not fits or (have.coordinates[:, d] // merged != want.coordinates[:, d]).any():
        return None
    keys = [(*key, int(w), rank) for key, w, rank in zip(_without(have, d), want.coordinates[:, d], have.ranks)]
    groups = grouped(keys, [(int(c),) for c in have.coordinates[:, d]])
    return _cut(b.all_gather(local, groups, d), want.local, b)


def _without(have: Placement, dimension: int) -> list[tuple[int, ...]]:
    return [(*key[:dimension], *key[dimension + 1 :]) for key in have.keys]


def _gathered(part: PartitionedHlo, have: Placement, want: Placement, b: SpmdBuilder) -> PartitionedHlo:
    """The array with fewer tiles: only of those dimensions whose tiles are the target's, if there are others."""
    split = [d for d, count in enumerate(have.tiles) if count > 1]
    differ = [d for d in split if not np.array_equal(have.coordinates[:, d], want.coordinates[:, d])]
    local, sizes = part.local, list(have.local)
    for d in differ or split:
        sizes[d] = have.sizes[d]
        local = _cut(b.all_gather(local, have.groups_along([d]), d), sizes, b)
    return PartitionedHlo(
        local, part.shape, keep_tiles(part.sharding, [d for d in split if d not in (differ or split)])
    )


def _cut(local: HloInstruction, sizes: Sequence[int], b: SpmdBuilder) -> HloInstruction:
    """The leading elements, without what was beyond the array."""
    if local.shape.dimensions == tuple(sizes):
        return local
    return b.slice(local, [0] * len(sizes), sizes)
