"""Extrema of floats by minima and by integers: signs of zeros, infinities and NaNs of both signs."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo.types.primitive_type import PrimitiveType


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("dimensions", ["0", "1", "0,1"])
@pytest.mark.parametrize("init", ["-inf", "inf", "nan", "0", "-0"])
def test_special_numbers(kind: str, opcode: str, dimensions: str, init: str) -> None:
    result = {"0": "[130]", "1": "[70]", "0,1": "[]"}[dimensions]
    text = f"""
better {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT m = {kind}[] {opcode}(a, b) }}
ENTRY e {{
  x = {kind}[70,130] parameter(0)
  init = {kind}[] constant({init})
  ROOT r = {kind}{result} reduce(x, init), dimensions={{{dimensions}}}, to_apply=better
}}
"""
    assert (f"{kind}[] {opcode}(" in xjit.compile(text).as_text()) == (kind in ("f32", "f64"))
    dtype = PrimitiveType.from_text(kind).dtype
    special = np.array([0.0, -0.0, -np.inf, np.inf, np.nan, -1.0, 1.0, 3.5], np.float64).astype(dtype)
    rng = np.random.default_rng(len(init))
    odds = np.array([0.3, 0.3, 0.1, 0.001, 0.001, 0.2, 0.05, 0.048])
    x = rng.choice(special, (70, 130), p=odds / odds.sum())
    x[::7] = rng.choice(special[:3], x[::7].shape)
    x[3] = -np.abs(x[3])  # NaNs of the other sign, too
    check(text, x)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_all_numbers_of_16_bits(kind: str) -> None:
    """Each beside each of its neighbours in memory: pairs of all signs and exponents."""
    text = f"""
larger {{ a = {kind}[] parameter(0)  b = {kind}[] parameter(1)  ROOT m = {kind}[] maximum(a, b) }}
ENTRY e {{
  x = {kind}[65536,2] parameter(0)
  low = {kind}[] constant(-inf)
  ROOT r = {kind}[65536] reduce(x, low), dimensions={{1}}, to_apply=larger
}}
"""
    bits = np.arange(1 << 16, dtype=np.uint16)
    pairs = np.stack([bits, np.random.default_rng(0).permutation(bits)], 1)
    numbers = pairs.view(PrimitiveType.from_text(kind).dtype)
    found = np.asarray(xjit.compile(text)(numbers))
    with np.errstate(invalid="ignore"):  # signalling NaNs
        a, b = numbers.astype(np.float64).T
        np.testing.assert_array_equal(np.isnan(found), np.isnan(a) | np.isnan(b))
    takes_first = (a > b) | ((a == b) & ~np.signbit(a))
    expected = np.where(takes_first, *pairs.T)
    is_number = ~(np.isnan(a) | np.isnan(b))
    np.testing.assert_array_equal(found[is_number].view(np.uint16), expected[is_number])
