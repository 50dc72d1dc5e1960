"""sort on GPUs: ranks of elements, by any comparator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_simulation import check_simulated


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


@pytest.mark.parametrize("kind", ["s8", "u32", "s64", "f64", "bf16", "f16"])
def test_element_types(kind: str) -> None:
    check_simulated(lines("5,60", 1, "GT", kind))


def test_special_values_in_total_order() -> None:
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0, -np.nan, 0.0, -0.0], np.float32)
    check_simulated(lines("9", 0), x)


@pytest.mark.parametrize("is_stable", ["true", "false"])
def test_equal_keys_keep_their_order(is_stable: str) -> None:
    text = f"""HloModule m
less {{ a = s32[] parameter(0)
 b = s32[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 ROOT p = pred[] compare(a, b), direction=LT }}
ENTRY e {{ k = s32[4,50] parameter(0)
 v = s32[4,50] iota(), iota_dimension=1
 ROOT r = (s32[4,50], s32[4,50]) sort(k, v), dimensions={{1}}, is_stable={is_stable}, to_apply=less }}"""
    check_simulated(text)
