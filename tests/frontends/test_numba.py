"""Executables inside of numba's compiled code, and numba's functions inside of executables. Most are `slow`."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.frontends.numba_calls import numba_function
from xjit.hlo.diagnostics import Unsupported

numba: Any = pytest.importorskip("numba")
xjit.enable_numba()

SCALED = xjit.compile(
    """
ENTRY e {
  x = f32[4,8] parameter(0)
  y = f32[8] parameter(1)
  s = f32[] parameter(2)
  b = f32[4,8] broadcast(y), dimensions={1}
  c = f32[4,8] broadcast(s), dimensions={}
  m = f32[4,8] multiply(x, b)
  ROOT r = f32[4,8] multiply(m, c)
}
"""
)
NESTED = xjit.compile(
    """
ENTRY e {
  p = (f64[3], (s32[2,2], pred[])) parameter(0)
  x = f64[3] get-tuple-element(p), index=0
  q = (s32[2,2], pred[]) get-tuple-element(p), index=1
  i = s32[2,2] get-tuple-element(q), index=0
  c = pred[] get-tuple-element(q), index=1
  z = c64[] parameter(1)
  n = s32[2,2] negate(i)
  t = (s32[2,2], pred[], c64[]) tuple(n, c, z)
  y = f64[3] add(x, x)
  ROOT r = (f64[3], (s32[2,2], pred[], c64[]), ()) tuple(y, t, e)
}
""".replace("  y = f64[3]", "  e = () tuple()\n  y = f64[3]")
)
X, Y = np.arange(32, dtype=np.float32).reshape(4, 8), np.linspace(0, 1, 8, dtype=np.float32)


def test_a_loop_of_calls() -> None:
    @numba.njit
    def iterate(x: Any, y: Any) -> Any:
        for _ in range(3):
            x = SCALED(x, y, 2.0)
        return x

    expected = X
    for _ in range(3):
        expected = SCALED(expected, Y, 2.0)
    np.testing.assert_array_equal(iterate(X, Y), expected)


@pytest.mark.slow
def test_nothing_of_python_in_between() -> None:
    @numba.njit(nogil=True)
    def call(x: Any, y: Any) -> Any:
        return SCALED(x, y, np.float32(1))

    np.testing.assert_array_equal(call(X, Y), X * Y)
    (ir,) = call.inspect_llvm().values()
    assert "PyObject_Call" not in ir
    assert f"{SCALED.entry.address}" in ir


@pytest.mark.slow
def test_executables_as_arguments_and_nested_tuples() -> None:
    @numba.njit
    def call(exe: Any, x: Any, i: Any, z: Any) -> Any:
        return exe((x, (i, True)), z)

    x, i = np.arange(3.0), np.arange(4, dtype=np.int32).reshape(2, 2)
    y, (n, c, z), empty = call(NESTED, x, i, np.complex64(1 + 2j))
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(n, -i)
    assert (bool(c), complex(z), empty) == (True, 1 + 2j, ())


@pytest.mark.slow
def test_any_strides() -> None:
    exe = xjit.compile("ENTRY e { x = f32[4,4] parameter(0) ROOT n = f32[4,4] negate(x) }")
    call, block = numba.njit(lambda x: exe(x)), np.arange(64, dtype=np.float32).reshape(8, 8)
    for x in (block[:4, :4], block[3::-1, :4], block[:4, :4].T, block[::2, ::2]):
        np.testing.assert_array_equal(call(x), -x)


@pytest.mark.slow
def test_unaligned_arrays_and_other_layouts() -> None:
    exe = xjit.compile(
        "HloModule m, entry_computation_layout={(f32[3,5]{0,1})->f32[3,5]{0,1}}\n"
        "ENTRY e { x = f32[3,5]{0,1} parameter(0) ROOT n = f32[3,5]{0,1} negate(x) }"
    )
    block = np.arange(16, dtype=np.float32)
    x = block[1:].reshape(3, 5)
    call = numba.njit(lambda x: exe(x))
    np.testing.assert_array_equal(call(x), -x)
    np.testing.assert_array_equal(call(np.asfortranarray(x)), -x)
    flat = xjit.compile("ENTRY e { x = f32[15] parameter(0) ROOT n = f32[15] negate(x) }")
    np.testing.assert_array_equal(numba.njit(lambda x: flat(x))(block[1:]), -block[1:])


@pytest.mark.slow
def test_temporary_memory_and_no_parameters() -> None:
    exe = xjit.compile(
        """
greater { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GT }
ENTRY e {
  i = f32[64] iota(), iota_dimension=0
  s = f32[64] sort(i), dimensions={0}, to_apply=greater
  ROOT m = f32[64] multiply(s, s)
}
"""
    )
    assert exe.program.arena_size > 0
    np.testing.assert_array_equal(numba.njit(lambda: exe())(), np.arange(63.0, -1, -1) ** 2)


def test_mistakes() -> None:
    call = numba.njit(lambda x, y: SCALED(x, y, 1.0))
    with pytest.raises(
        numba.TypingError, match=r"parameter 0 'x' of 'module_e': expected f32\[4,8\], got array\(float64"
    ):
        call(X.astype(np.float64), Y)
    with pytest.raises(numba.TypingError, match="expected f32"):
        call(X[0], Y)
    with pytest.raises(ValueError, match=r"parameter 1 'y' of 'module_e': expected f32\[8\]"):
        call(X, Y[:4])
    half = xjit.compile("ENTRY e { x = bf16[4] parameter(0) ROOT n = bf16[4] negate(x) }")
    with pytest.raises(xjit.Unsupported, match="numba has no arrays of bfloat16"):
        numba_function(half)


@pytest.mark.slow
def test_failures_at_run_time() -> None:
    exe = xjit.compile(_failing_text())
    with pytest.raises(xjit.ExecutionError, match="failed"):
        numba.njit(lambda x: exe(x))(np.zeros(4, np.float32))


def test_a_cfunc_is_a_custom_call_target_in_two_lines() -> None:
    @numba.cfunc("void(CPointer(float32), CPointer(CPointer(float32)))")
    def square(result: Any, operands: Any) -> None:
        x, y = numba.carray(operands[0], 4), numba.carray(result, 4)
        for i in range(4):
            y[i] = x[i] * x[i]

    xjit.register_custom_call_target("test_numba_square", square)
    exe = xjit.compile(
        'ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] custom-call(x), custom_call_target="test_numba_square" }'
    )
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(exe(x), x * x)
    np.testing.assert_array_equal(numba.njit(lambda x: exe(x))(x), x * x)


def _failing_text() -> str:
    """A program whose only step fails: a custom call with a status."""
    message = ctypes.create_string_buffer(b"no")

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    def fail(result: Any, operands: Any, status: int) -> None:
        xjit.custom_call_status_set_failure(status, ctypes.addressof(message), 2)

    xjit.register_custom_call_target("test_numba_fail", fail)
    return (
        'ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] custom-call(x), custom_call_target="test_numba_fail", '
        "api_version=API_VERSION_STATUS_RETURNING }"
    )


def test_a_program_of_several_devices() -> None:
    text = "HloModule two, replica_count=2\n\nENTRY e {\n  ROOT id = u32[] replica-id()\n}\n"
    with pytest.raises(Unsupported, match="program 'two' runs on 2 devices, numba code on one"):
        numba_function(xjit.compile(text))
