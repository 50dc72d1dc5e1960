"""Bugs that the property tests found, each in its smallest form."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.compile_options import CompileOptions

LEVELS = ["", "sse2", "sse4.2", "avx2"]


@pytest.mark.parametrize("level", LEVELS)
def test_tiled_loops_over_a_range_that_does_not_start_at_zero(level: str) -> None:
    """The last piece of a split dimension was stored over the first one."""
    text = """HloModule m
ENTRY e {
  p = u8[5,4,8]{1,2,0} parameter(0)
  z = u8[] parameter(1)
  ROOT r = u8[14,7,14] pad(p, z), padding=0_1_2x3_0x3_3
}"""
    check(text, np.arange(160, dtype=np.uint8).reshape(5, 4, 8), np.array(255, np.uint8), options=CompileOptions(level))


def test_window_that_sees_only_padding() -> None:
    """A map known to be empty was taken for one without conditions."""
    text = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  p = f32[1,8] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[2,4] reduce-window(p, z), window={size=1x3 stride=2x2 pad=1_1x0_1}, to_apply=add
}"""
    result = check(text, np.ones((1, 8), np.float32), np.array(-1, np.float32))[0]
    assert (result == -1).all()


def test_pad_that_cuts_everything_away() -> None:
    text = """HloModule m
ENTRY e {
  p = s32[3] parameter(0)
  z = s32[] parameter(1)
  ROOT r = s32[4] pad(p, z), padding=-3_4
}"""
    result = check(text, np.array([1, 2, 3], np.int32), np.array(9, np.int32))[0]
    assert result.tolist() == [9] * 4


@pytest.mark.parametrize("opcode", ["add", "subtract", "and", "maximum", "divide", "power"])
def test_evaluator_on_scalars_of_four_bits(opcode: str) -> None:
    """NumPy turns results of rank 0 into scalars of another class."""
    text = f"""HloModule m
ENTRY e {{
  a = s4[] parameter(0)
  b = s4[] parameter(1)
  ROOT r = s4[] {opcode}(a, b)
}}"""
    check(text, np.array(-3, ml_dtypes.int4), np.array(2, ml_dtypes.int4))


def test_evaluator_slices_scalars_dynamically() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[] parameter(0)
  ROOT r = f32[] dynamic-slice(a), dynamic_slice_sizes={}
}"""
    assert xjit.evaluate(text, np.float32(2)) == 2
    check(text, np.array(2, np.float32))


def test_evaluator_gathers_one_byte_floats() -> None:
    """NumPy cannot make sliding windows of them."""
    text = """HloModule m
ENTRY e {
  a = f8e5m2[5] parameter(0)
  i = s32[3] parameter(1)
  ROOT r = f8e5m2[3,2] gather(a, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1,
      slice_sizes={2}
}"""
    check(text, np.arange(5).astype(ml_dtypes.float8_e5m2), np.array([0, 3, 9], np.int32))


@pytest.mark.parametrize("kind", ["c64", "c128"])
def test_complex_division_by_nan_and_zero(kind: str) -> None:
    """A divisor (NaN, 0) was taken for zero."""
    text = f"""HloModule m
ENTRY e {{
  a = {kind}[3] parameter(0)
  b = {kind}[3] parameter(1)
  ROOT r = {kind}[3] divide(a, b)
}}"""
    dtype = np.dtype(np.complex64 if kind == "c64" else np.complex128)
    divisors = np.array([complex(np.nan, 0), complex(np.nan, -0.0), complex(0, np.nan)], dtype)
    result = check(text, np.array([1 - 300j, 2j, 1], dtype), divisors)[0]
    assert np.isnan(result.real).all() and np.isnan(result.imag).all()


def test_printing_a_module_that_calls_itself_ends() -> None:
    """Listing the computations of a cyclic call graph never came to an end."""
    text = """HloModule m
f { p = f32[] parameter(0)
  ROOT c = f32[] call(p), to_apply=f }
ENTRY e { p = f32[] parameter(0)
  ROOT c = f32[] call(p), to_apply=f }"""
    assert "to_apply=%f" in str(xjit.parse_hlo(text))


def test_gather_from_nothing_gives_zeros() -> None:
    """It read what lay behind the empty array."""
    text = """HloModule m
ENTRY e {
  o = f32[0,2] parameter(0)
  n = f32[0,2] negate(o)
  i = s32[3] parameter(1)
  g = f32[3,2] gather(o, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
      slice_sizes={0,2}
  h = f32[3,2] gather(n, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
      slice_sizes={0,2}
  ROOT r = f32[3,2] add(g, h)
}"""
    assert not check(text, np.zeros((0, 2), np.float32), np.arange(3, dtype=np.int32))[0].any()


def test_dynamic_slices_of_nothing() -> None:
    text = """HloModule m
ENTRY e {
  o = f32[0,2] parameter(0)
  i = s32[] parameter(1)
  s = f32[0,1] dynamic-slice(o, i, i), dynamic_slice_sizes={0,1}
  z = f32[] constant(4)
  p = f32[3,1] pad(s, z), padding=2_1x0_0
  u = f32[3,0] constant({{},{},{}})
  d = f32[3,1] dynamic-update-slice(p, u, i, i)
  ROOT r = f32[3,1] concatenate(s, d), dimensions={0}
}"""
    assert check(text, np.zeros((0, 2), np.float32), np.array(1, np.int32))[0].tolist() == [[4]] * 3


def test_padding_of_what_padding_cut_away() -> None:
    """An empty interval of a condition was tested as one that always holds."""
    text = """HloModule m
ENTRY e {
  x = f64[1] parameter(0)
  z = f64[] constant(7)
  p = f64[1] pad(x, z), padding=1_-1_0
  ROOT q = f64[4] pad(p, z), padding=2_1_0
}"""
    assert check(text, np.ones(1))[0].tolist() == [7] * 4


@pytest.mark.parametrize(
    "window", ["size=3 stride=2 pad=-1_3 lhs_dilate=2", "size=4 pad=-3_5 lhs_dilate=3 rhs_dilate=2"]
)
def test_windows_whose_first_steps_hit_nothing(window: str) -> None:
    """A range variable of the map that starts at 1 was counted from 0."""
    size = 5 if "stride" in window else 9
    text = f"""HloModule m
add {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  p = f32[5] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[{size}] reduce-window(p, z), window={{{window}}}, to_apply=add
}}"""
    assert check(text, np.arange(2, 7, dtype=np.float32))[0].any()


def test_bitcasts_of_bitcasts_with_layouts() -> None:
    """The second bitcast read its operand in the layout that the first one's expansion had given it."""
    text = """HloModule m
ENTRY e {
  p = f32[2,3] parameter(0)
  b = f32[3,2]{0,1} bitcast(p)
  c = f32[6]{0} bitcast(b)
  d = f32[3,2]{0,1} bitcast(c)
  ROOT r = f32[2,3]{1,0} bitcast(d)
}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (check(text, x)[0] == x).all()
