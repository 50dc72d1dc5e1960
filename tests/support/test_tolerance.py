"""The helper that compares floating-point results refuses what is wrong, however large its neighbours are."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.support.tolerance import close, is_float, mismatch, same_bits

F32 = np.float32


def test_a_large_neighbour_excuses_nothing() -> None:
    expected = np.array([19.0, 1e7], F32)
    assert (
        mismatch(np.array([0.0, 1e7], F32), expected, 64)
        == "1 of 2 elements; at [0]: np.float32(0.0) not np.float32(19.0)"
    )
    narrow = np.array([64.0, 1.0], ml_dtypes.float8_e4m3fn)
    assert mismatch(np.array([1.0, 1.0], narrow.dtype), narrow, 2)


@pytest.mark.parametrize(
    "dtype", [np.float64, F32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.complex64]
)
def test_zeros_are_no_result(dtype: type) -> None:
    expected = np.array([1e-3, 1.0, -2.0, 30.0], dtype)
    assert is_float(expected.dtype)
    assert not close(np.zeros(4, dtype), expected, 2).any()
    assert not mismatch(expected, expected, 0)


def test_units_in_the_last_place() -> None:
    one, four = np.ones(1, F32), 4 * np.finfo(F32).eps
    assert not mismatch(one + F32(four), one, 4)
    assert mismatch(one + F32(2 * four), one, 4)


def test_cancelled_sums_are_measured_by_their_terms() -> None:
    expected, actual = np.array([1e-8, 1e-8], F32), np.array([3e-8, 3e-8], F32)
    assert close(actual, expected, 4, scale=np.array([1.0, 0.0])).tolist() == [True, False]


def test_what_is_not_a_number() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0], F32)
    assert not mismatch(values, values, 0)
    assert close(values[::-1], values, 64).tolist() == [False] * 4
    assert mismatch(np.zeros(1, F32), np.zeros(1, np.float64), 1) == "float32[1] instead of float64[1]"
    assert mismatch(np.array([1]), np.array([2]), 1e9)


@pytest.mark.parametrize("dtype", [F32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.complex64])
def test_same_bits_but_those_of_nans(dtype: type) -> None:
    values = np.array([0.0, 1.5, np.nan], dtype)
    assert same_bits(values, np.array([0.0, 1.5, -np.nan], dtype))
    assert not same_bits(values, np.array([-0.0, 1.5, np.nan], dtype))
    assert not same_bits(values, np.array([0.0, 1.5, 2.0], dtype))
    assert not same_bits(values, values[:2])
