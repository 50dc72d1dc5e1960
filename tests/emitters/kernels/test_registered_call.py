"""Custom calls to registered functions: compiled and evaluated, arrays and tuples, layouts, refusals."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.kernels import check

Signature = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.POINTER(ctypes.c_float)))
Tuple = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.POINTER(ctypes.c_float)), ctypes.POINTER(ctypes.POINTER(ctypes.c_float))
)


@Signature
def _weighted_sum(result: Any, operands: Any) -> None:
    for i in range(6):
        result[i] = operands[0][i] + (i + 1) * operands[1][i]


@Tuple
def _divmod(results: Any, operands: Any) -> None:
    for i in range(6):
        results[0][i], results[1][i] = divmod(operands[0][i], 2.0)


@pytest.fixture(autouse=True, scope="module")
def _targets() -> None:
    xjit.register_custom_call_target("test.weighted_sum", _weighted_sum)
    xjit.register_custom_call_target("test.divmod", ctypes.cast(_divmod, ctypes.c_void_p).value)


def test_array_and_repeated_operand() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (result,) = check(
        "ENTRY e {\n  x = f32[2,3] parameter(0)\n  y = f32[2,3] negate(x)\n  s = f32[2,3] custom-call(y, y), "
        'custom_call_target="test.weighted_sum"\n  ROOT r = f32[2,3] add(s, x)\n}',
        x,
    )
    np.testing.assert_array_equal(result, x - x * np.arange(2, 8, dtype=np.float32).reshape(2, 3))


def test_tuple() -> None:
    x = np.array([1, -1, 2.5, 7, 0, 3], np.float32)
    quotient, rest = check(
        "ENTRY e {\n  x = f32[6] parameter(0)\n  ROOT d = (f32[6], f32[6]) custom-call(x), "
        'custom_call_target="test.divmod"\n}',
        x,
    )
    np.testing.assert_array_equal(np.stack([quotient, rest]), np.stack(np.divmod(x, 2)))


def test_layouts() -> None:
    """The function sees the operand's columns one after the other, and gives rows."""
    x, y = (np.arange(6, dtype=np.float32).reshape(2, 3) * k for k in (1, 10))
    (result,) = check(
        "ENTRY e {\n  x = f32[2,3] parameter(0)\n  y = f32[2,3] parameter(1)\n  ROOT s = f32[2,3]{1,0} custom-call(x, y), "
        'custom_call_target="test.weighted_sum", operand_layout_constraints={f32[2,3]{0,1}, f32[2,3]{1,0}}\n}',
        x,
        y,
    )
    want = x.ravel(order="F") + np.arange(1, 7) * y.ravel()
    np.testing.assert_array_equal(result.ravel(), want)


def test_numba_cfunc() -> None:
    numba = pytest.importorskip("numba")
    types = numba.types

    @numba.cfunc(types.void(types.CPointer(types.float64), types.CPointer(types.CPointer(types.float64))))
    def cube(result: Any, operands: Any) -> None:
        for i in range(4):
            result[i] = operands[0][i] ** 3

    xjit.register_custom_call_target("test.cube", cube)
    text = 'ENTRY e {\n  x = f64[4] parameter(0)\n  ROOT c = f64[4] custom-call(x), custom_call_target="test.cube"\n}'
    np.testing.assert_array_equal(check(text, np.arange(4.0))[0], np.arange(4.0) ** 3)
    assert [k.kind for k in xjit.compile(text).kernels] == ["custom-call"]


def test_other_interfaces_are_refused() -> None:
    text = (
        "ENTRY e {\n  x = f32[6] parameter(0)\n  ROOT d = (f32[6], f32[6]) custom-call(x), "
        'custom_call_target="test.divmod", api_version=API_VERSION_TYPED_FFI\n}'
    )
    for run in (xjit.compile, lambda t: xjit.evaluate(xjit.parse_hlo(t), np.zeros(6, np.float32))):
        with pytest.raises(xjit.Unsupported, match="API_VERSION_ORIGINAL"):
            run(text)


@pytest.mark.parametrize("function", [len, 0, True, "f", lambda: None])
def test_functions_must_be_native(function: Any) -> None:
    with pytest.raises(xjit.InvalidArgument, match="native function"):
        xjit.register_custom_call_target("test.bad", function)


def test_names() -> None:
    with pytest.raises(xjit.InvalidArgument, match="registered already"):
        xjit.register_custom_call_target("test.divmod", 4096)
    with pytest.raises(xjit.InvalidArgument, match="letters"):
        xjit.register_custom_call_target("two words", 4096)
    text = 'ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] custom-call(x), custom_call_target="nobody"\n}'
    with pytest.raises(xjit.Unsupported, match=r"test\.divmod"):
        xjit.compile(text)


@Tuple
def _accumulate(results: Any, operands: Any) -> None:
    """Adds its second operand to the first, in place: it never writes to its results otherwise."""
    del results
    for i in range(6):
        operands[0][i] += operands[1][i]


@pytest.mark.parametrize("keep", [False, True])
def test_results_that_alias_operands(keep: bool) -> None:
    """The function writes where its operand lies: that is the result's buffer, and the operand's own is kept."""
    xjit.register_custom_call_target("test.accumulate", _accumulate)
    x, y = np.arange(6, dtype=np.float32), np.full(6, 10, np.float32)
    results = check(
        "ENTRY e {\n  x = f32[6] parameter(0)\n  y = f32[6] parameter(1)\n  n = f32[6] negate(x)\n"
        '  c = (f32[6]) custom-call(n, y), custom_call_target="test.accumulate", '
        "output_to_operand_aliasing={{0}: (0, {})}\n  g = f32[6] get-tuple-element(c), index=0\n"
        f"  ROOT t = (f32[6], f32[6]) tuple(g, {'n' if keep else 'y'})\n}}",
        x,
        y,
    )
    np.testing.assert_array_equal(results[0], y - x)
    np.testing.assert_array_equal(results[1], -x if keep else y)
