"""What the planner of loop kernels thinks a kernel costs, and which kernels it does not cut into tasks."""

from __future__ import annotations

import numpy as np
import pytest

import xjit

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
NORMALIZED = f"""
HloModule normalized
{SUM}
ENTRY main {{
  x = f32[1000,32] parameter(0)
  z = f32[] constant(0)
  q = f32[1000,32] multiply(x, x)
  r = f32[] reduce(q, z), dimensions={{0,1}}, to_apply=sum
  t = f32[] sqrt(r)
  b = f32[1000,32] broadcast(t), dimensions={{}}
  ROOT d = f32[1000,32] divide(x, b)
}}
"""
SOFTMAX = f"""
HloModule softmax
{SUM}
ENTRY main {{
  x = f32[ROWS,256] parameter(0)
  z = f32[] constant(0)
  e = f32[ROWS,256] exponential(x)
  r = f32[ROWS] reduce(e, z), dimensions={{1}}, to_apply=sum
  b = f32[ROWS,256] broadcast(r), dimensions={{0}}
  q = f32[ROWS,256] divide(e, b)
  p = f32[ROWS] reduce(q, z), dimensions={{1}}, to_apply=sum
  c = f32[ROWS,256] broadcast(p), dimensions={{0}}
  ROOT s = f32[ROWS,256] subtract(q, c)
}}
"""


def ir_of(text: str) -> str:
    return xjit.compile(text, options=xjit.CompileOptions(cpu_level="avx2")).as_text("llvm")


def test_a_reduction_of_everything_is_not_repeated_by_tasks() -> None:
    exe = xjit.compile(NORMALIZED)
    assert len(exe.kernels) == 1
    assert "call void @xjit_parallel_for" not in exe.as_text("llvm")
    x = np.random.default_rng(0).random((1000, 32), np.float32)
    np.testing.assert_allclose(exe(x), x / np.sqrt((x * x).sum()), rtol=1e-5)


def test_a_kernel_with_a_reduction_per_row_is_cut() -> None:
    assert "call void @xjit_parallel_for" in ir_of(SOFTMAX.replace("ROWS", "8192"))
    assert "call void @xjit_parallel_for" not in ir_of(SOFTMAX.replace("ROWS", "8"))


@pytest.mark.parametrize("rows", [64, 128])
def test_reductions_count_for_what_they_walk_over_only(rows: int) -> None:
    exe = xjit.compile(SOFTMAX.replace("ROWS", str(rows)))
    elements = rows * 256
    assert len(exe.kernels) == 1
    assert 4 * elements <= exe.kernels[0].flops <= 16 * elements


def test_a_window_counts_for_every_element_of_the_result() -> None:
    text = f"""
HloModule windows
{SUM}
ENTRY main {{
  x = f32[64,64] parameter(0)
  z = f32[] constant(0)
  ROOT w = f32[60,60] reduce-window(x, z), window={{size=5x5}}, to_apply=sum
}}
"""
    assert 60 * 60 * 25 <= xjit.compile(text).kernels[0].flops <= 2 * 60 * 60 * 25
