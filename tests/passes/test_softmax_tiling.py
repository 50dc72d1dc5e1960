"""Softmax over long rows: what is left to go through memory, and where infinities lead."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit import CompileOptions

ROWS, LENGTH = 9, 15 << 14
SOFTMAX = """
HloModule softmax
larger {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY main {{
  logits = f32[{rows},{length}] parameter(0)
  two = f32[] constant(2)
  twos = f32[{rows},{length}] broadcast(two), dimensions={{}}
  x = f32[{rows},{length}] multiply(logits, twos)
  low = f32[] constant(-inf)
  top = f32[{rows}] reduce(x, low), dimensions={{1}}, to_apply=larger
  finite = pred[{rows}] is-finite(top)
  zero = f32[] constant(0)
  zeros = f32[{rows}] broadcast(zero), dimensions={{}}
  finite_top = f32[{rows}] select(finite, top, zeros)
  tops = f32[{rows},{length}] broadcast({shift}), dimensions={{0}}
  below = f32[{rows},{length}] subtract(x, tops)
  weights = f32[{rows},{length}] exponential(below)
  total = f32[{rows}] reduce(weights, zero), dimensions={{1}}, to_apply=sum
  totals = f32[{rows},{length}] broadcast(total), dimensions={{0}}
  ROOT y = f32[{rows},{length}] divide(weights, totals)
}}
"""


def softmax(shift: str = "top", rows: int = ROWS, length: int = LENGTH) -> str:
    return SOFTMAX.format(shift=shift, rows=rows, length=length)


def rows_with_infinities() -> np.ndarray:
    """Rows that grow, fall, are large, and have -inf in whole tiles, everywhere, or +inf or NaN somewhere."""
    x = np.random.default_rng(0).normal(size=(ROWS, LENGTH)).astype(np.float32)
    x[1] += np.linspace(-200, 200, LENGTH, dtype=np.float32)
    x[2] += np.linspace(200, -200, LENGTH, dtype=np.float32)
    x[3, : LENGTH * 2 // 3] = -np.inf
    x[4] = -np.inf
    x[5, 5] = np.inf
    x[6, LENGTH - 1] = np.nan
    x[7] = 1e38
    x[8] *= 1e-30
    return x


@pytest.mark.parametrize("shift", ["top", "finite_top"])
def test_infinities_lead_where_they_lead_without_tiles(shift: str) -> None:
    x = rows_with_infinities()
    compiled = xjit.compile(softmax(shift))
    plain = xjit.compile(softmax(shift), options=CompileOptions(disabled_passes=("softmax-tiling",)))
    np.testing.assert_allclose(compiled(x), plain(x), rtol=1e-5, atol=1e-38)


def test_the_array_is_read_twice_and_written_once() -> None:
    """Before, exponentials went to memory between the sum and the quotient."""
    compiled = xjit.compile(softmax(rows=4, length=1 << 20))
    size = 4 << 20 << 2
    assert compiled.memory_analysis().temp_size_in_bytes < size // 64
    assert 3 * size <= sum(k.bytes_accessed for k in compiled.kernels) < 3.1 * size
