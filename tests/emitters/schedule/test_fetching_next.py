"""Reductions that find their rows in the cache fetch those of the next trip meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

import xjit

COMBINERS = """HloModule m
larger { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
"""
SPREAD = """
ENTRY main {
  x = f32[ROWS,COLUMNS] parameter(0)
  low = f32[] constant(-inf)
  top = f32[ROWS] reduce(x, low), dimensions={1}, to_apply=larger
  tops = f32[ROWS,COLUMNS] broadcast(top), dimensions={0}
  below = f32[ROWS,COLUMNS] subtract(x, tops)
  weights = f32[ROWS,COLUMNS] exponential(below)
  zero = f32[] constant(0)
  total = f32[ROWS] reduce(weights, zero), dimensions={1}, to_apply=sum
  ROOT both = (f32[ROWS], f32[ROWS]) tuple(top, total)
}
"""
ONE_READ = """
ENTRY main {
  x = f32[ROWS,COLUMNS] parameter(0)
  weights = f32[ROWS,COLUMNS] exponential(x)
  zero = f32[] constant(0)
  ROOT total = f32[ROWS] reduce(weights, zero), dimensions={1}, to_apply=sum
}
"""
TWO_ARRAYS = """
ENTRY main {
  x = f32[ROWS,COLUMNS] parameter(0)
  y = f32[ROWS,COLUMNS] parameter(1)
  low = f32[] constant(-inf)
  top = f32[ROWS] reduce(x, low), dimensions={1}, to_apply=larger
  tops = f32[ROWS,COLUMNS] broadcast(top), dimensions={0}
  below = f32[ROWS,COLUMNS] subtract(y, tops)
  zero = f32[] constant(0)
  ROOT total = f32[ROWS] reduce(below, zero), dimensions={1}, to_apply=sum
}
"""


def compiled(body: str, rows: int, columns: int) -> xjit.Executable:
    """The executable of a program on arrays of f32[rows, columns]."""
    return xjit.compile(COMBINERS + body.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))


def test_the_second_reduction_fetches_the_next_row() -> None:
    exe = compiled(SPREAD, 130, 8192)
    lines = [line for line in exe.as_text("schedule").splitlines() if "reduce" in line and "%" in line]
    fetching = [line for line in lines if "reduce and fetch next" in line]
    assert len(fetching) == 1 and fetching[0] in lines[1:]
    code = exe.as_text("llvm").splitlines()
    places = [code[i - 1] for i, line in enumerate(code) if "call void @llvm.prefetch" in line]
    assert places and all("getelementptr float" in p and "i64 8192" in p for p in places)  # not inbounds: the last row
    x = np.random.default_rng(0).normal(size=(130, 8192)).astype(np.float32)
    top, total = exe(x)
    np.testing.assert_array_equal(top, x.max(1))
    np.testing.assert_allclose(total, np.exp(x - x.max(1, keepdims=True)).sum(1, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "rows", "columns"),
    [(SPREAD, 1300, 1024), (SPREAD, 64, 8192), (ONE_READ, 130, 8192), (TWO_ARRAYS, 130, 8192)],
    ids=["short rows", "a small array", "rows that are read once", "rows of another array"],
)
def test_nothing_is_fetched_where_memory_is_busy_or_not_needed(body: str, rows: int, columns: int) -> None:
    exe = compiled(body, rows, columns)
    assert "fetch" not in exe.as_text("schedule") and "llvm.prefetch" not in exe.as_text("llvm")
