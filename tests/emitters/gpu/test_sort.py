"""sort on GPUs: bitonic networks in shared and in global memory, by any comparator."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.gpu_simulation import check_simulated

SLOW = pytest.mark.slow


def lines(shape: str, axis: int, direction: str = "LT", kind: str = "f32") -> str:
    compare = "compare(a, b), direction=" + direction + (", type=TOTALORDER" if kind[0] in "fb" else "")
    return f"""HloModule m
less {{ a = {kind}[] parameter(0)
 b = {kind}[] parameter(1)
 ROOT p = pred[] {compare} }}
ENTRY e {{ x = {kind}[{shape}] parameter(0)
 ROOT r = {kind}[{shape}] sort(x), dimensions={{{axis}}}, to_apply=less }}"""


@pytest.mark.parametrize(
    ("shape", "axis"), [("1", 0), ("2", 0), ("300", 0), ("7,33", 1), ("33,7", 0), ("3,20,4", 1), ("257", 0)]
)
def test_lines(shape: str, axis: int) -> None:
    check_simulated(lines(shape, axis))


@pytest.mark.parametrize(
    "kind", ["s8", "s64", "bf16", *(pytest.param(kind, marks=SLOW) for kind in ("u32", "f64", "f16"))]
)
def test_element_types(kind: str) -> None:
    check_simulated(lines("5,60", 1, "GT", kind))


def test_special_values_in_total_order() -> None:
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -np.nan, 0.0, -0.0], np.float32)
    check_simulated(lines("9", 0), x)


PAIRS = """HloModule m
less {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 ROOT p = pred[] compare(a, b), direction=LT }}
ENTRY e {{ k = s32[{shape}] parameter(0)
 v = s32[{shape}] iota(), iota_dimension={axis}
 ROOT r = (s32[{shape}], s32[{shape}]) sort(k, v), dimensions={{{axis}}}, is_stable={stable}, to_apply=less }}"""


def test_equal_keys_keep_their_order_if_the_sort_is_stable() -> None:
    check_simulated(PAIRS.format(shape="4,50", axis=1, stable="true"))
    x = np.random.default_rng(0).integers(0, 5, (4, 50)).astype(np.int32)
    keys, places = xjit.compile(PAIRS.format(shape="4,50", axis=1, stable="false"), "cuda-sim")(x)
    assert (keys == np.sort(x, 1)).all() and (np.sort(places, 1) == np.arange(50)).all()
    assert (np.take_along_axis(x, places, 1) == keys).all()


@pytest.mark.parametrize(
    ("shape", "axis"),
    [("513", 0), ("300,3", 0), pytest.param("600", 0, marks=SLOW), pytest.param("3,300", 1, marks=SLOW)],
)
def test_lines_of_many_tiles(shape: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 16 elements: the last steps compare over six distances between tiles, in two kernels."""
    monkeypatch.setattr("xjit.emitters.planners.gpu.sort_network.TILE_ELEMENTS", 16)
    text = PAIRS.format(shape=shape, axis=axis, stable="true")
    assert len(check_simulated(text).kernels) > 3


def test_lines_longer_than_a_tile() -> None:
    x = np.random.default_rng(0).permutation(5000).astype(np.float32)
    exe = xjit.compile(lines("5000", 0), "cuda-sim")
    assert (exe(x) == np.sort(x)).all()


def test_a_comparator_that_is_no_order_gives_a_permutation() -> None:
    """A plain LT where there are NaNs."""
    x = np.arange(300, dtype=np.float32)[::-1].copy()
    x[::7] = np.nan
    result = xjit.compile(lines("300", 0).replace(", type=TOTALORDER", ""), "cuda-sim")(x)
    assert np.array_equal(np.sort(result), np.sort(x), equal_nan=True)
