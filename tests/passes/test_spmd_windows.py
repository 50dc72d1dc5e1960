"""Windows over dimensions that are split: what tiles exchange, and random windows beside whole arrays."""

from __future__ import annotations

import random

import pytest

from tests.support.spmd import exchanges, partition

MOST = "most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) } "
WINDOWED = (
    "ENTRY e {{ x = f32[2,{n},3] parameter(0), sharding={{{tiles}}} z = f32[] constant(-inf), sharding={{replicated}} "
    "ROOT r = f32[2,{m},3] reduce-window(x, z), window={{size=1x{size}x1 stride=1x{stride}x1 pad=0_0x{pad}x0_0}}, "
    "to_apply=most, sharding={{{tiles}}} }}"
)
CONVOLVED = (
    "ENTRY e {{ x = f32[2,{n},3] parameter(0), sharding={{{tiles}}} k = f32[{size},3,4] parameter(1), "
    "sharding={{replicated}} ROOT r = f32[2,{m},4] convolution(x, k), dim_labels=b0f_0io->b0f, "
    "window={{size={size} stride={stride} pad={pad}}}, sharding={{{tiles}}} }}"
)
LINES, MIXED = "devices=[1,4,1]<=[4]", "devices=[2,2,1]3,1,2,0"


@pytest.mark.parametrize("text", [WINDOWED, CONVOLVED], ids=["reduce-window", "convolution"])
@pytest.mark.parametrize(
    ("n", "m", "size", "stride", "pad", "tiles", "expected"),
    [
        (12, 12, 3, 1, "1_1", LINES, ["collective-permute", "collective-permute"]),
        (12, 12, 3, 1, "2_0", LINES, ["collective-permute"]),
        (11, 11, 4, 1, "1_2", LINES, ["collective-permute", "collective-permute"]),
        (12, 6, 3, 2, "1_0", MIXED, ["collective-permute"]),
        (12, 6, 2, 2, "0_0", MIXED, []),
        (16, 16, 7, 1, "6_0", LINES, ["collective-permute", "collective-permute"]),  # beyond the next tile
        (8, 8, 7, 1, "3_3", LINES, ["all-gather"]),  # as much as all tiles are
    ],
)
def test_windows_exchange_the_edges_of_tiles(
    text: str, n: int, m: int, size: int, stride: int, pad: str, tiles: str, expected: list[str]
) -> None:
    module = partition(MOST + text.format(n=n, m=m, size=size, stride=stride, pad=pad, tiles=tiles))
    assert exchanges(module) == expected, module


LINE = "sharding={devices=[4]<=[4]}"


@pytest.mark.parametrize(
    ("n", "instruction", "exchanged"),
    [
        (12, "f32[12] pad(x, v), padding=1_-1", 1),
        (12, "f32[12] pad(x, v), padding=2_-2", 1),
        (12, "f32[10] slice(x), slice={[2:12]}", 1),
        (16, "f32[16] pad(x, v), padding=6_-6", 2),
        (8, "f32[16] pad(x, v), padding=0_1_1", 0),
        (8, "f32[16] pad(x, v), padding=1_0_1", 0),
        (16, "f32[8] slice(x), slice={[0:16:2]}", 0),
        (16, "f32[8] slice(x), slice={[1:16:2]}", 0),
    ],
)
def test_slices_and_pads_exchange_what_moves_to_another_tile(n: int, instruction: str, exchanged: int) -> None:
    module = partition(
        f"ENTRY e {{ x = f32[{n}] parameter(0), {LINE} v = f32[] parameter(1), sharding={{replicated}} "
        f"ROOT r = {instruction}, {LINE} }}"
    )
    assert exchanges(module) == ["collective-permute"] * exchanged, module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k = f32[3,2,4] parameter(1) ROOT c = f32[2,16,4] convolution(x, k), window={size=3 pad=1_1}, feature_group_count=2", 2),
        ("k = f32[3,4,4] parameter(1) ROOT c = f32[1,16,4] convolution(x, k), window={size=3 pad=2_0}, batch_group_count=2", 1),
        ("k = f32[3,4,4] parameter(1) ROOT c = f32[2,32,4] convolution(x, k), window={size=3 pad=1_2 lhs_dilate=2}", 1),
        ("k = f32[3,4,4] parameter(1) ROOT c = f32[2,48,4] convolution(x, k), window={size=3 pad=2_2 lhs_dilate=3}", 0),
    ],
)  # fmt: skip
def test_grouped_and_dilated_convolutions_exchange_edges(text: str, expected: int) -> None:
    lines = "sharding={devices=[1,4,1]<=[4]}"
    text = text.replace("parameter(1)", "parameter(1), sharding={replicated}")
    module = partition(f"ENTRY e {{ x = f32[2,16,4] parameter(0), {lines} {text}, dim_labels=b0f_0io->b0f, {lines} }}")
    assert exchanges(module) == ["collective-permute"] * expected, module


def test_a_kernel_as_large_as_its_input_is_not_split() -> None:
    partition(
        "ENTRY e { x = f32[2,3,3] parameter(0), sharding={devices=[1,3,1]<=[3]} k = f32[3,3,4] parameter(1), "
        "sharding={replicated} ROOT r = f32[2,1,4] convolution(x, k), window={size=3 pad=-1_1}, "
        "dim_labels=b0f_0io->b0f, sharding={replicated} }",
        3,
    )


ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) } "
GE = "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE } "
LATEST = "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] constant(false) } "


@pytest.mark.parametrize("select", [GE, LATEST], ids=["largest", "latest"])
@pytest.mark.parametrize(
    ("n", "m", "window", "expected"),
    [
        (48, 24, "size=2 stride=2", (0, 0)),
        (48, 24, "size=3 stride=2 pad=0_1", (2, 2)),
        (48, 48, "size=3 pad=1_1", (2, 2)),
        (47, 23, "size=3 stride=2 pad=1_-1", (2, 2)),
        (50, 15, "size=4 stride=3 pad=-3_1", (2, 2)),
        (64, 29, "size=3 stride=2 rhs_dilate=3", (2, 2)),
        (69, 18, "size=1 stride=4 pad=-1_3", (2, 2)),  # a tile begins in front of the windows that reach it
    ],
)
def test_select_and_scatter_exchanges_the_edges_of_tiles(
    select: str, n: int, m: int, window: str, expected: tuple[int, int]
) -> None:
    module = partition(_selected(select, n, m, window))
    assert exchanges(module) == ["collective-permute"] * sum(expected), module


@pytest.mark.parametrize(
    ("n", "m", "window"),
    [
        (8, 8, "size=7 pad=3_3"),  # what tiles lack is nearly all there is
        (48, 2, "size=24 stride=24"),  # more tiles than windows
        (12, 3, "size=4 stride=4"),
    ],
)
def test_select_and_scatter_of_far_windows_gathers(n: int, m: int, window: str) -> None:
    module = partition(_selected(GE, n, m, window))
    assert "collective-permute" not in exchanges(module) and "all-gather" in exchanges(module), module


def _selected(select: str, n: int, m: int, window: str) -> str:
    split = "sharding={devices=[4]<=[4]}"
    return (
        f"{ADD}{select} ENTRY e {{ x = f32[{n}] parameter(0), {split} s = f32[{m}] parameter(1), {split} "
        "z = f32[] constant(0.25), sharding={replicated} "
        f"ROOT r = f32[{n}] select-and-scatter(x, s, z), window={{{window}}}, select=ge, scatter=add, {split} }}"
    )


def test_the_gradient_of_a_pool_split_both_ways() -> None:
    split = "sharding={devices=[1,2,2,1]<=[4]}"
    module = partition(
        f"{ADD}{GE} ENTRY e {{ x = f32[2,16,18,3] parameter(0), {split} s = f32[2,8,9,3] parameter(1), {split} "
        "z = f32[] constant(0), sharding={replicated} ROOT r = f32[2,16,18,3] select-and-scatter(x, s, z), "
        f"window={{size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}}, select=ge, scatter=add, {split} }}"
    )
    assert set(exchanges(module)) == {"collective-permute"}, module


@pytest.mark.parametrize(
    ("n", "m", "window"),
    [
        (12, 24, "size=3 pad=1_2 lhs_dilate=2"),  # tiles of 6: all begin at elements
        (20, 36, "size=4 pad=0_0 lhs_dilate=2"),  # tiles of 9: every other one begins between two
        (20, 28, "size=4 stride=2 pad=1_0 lhs_dilate=3"),
        (24, 67, "size=3 pad=2_-1 lhs_dilate=3 rhs_dilate=2"),
    ],
)
def test_tiles_that_begin_between_elements_exchange_edges(n: int, m: int, window: str) -> None:
    split = "sharding={devices=[1,4,1]<=[4]}"
    module = partition(
        f"ENTRY e {{ x = f32[2,{n},3] parameter(0), {split} k = f32[{window[5]},3,2] parameter(1), "
        f"sharding={{replicated}} ROOT c = f32[2,{m},2] convolution(x, k), window={{{window}}}, "
        f"dim_labels=b0f_0io->b0f, {split} }}"
    )
    assert set(exchanges(module)) == {"collective-permute"}, module


FOLD = "fold { a = f32[] parameter(0) b = f32[] parameter(1) h = f32[] abs(b) ROOT s = f32[] add(a, h) } "


@pytest.mark.parametrize(("body", "expected"), [(ADD, "collective-permute"), (FOLD, "all-gather")])
def test_what_is_not_in_the_array_is_not_reduced(body: str, expected: str) -> None:
    """An initial value counts once. What else makes no difference is known of known reducers only."""
    split, name = "sharding={devices=[4]<=[4]}", body.split()[0]
    module = partition(
        f"{body} ENTRY e {{ x = f32[16] parameter(0), {split} z = f32[] constant(3), sharding={{replicated}} "
        f"ROOT r = f32[16] reduce-window(x, z), window={{size=3 pad=1_1}}, to_apply={name}, {split} }}"
    )
    assert set(exchanges(module)) == {expected}, module


def _random_window(seed: int) -> None:
    """A window of random numbers over lines that are split over some devices: values only."""
    rng = random.Random(seed)
    devices, n, size, stride = rng.randint(2, 6), rng.randint(20, 70), rng.randint(1, 5), rng.randint(1, 4)
    dilation, base = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3, 4])
    low, high = rng.randint(-4, 6), rng.randint(-4, 6)
    scattered = rng.random() < 0.5
    base = 1 if scattered else base
    m = ((n - 1) * base + low + high - (size - 1) * dilation) // stride + 1
    split = f"sharding={{devices=[{devices}]<=[{devices}]}}"
    window = f"size={size} stride={stride} pad={low}_{high} lhs_dilate={base} rhs_dilate={dilation}"
    start = f"{ADD}{rng.choice([GE, LATEST])} ENTRY e {{ x = f32[{n}] parameter(0), {split} "
    if scattered:
        rest = (
            f"s = f32[{m}] parameter(1), {split} z = f32[] constant(0.25), sharding={{replicated}} "
            f"ROOT r = f32[{n}] select-and-scatter(x, s, z), window={{{window}}}, select=ge, scatter=add, {split} }}"
        )
    else:
        rest = (
            "z = f32[] constant(0.25), sharding={replicated} "
            f"ROOT r = f32[{m}] reduce-window(x, z), window={{{window}}}, to_apply=add, {split} }}"
        )
    partition(start + rest, devices)


@pytest.mark.parametrize("seed", range(40))
def test_random_windows(seed: int) -> None:
    _random_window(seed)


@pytest.mark.slow
def test_many_random_windows() -> None:
    for seed in range(40, 800):
        _random_window(seed)
