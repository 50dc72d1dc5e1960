"""Rows of a few elements that are padded, joined or repeated: vectors take several, without gathers and scatters."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjit
from tests.support.kernels import check, check_units

ROWS = 6000  # enough for regions of their own, which longer rows have

PAD = "ROOT r = {kind}[{n},7] pad(x, z), padding=0_0x{low}_{high}"
BETWEEN = "ROOT r = {kind}[{twice},3] pad(x, z), padding=0_1_1x0_0"
INSIDE = "ROOT r = {kind}[{n},6] pad(x, z), padding=0_0x1_0_1"
STACK = """a = {kind}[{n},1,3] reshape(x)
  b = {kind}[{n},1,3] negate(a)
  ROOT r = {kind}[{n},2,3] concatenate(a, b), dimensions={{1}}"""
TILE = "ROOT r = {kind}[{n},2,3] broadcast(x), dimensions={{0,2}}"


def text(body: str, kind: str, **sizes: int) -> str:
    body = body.format(kind=kind, n=ROWS, twice=2 * ROWS, **sizes)
    return f"HloModule m\nENTRY e {{\n  x = {kind}[{ROWS},3] parameter(0)\n  z = {kind}[] parameter(1)\n  {body}\n}}\n"


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "s8", "f64", "bf16", "c64"])
def test_values(kind: str, level: str) -> None:
    options = xjit.CompileOptions(cpu_level=level)
    for low in (0, 1, 4):
        check(text(PAD, kind, low=low, high=4 - low), options=options)
    for body in (BETWEEN, INSIDE, STACK, TILE):
        check(text(body, kind), options=options)


def test_negative_padding() -> None:
    for low, high in ((-1, 5), (-2, 6), (6, -2)):
        check(text(PAD, "f32", low=low, high=high))


def test_units() -> None:
    for body in (PAD, BETWEEN):
        assert check_units(text(body, "f32", low=1, high=3)) > 1


@pytest.mark.parametrize("kind", ["f32", "s32"])
@pytest.mark.parametrize("body", [PAD, BETWEEN, STACK, TILE])
def test_neighbours_are_loaded_together(body: str, kind: str) -> None:
    exe = xjit.compile(text(body, kind, low=1, high=3), options=xjit.CompileOptions(cpu_level="avx2"))
    code = exe.as_text("llvm")
    assert "shufflevector" in code and "gather" not in code and "scatter" not in code


ADD = "add {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT c = {kind}[] add(a, b) }}\n"
SUMS = """s = {kind}[{n}] reduce(x, z), dimensions={{1}}, to_apply=add
  b = {kind}[{n},3] broadcast(s), dimensions={{0}}
  ROOT r = {kind}[{n},3] multiply(x, b)"""
RUNNING = "ROOT r = {kind}[{n},3] reduce-window(x, z), window={{size=1x3 pad=0_0x2_0}}, to_apply=add"


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["f32", "s8", "f64", "bf16"])
@pytest.mark.parametrize("body", [SUMS, RUNNING])
def test_sums(body: str, kind: str, level: str) -> None:
    """The steps of such sums are written out, so it is known which lanes have none."""
    module = text(body, kind).replace("HloModule m\n", "HloModule m\n" + ADD.format(kind=kind))
    tolerance = 0.05 if kind == "bf16" else 1e-5
    options = xjit.CompileOptions(cpu_level=level)
    check(module, options=options, rtol=tolerance, atol=tolerance)
    code = xjit.compile(module, options=options).as_text("llvm")
    assert "gather" not in code


def test_rows_of_two_types_are_grouped() -> None:
    """Maxima of bf16 have twice the lanes that sums of their exponentials have."""
    module = """HloModule m
max { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = bf16[200,28] parameter(0)
  low = bf16[] constant(-inf)
  zero = f32[] constant(0)
  m = bf16[200] reduce(x, low), dimensions={1}, to_apply=max
  d = bf16[200,28] subtract(x, bf16[200,28] broadcast(m), dimensions={0})
  s = f32[200] reduce(f32[200,28] exponential(f32[200,28] convert(d)), zero), dimensions={1}, to_apply=add
  ROOT r = f32[200] log(s)
}
"""
    for level in ("sse2", "avx2", "avx512"):
        options = xjit.CompileOptions(cpu_level=level)
        check(module, options=options, rtol=1e-5, atol=1e-5)
        assert xjit.compile(module, options=options).as_text("schedule").count("reduce rows") == 2


WINDOWS = """HloModule m
combine {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) ROOT c = {kind}[] {opcode}(a, b) }}
ENTRY e {{
  x = {kind}[2,21,21,{features}] parameter(0)
  z = {kind}[] constant({init})
  ROOT r = {kind}[2,{size},{size},{features}] reduce-window(x, z), window={{size=1x{window}x{window}x1
    stride=1x{stride}x{stride}x1}}, to_apply=combine
}}
"""
THREE, SEVEN = {"window": 3, "stride": 1, "size": 19}, {"window": 7, "stride": 7, "size": 3}


@pytest.mark.parametrize("features", [3, 16])
@pytest.mark.parametrize("opcode", ["maximum", "add"])
@pytest.mark.parametrize("kind", ["f32", "s32"])
def test_windows_are_written_out(kind: str, opcode: str, features: int) -> None:
    """All steps of 3 x 3, of 7 x 7 those of a row."""
    tolerance = 1e-5 if (kind, opcode) == ("f32", "add") else 0.0
    for sizes, steps in ((THREE, "of (0, 0), (0, 1)"), (SEVEN, ", 0), (")):
        module = WINDOWS.format(kind=kind, opcode=opcode, features=features, init=0, **sizes)
        check(module, rtol=tolerance, atol=tolerance)
        assert steps in xjit.compile(module).as_text("schedule")


@pytest.mark.parametrize("features", [3, 16])
@pytest.mark.parametrize("sizes", [THREE, SEVEN])
def test_sums_of_narrow_floats_are_rounded_in_order(sizes: dict[str, int], features: int) -> None:
    executable = xjit.compile(WINDOWS.format(kind="bf16", opcode="add", features=features, init=0, **sizes))
    x = np.random.default_rng(0).standard_normal((2, 21, 21, features)).astype(ml_dtypes.bfloat16)
    reach = (sizes["size"] - 1) * sizes["stride"] + 1
    expected: Any = np.zeros((2, sizes["size"], sizes["size"], features), ml_dtypes.bfloat16)
    for i, j in np.ndindex(sizes["window"], sizes["window"]):
        expected = expected + x[:, i : i + reach : sizes["stride"], j : j + reach : sizes["stride"]]
    np.testing.assert_array_equal(np.asarray(executable(x)), expected)


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_extrema_of_windows_keep_nans_and_signs_of_zeros(opcode: str, level: str) -> None:
    module = WINDOWS.format(kind="f32", opcode=opcode, features=16, init="-0.0", **THREE)
    values = np.array([0.0, -0.0, np.nan, 1.0, -1.0], np.float32)
    x = np.random.default_rng(0).choice(values, (2, 21, 21, 16), p=[0.3, 0.63, 0.03, 0.02, 0.02])
    check(module, x, options=xjit.CompileOptions(cpu_level=level))


@pytest.mark.parametrize("level", ["sse2", "avx2", "avx512"])
def test_complex_elements_that_are_apart_are_loaded_as_one(level: str) -> None:
    module = """HloModule m
ENTRY e {
  x = c64[40,7] parameter(0)
  i = s32[19,1] parameter(1)
  ROOT g = c64[40,19] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={40,1}
}
"""
    options = xjit.CompileOptions(cpu_level=level)
    check(module, options=options)
    code = xjit.compile(module, options=options).as_text("llvm")
    assert "i64> @llvm.masked.gather" in code and "float> @llvm.masked.gather" not in code


GATHER = """HloModule m
ENTRY e {{
  x = f32[50,{row}] parameter(0)
  i = s32[300,1] parameter(1)
  ROOT g = f32[300,{row}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1,{row}}}
}}
"""


@pytest.mark.parametrize(("row", "is_whole"), [(3, False), (6, True), (12, True)])
def test_gathered_rows_are_read_as_a_whole(row: int, is_whole: bool) -> None:
    """From a few elements on: of several rows in a vector, every element would be gathered by itself."""
    module = GATHER.format(row=row)
    rng = np.random.default_rng(0)
    check(module, rng.normal(size=(50, row)).astype(np.float32), rng.integers(-3, 60, (300, 1)).astype(np.int32))
    options = xjit.CompileOptions(cpu_level="avx512")
    assert ("masked.gather" not in str(xjit.compile(module, options=options).as_text("llvm"))) == is_whole
