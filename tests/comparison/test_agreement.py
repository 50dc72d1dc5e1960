"""Units in the last place between two results."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xjit.comparison.agreement import agreement, ulps_apart
from xjit.hlo.types.primitive_type import PrimitiveType

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_neighbours_are_one_apart(kind: Any) -> None:
    """Counted by NumPy's own step to the next value, also across zero and the smallest normal number."""
    tiny = float(ml_dtypes.finfo(kind).smallest_normal)
    start = np.array([1.0, -1.0, 2.0, 0.0, tiny, -tiny], kind)
    other = start
    for count in range(1, 4):
        other = np.nextafter(other, np.array(448.0, kind))
        far, same = ulps_apart(other, start)
        assert far.tolist() == [count] * 6 and not same.any()


@pytest.mark.parametrize("kind", [k for k in PrimitiveType if k.is_float and k.bit_width <= 8], ids=lambda k: k.text)
def test_all_numbers_of_narrow_types_are_counted(kind: PrimitiveType) -> None:
    """Wherever the type has its sign, or if it has none."""
    codes = np.arange(1 << kind.bit_width, dtype=np.uint8).view(kind.dtype)
    wide = codes.astype(np.float64)
    finite = codes[np.isfinite(wide)]
    place = {number: n for n, number in enumerate(np.unique(finite.astype(np.float64)))}
    a, b = np.repeat(finite, finite.size), np.tile(finite, finite.size)
    far, _ = ulps_apart(a, b)
    assert far.tolist() == [abs(place[float(x)] - place[float(y)]) for x, y in zip(a, b, strict=True)]


def test_zeros_are_one_value_and_what_is_not_finite_has_no_distance() -> None:
    a = np.array([0.0, NAN, INF, INF, 1.0], np.float32)
    b = np.array([-0.0, NAN, INF, 1.0, NAN], np.float32)
    far, same = ulps_apart(a, b)
    assert far.tolist() == [0, -1, -1, -1, -1]
    assert same.tolist() == [True, True, True, False, False]


def test_far_apart_and_complex_and_integers() -> None:
    one = np.array([1.0], np.float64)
    far, _ = ulps_apart(one, -one)
    assert int(far[0]) == 2 * int(np.array(1.0).view(np.int64))
    z = np.array([1 + 2j], np.complex64)
    far, same = ulps_apart(z, z + np.complex64(np.float32(2.0**-22) * 1j))
    assert far.tolist() == [0, 1] and same.tolist() == [True, False]
    far, same = ulps_apart(np.array([3, -5], np.int8), np.array([1, -5], np.int8))
    assert far.tolist() == [2, 0] and same.tolist() == [False, True]


def test_outputs() -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0], np.float32)
    y = x.copy()
    y[2] = np.nextafter(y[2], np.float32(9))
    near, far = agreement([y, x], [x, -x])
    assert (near.max_ulps, near.mean_ulps, near.equal, near.ok, near.shape) == (1, 0.25, 0.75, True, "f32[4]")
    assert not far.ok and far.equal == 0.0
    (other,) = agreement([x.astype(np.float64)], [x])
    assert not other.ok and other.error == INF
    (count,) = agreement([x, x], [x])
    assert not count.ok and count.shape == "2 outputs instead of 1"
