"""What generated code may call: every symbol of the table is found; a sample of each family computes."""

from __future__ import annotations

import ctypes
import os
import platform
import sys

import ml_dtypes
import numpy as np
import pytest

from tests.runtime.conftest import Load
from tests.runtime.programs import array, program
from xjit.hlo.diagnostics import CompileError
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.machine_code import symbol_table, symbols
from xjit.runtime.machine_code.symbols import resolve_symbols, symbol_address
from xjit.runtime.native import library


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="written for glibc")
def test_every_symbol_has_an_address() -> None:
    system_dependent = symbol_table.COMPILER_SYMBOLS | symbol_table.BLAS_THREAD_SYMBOLS
    addresses = resolve_symbols(symbol_table.KNOWN_SYMBOLS - system_dependent)
    assert all(addresses.values())


def test_unknown_symbols_are_refused() -> None:
    with pytest.raises(CompileError, match="needs the symbol 'system', which the runtime does not offer"):
        symbol_address("system")


def test_libm(load: Load) -> None:
    ir_text = """
declare float @erff(float)
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
  %p = load ptr, ptr %parameters
  %r = load ptr, ptr %results
  %x = load float, ptr %p
  %y = call float @erff(float %x)
  store float %y, ptr %r
  ret i32 0
}
"""
    executable = load(program(ir_text, [array(np.float32)], [array(np.float32)]))
    assert abs(executable(0.5) - 0.5204999) < 1e-6


def test_blas(load: Load) -> None:
    """C = A B with Fortran's sgemm, sizes and scalars as constants."""
    ir_text = """
declare void @xjit_blas_sgemm(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
  %b = load ptr, ptr %parameters
  %a_ptr = getelementptr ptr, ptr %parameters, i64 1
  %a = load ptr, ptr %a_ptr
  %c = load ptr, ptr %results
  %n = load ptr, ptr %constants
  %one_ptr = getelementptr ptr, ptr %constants, i64 1
  %one = load ptr, ptr %one_ptr
  %zero_ptr = getelementptr ptr, ptr %constants, i64 2
  %zero = load ptr, ptr %zero_ptr
  %char_ptr = getelementptr ptr, ptr %constants, i64 3
  %char = load ptr, ptr %char_ptr
  call void @xjit_blas_sgemm(ptr %char, ptr %char, ptr %n, ptr %n, ptr %n, ptr %one, ptr %a, ptr %n, ptr %b, ptr %n,
  ptr %zero, ptr %c, ptr %n) ret i32 0
}
"""
    matrix = array(np.float32, 5, 5)
    constants = (np.array([5], np.int32), np.array([1], np.float32), np.array([0], np.float32), np.array([b"N"]))
    executable = load(program(ir_text, [matrix, matrix], [matrix], constants=constants))
    a, b = np.arange(25, dtype=np.float32).reshape(5, 5), np.ones((5, 5), np.float32) + np.eye(5, dtype=np.float32)
    np.testing.assert_array_equal(executable(a, b), a @ b)


@pytest.mark.parametrize("dtype", symbol_table.NUMPY_SORT_DTYPES)
def test_numpy_sort(dtype: str) -> None:
    sort = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        symbol_address(f"xjit_numpy_sort_{dtype}")
    )
    values = np.random.default_rng(0).integers(0, 100, 1000).astype(dtype)
    expected = np.sort(values)
    assert sort(values.ctypes.data, 1000, None) == 0
    np.testing.assert_array_equal(values, expected)


_ROUND = """
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {{
entry:
  %p = load ptr, ptr %parameters
  %r = load ptr, ptr %results
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x_ptr = getelementptr {wide}, ptr %p, i64 %i
  %x = load {wide}, ptr %x_ptr
  %y = fptrunc {wide} %x to {narrow}
  %y_ptr = getelementptr {narrow}, ptr %r, i64 %i
  store {narrow} %y, ptr %y_ptr
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %exit
exit:
  ret i32 0
}}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="checks calls that LLVM makes on x86")
def test_rounding_to_bfloat16_is_to_nearest_even() -> None:
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    normal = high[((high >> 23) & 255) > 0]  # subnormals are flushed
    values = np.concatenate([normal | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(np.float32)
    executable = CpuExecutable(
        program(
            _ROUND.format(wide="float", narrow="bfloat", count=values.size),
            [array(np.float32, values.size)],
            [array(ml_dtypes.bfloat16, values.size)],
        )
    )
    with np.errstate(invalid="ignore"):
        found, expected = executable(values), values.astype(ml_dtypes.bfloat16)
    nan = np.isnan(values)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(found[nan].astype(np.float32)).all()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="checks calls that LLVM makes on x86")
def test_rounding_from_double_to_bfloat16_rounds_once() -> None:
    rng = np.random.default_rng(0)
    short = rng.integers(0x0100, 0x7F00, 20_000).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
    above = np.nextafter(short.astype(ml_dtypes.bfloat16), ml_dtypes.bfloat16(np.inf)).astype(np.float64)
    middle = (short + above) / 2
    step = middle * 2.0**-40
    values = np.concatenate(
        [short, middle, middle + step, middle - step, -middle, [np.inf, -np.inf, 1e300, 0.0, -0.0, np.nan]]
    )
    executable = CpuExecutable(
        program(
            _ROUND.format(wide="double", narrow="bfloat", count=values.size),
            [array(np.float64, values.size)],
            [array(ml_dtypes.bfloat16, values.size)],
        )
    )
    found = executable(values).astype(np.float64)
    count = short.size
    np.testing.assert_array_equal(found[:count], short)
    even = np.where(short.astype(ml_dtypes.bfloat16).view(np.uint16) % 2 == 0, short, above)
    np.testing.assert_array_equal(found[count : 2 * count], even)
    np.testing.assert_array_equal(found[2 * count : 3 * count], above)
    np.testing.assert_array_equal(found[3 * count : 4 * count], short)
    np.testing.assert_array_equal(found[4 * count : 5 * count], -even)
    assert found[-6:-1].tolist() == [np.inf, -np.inf, np.inf, 0, 0] and np.isnan(found[-1])


def test_the_rounding_routines_are_exported() -> None:
    assert library().address("__truncsfbf2") and library().address("__truncdfbf2")


def test_missing_scipy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.linalg.cython_lapack", None)
    with pytest.raises(CompileError, match=r"calls dgesdd .*pip install 'scipy"):
        symbols._cython_address("scipy.linalg.cython_lapack", "dgesdd")
