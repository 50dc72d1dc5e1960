"""Shardings as grids of devices: text, reshapes, moves and merges, checked element by element."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from xjit.hlo.annotations.device_sharding import MANUAL, REPLICATED, DeviceSharding, read_sharding, tiled
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.annotations.sharding_algebra import is_more_specific, merge, move, refines, reshape

TEXTS = {
    "replicated": "replicated",
    "manual": "manual",
    "maximal device=3": "maximal device=3",
    "devices=[2,1]0,1": "devices=[2,1]<=[2]",
    "devices=[2,1]1,0": "devices=[2,1]1,0",
    "devices=[4,2]<=[2,4]T(1,0)": "devices=[4,2]<=[2,4]T(1,0)",
    "devices=[2,2,2]<=[2,2,2]T(2,0,1)": "devices=[2,2,2]<=[4,2]T(1,0)",
    "devices=[2,2]<=[4] last_tile_dim_replicate": "devices=[2,2]<=[4] last_tile_dim_replicate",
    "devices=[1,2]<=[2] last_tile_dim_replicate": "replicated",
    "devices=[1,2]0,1 last_tile_dims={manual}": "manual",
    "devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}": (
        "devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}"
    ),
    'devices=[2]0,1 shard_as 7 metadata={op_name="a"}': 'devices=[2]<=[2] shard_as 7 metadata={op_name="a"}',
    "unknown shard_like 0": "unknown shard_like 0",
}


@pytest.mark.parametrize("text", TEXTS)
def test_text(text: str) -> None:
    sharding = read_sharding(HloSharding(text))
    assert str(sharding) == TEXTS[text]
    assert read_sharding(HloSharding(str(sharding))) == sharding


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "opaque"),
        ("devices=[2,2]<=[4] last_tile_dims={odd}", "opaque"),
        ("devices=[0]", "opaque"),
        ("devices=[4]0,1", "malformed"),
        ("devices=[2]<=[3]", "malformed"),
        ("devices=[2]<=[2]T(1)", "opaque"),
    ],
)
def test_what_is_no_sharding(text: str, kind: str) -> None:
    assert read_sharding(HloSharding(text)).kind == kind


def _elements(sharding: DeviceSharding, sizes: tuple[int, ...], device: int) -> set[int]:
    """Row-major numbers of the elements that a device holds."""
    everything = np.arange(math.prod(sizes)).reshape(sizes)
    if not sharding.is_tiled:
        return set(everything.ravel().tolist())
    place = np.argwhere(sharding.grid == device)[0][: sharding.rank]
    for d, (size, tiles) in enumerate(zip(sizes, sharding.data_tiles, strict=True)):
        step = -(-size // tiles)
        everything = everything.take(range(min(size, place[d] * step), min(size, (place[d] + 1) * step)), axis=d)
    return set(everything.ravel().tolist())


def _random(rng: random.Random, sizes: tuple[int, ...], devices: int = 8) -> DeviceSharding:
    tiles: list[int] = []
    left = devices
    for size in sizes:
        tiles.append(rng.choice([t for t in (1, 2, 4, 8) if left % t == 0 and size % t == 0]))
        left //= tiles[-1]
    numbers = np.array(rng.sample(range(devices), devices)) if rng.random() < 0.5 else np.arange(devices)
    return tiled(numbers.reshape(*tiles, left), ("replicated",))


def _holds_no_less(new: DeviceSharding, sizes: tuple[int, ...], old: DeviceSharding, before: tuple[int, ...]) -> bool:
    return all(_elements(new, sizes, d) >= _elements(old, before, d) for d in range(8))


def test_each_device_keeps_its_elements_in_a_reshape() -> None:
    rng = random.Random(1)
    shapes = [(8, 6), (48,), (2, 4, 6), (4, 12), (16, 3), (1, 8, 1, 6), (2, 2, 2, 2, 3), (6, 8)]
    kept = 0
    for old, new in itertools.permutations(shapes, 2):
        for _ in range(10):
            sharding = _random(rng, old)
            result = reshape(sharding, old, new)
            assert _holds_no_less(result, new, sharding, old), (str(sharding), old, new, str(result))
            kept += result.is_tiled
    assert kept > 200


def test_each_device_keeps_its_elements_in_a_transposition() -> None:
    rng = random.Random(2)
    for _ in range(50):
        sharding = _random(rng, (8, 4, 2))
        moved = move(sharding, (0, 1, 2), (2, 0, 1), (2, 8, 4))
        for d in range(8):
            held = {tuple(np.unravel_index(e, (2, 8, 4))) for e in _elements(moved, (2, 8, 4), d)}
            before = {tuple(np.unravel_index(e, (8, 4, 2))) for e in _elements(sharding, (8, 4, 2), d)}
            assert held == {(k, i, j) for i, j, k in before}


def test_a_merge_holds_what_both_hold() -> None:
    rng = random.Random(3)
    merged = 0
    for _ in range(600):
        a, b = _random(rng, (8, 8)), _random(rng, (8, 8))
        both = merge(a, b)
        if both is not None:
            merged += 1
            assert refines(both, a) and refines(both, b)
            for d in range(8):
                assert _elements(both, (8, 8), d) == _elements(a, (8, 8), d) & _elements(b, (8, 8), d)
    assert merged > 50


def test_what_cannot_be_merged() -> None:
    rows, columns = (read_sharding(HloSharding(t)) for t in ("devices=[4,1]<=[4]", "devices=[1,4]<=[4]"))
    reverse = read_sharding(HloSharding("devices=[4,1]3,2,1,0"))
    others = read_sharding(HloSharding("devices=[4,1]4,5,6,7"))
    assert merge(rows, columns) is merge(rows, reverse) is merge(rows, others) is merge(rows, REPLICATED) is None
    assert merge(others, others) == others


def test_which_says_more() -> None:
    two = read_sharding(HloSharding("devices=[2,2]<=[4] last_tile_dim_replicate"))
    four = read_sharding(HloSharding("devices=[4]<=[4]"))
    assert is_more_specific(four, two) and is_more_specific(two, REPLICATED) and is_more_specific(MANUAL, REPLICATED)
    assert not is_more_specific(two, four) and not is_more_specific(four, four)
    assert not is_more_specific(REPLICATED, two) and not is_more_specific(MANUAL, four)
