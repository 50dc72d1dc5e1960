"""e^x takes a part of its power of two into its last sum, which changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.llvm.math import exponential
from xjit.llvm.math.vec import scale_by_power_of_two


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("f32", -110, 95), ("f32", -0.01, 0.01), ("f64", -750, 715), ("f64", -0.01, 0.01)]
)
def test_the_sum_may_be_scaled_before_it_is_rounded(
    kind: str, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype = {"f32": np.float32, "f64": np.float64}[kind]
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72, 88.73, -87.3, -87.4, -103.9, -104.1, 709.7, -708.3, -745.1]
    x = np.concatenate([np.random.default_rng(0).uniform(low, high, 50_000), ends]).astype(dtype)
    text = f"ENTRY e {{ x = {kind}[{x.size}] parameter(0) ROOT y = {kind}[{x.size}] exponential(x) }}"
    found = xjit.compile(f"HloModule scaled\n{text}")(x)
    monkeypatch.setattr(
        exponential, "one_more_times_power_of_two", lambda e, n, n_int: scale_by_power_of_two(e + 1.0, n, n_int)
    )
    plain = xjit.compile(f"HloModule plain\n{text}")(x)
    np.testing.assert_array_equal(found.view(f"u{dtype().itemsize}"), plain.view(f"u{dtype().itemsize}"))
