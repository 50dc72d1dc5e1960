"""Loops of short programs take one element at a time: what they look like. Their values: tests/properties."""

from __future__ import annotations

import pytest

import xjit
from tests.support.kernels import check
from xjit.compile_options import CompileOptions

SHORT = CompileOptions(unoptimized_us=1.0)
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
SOFTMAX = f"""HloModule softmax
{ADD}
ENTRY e {{ x = f32[4,3] parameter(0)  z = f32[] constant(0)  y = f32[4,3] exponential(x)
  s = f32[4] reduce(y, z), dimensions={{1}}, to_apply=add  b = f32[4,3] broadcast(s), dimensions={{0}}
  ROOT r = f32[4,3] divide(y, b) }}"""
GATHER = """HloModule take
ENTRY e { x = f32[4,6] parameter(0)  i = s32[6,1] parameter(1)
  ROOT g = f32[4,6] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1,
    slice_sizes={4,1} }"""
SUMS = f"""HloModule sums
{ADD}
ENTRY e {{ x = f32[17,6] parameter(0)  z = f32[] constant(0)
  ROOT s = f32[6] reduce(x, z), dimensions={{0}}, to_apply=add }}"""
SCATTER = f"""HloModule update
{ADD}
ENTRY e {{ x = f32[4,6] parameter(0)  i = s32[2,1] parameter(1)  u = f32[2,6] parameter(2)
  ROOT s = f32[4,6] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add }}"""


@pytest.mark.parametrize("text", [SOFTMAX, GATHER, SUMS, SCATTER])
def test_code_has_no_vectors(text: str) -> None:
    check(text, options=SHORT, rtol=1e-5)
    short, optimized = xjit.compile(text, options=SHORT), xjit.compile(text)
    assert " x float>" in optimized.as_text("llvm")
    assert " x float>" not in short.as_text("llvm") and " x i32>" not in short.as_text("llvm")
    assert "vector" not in short.as_text("schedule")


def test_what_is_known_of_a_row_is_found_once() -> None:
    text = xjit.compile(SOFTMAX, options=SHORT).as_text("schedule")
    rows, elements = text.index("task d0 in [0, 3]"), text.index("serial d1 in [0, 2]")
    assert rows < text.index("reduce %s[d0] serial") < elements


def test_a_module_that_is_short_with_vectors_alone_has_them() -> None:
    """64 sines take 1.3 microseconds, eight vectors of them a fifth of one."""
    text = "HloModule m\nENTRY e { x = f32[64] parameter(0)  ROOT s = f32[64] sine(x) }"
    short = xjit.compile(text, options=SHORT)
    assert short.as_text("llvm") == xjit.compile(text).as_text("llvm")
    assert short.as_text("asm") == xjit.compile(text, options=CompileOptions(opt_level=0)).as_text("asm")


def test_numbers_one_after_the_other_are_optimized() -> None:
    steps = "\n".join(f"x{i + 1} = f32[] sine(x{i})" for i in range(100))
    text = f"HloModule m\nENTRY e {{ x0 = f32[] parameter(0)\n{steps} }}"
    assert xjit.compile(text, options=SHORT).program.object_code == xjit.compile(text).program.object_code


def test_libraries_are_those_of_other_programs() -> None:
    """A program is not so short that its transform, or product, should be compiled once more."""
    text = "HloModule m\nENTRY e { x = c64[6] parameter(0)  ROOT f = c64[6] fft(x), fft_type=FFT, fft_length={6} }"
    short, optimized = (xjit.compile(text, options=o).intermediates().emitted for o in (SHORT, CompileOptions()))
    assert [library.identity for library in short.libraries] == [library.identity for library in optimized.libraries]
