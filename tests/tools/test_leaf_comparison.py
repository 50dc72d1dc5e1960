"""Comparing outputs with a reference, and their summaries."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xjit.tools.leaf_comparison import compare_leaf, summary

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([1.0, INF, -INF, NAN], [1.0, INF, -INF, NAN]),
        ([1.0, 1e-7], [1.0, 0.0]),
        ([], []),
        (np.array([1 + 2j, complex(NAN, 1)]), np.array([1 + 2j, complex(NAN, 1)])),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16)),
        (np.array([3], ml_dtypes.int4), np.array([3], ml_dtypes.int4)),
    ],
)
def test_match(actual: Any, expected: Any) -> None:
    got, want = (x if isinstance(x, np.ndarray) else np.array(x, np.float32) for x in (actual, expected))
    assert compare_leaf(got, want).ok


@pytest.mark.parametrize(
    ("actual", "expected", "error"),
    [
        ([1.0, NAN], [1.0, 2.0], INF),
        ([1.0, INF], [1.0, NAN], INF),
        ([INF], [-INF], INF),
        ([3.0], [2.0], 0.5),
        (np.array([complex(1, INF)]), np.array([complex(INF, 1)]), INF),
        (np.array([1, 2]), np.array([1, 3]), 0.5),
        (np.array([1, 2]), np.array([1, 2, 3]), INF),
        (np.array([1, 2]), np.array([1.0, 2.0]), INF),
    ],
)
def test_mismatch(actual: Any, expected: Any, error: float) -> None:
    got, want = (x if isinstance(x, np.ndarray) else np.array(x, np.float32) for x in (actual, expected))
    comparison = compare_leaf(got, want)
    assert not comparison.ok and comparison.error == error


def test_summaries() -> None:
    assert summary(np.array([1, 3, INF, NAN, NAN], np.float32)) == {
        "shape": "f32[5]",
        "min": 1.0,
        "max": 3.0,
        "mean": 2.0,
        "infinite": 1,
        "nan": 2,
    }
    assert summary(np.array([[1 + 3j]], np.complex64)) == {"shape": "c64[1,1]", "min": 1.0, "max": 3.0, "mean": 2.0}
    assert summary(np.zeros((0, 2), np.int32)) == {"shape": "s32[0,2]"}
