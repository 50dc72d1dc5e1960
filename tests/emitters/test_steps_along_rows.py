"""Rows that are reduced backwards, or with steps: lanes lie along them all the same, and no work is done again."""

from __future__ import annotations

import numpy as np
import pytest

import xjit

LEVELS = ("sse2", "avx2", "")
KINDS = {"f32": np.float32, "f64": np.float64, "s8": np.int8, "s32": np.int32}


def reduced(kind: str, rows: int, length: int, rearranged: str, count: int, operation: str) -> str:
    initial = "-100" if operation == "maximum" else "0"
    return f"""HloModule reduced
f {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT c = {kind}[] {operation}(a, b) }}
ENTRY main {{
  x = {kind}[{rows},{length}] parameter(0)
  y = {kind}[{rows},{count}] {rearranged}
  init = {kind}[] constant({initial})
  ROOT r = {kind}[{rows}] reduce(y, init), dimensions={{1}}, to_apply=f
}}"""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [-1, 2, 3, 4, 5])
def test_values(step: int, kind: str, level: str) -> None:
    rows, length = 37, 301
    if step < 0:
        rearranged, count = "reverse(x), dimensions={1}", length
    else:
        count = -(-(length - 1) // step)
        rearranged = f"slice(x), slice={{[0:{rows}], [1:{length}:{step}]}}"
    x = (np.random.default_rng(0).standard_normal((rows, length)) * 20).astype(KINDS[kind])
    for operation in ("add", "maximum"):
        text = reduced(kind, rows, length, rearranged, count, operation)
        got = xjit.compile(text, options=xjit.CompileOptions(cpu_level=level))(x)
        np.testing.assert_allclose(got, xjit.evaluate(text, x), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("rearranged", "count"), [("reverse(x), dimensions={1}", 256), ("slice(x), slice={[0:512], [0:256:2]}", 128)]
)
def test_lanes_lie_along_the_row(rearranged: str, count: int) -> None:
    text = reduced("f32", 512, 256, rearranged, count, "add")
    assert "tree over vector" in xjit.compile(text).as_text("schedule")


def test_a_row_that_is_written_in_pieces_is_reduced_once() -> None:
    text = """HloModule pieces
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[43,10,50] parameter(0)
  y = f32[50] parameter(1)
  scale = f32[43,10,50] broadcast(y), dimensions={2}
  z = f32[43,10,50] multiply(x, scale)
  rows = f32[43,500] reshape(z)
  zero = f32[] constant(0)
  total = f32[43] reduce(rows, zero), dimensions={1}, to_apply=f
  totals = f32[43,500] broadcast(total), dimensions={0}
  ROOT r = f32[43,500] divide(rows, totals)
}"""
    exe = xjit.compile(text)
    x, y = np.random.default_rng(0).random((43, 10, 50), np.float32), np.arange(1, 51, dtype=np.float32)
    np.testing.assert_allclose(exe(x, y), xjit.evaluate(text, x, y), rtol=1e-5)
    assert "d0 in [0, 42] {\n      reduce" in exe.as_text("schedule"), exe.as_text("schedule")


def test_a_column_that_every_row_reads_is_copied_first() -> None:
    text = """HloModule column
ENTRY main {
  x = f32[4096,64] parameter(0)
  w = f32[64,40] parameter(1)
  column = f32[64,1] slice(w), slice={[0:64], [3:4]}
  ROOT r = f32[4096,1] dot(x, column), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    exe = xjit.compile(text)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4096, 64), np.float32), rng.standard_normal((64, 40), np.float32)
    np.testing.assert_allclose(exe(x, w), x @ w[:, 3:4], rtol=1e-4, atol=1e-4)
    assert len(exe.kernels) == 2, "the column is a kernel of its own"
