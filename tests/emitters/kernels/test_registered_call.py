"""Custom calls to registered functions: compiled and evaluated, arrays and tuples, layouts, refusals."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo import custom_call_registry

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


STATUS = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p)
UNIFIED = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
)


@STATUS
def _root(result: Any, operands: int, status: int) -> None:
    """The square root of the first operand; fails if it is negative."""
    first = ctypes.cast(operands, ctypes.POINTER(ctypes.POINTER(ctypes.c_float)))[0][0]
    if first < 0:
        message = f"no root of {first:g}: \u221a".encode()
        xjit.custom_call_status_set_failure(status, message, len(message))
        return
    result[0] = first**0.5


@UNIFIED
def _say(result: Any, _operands: int, opaque: int, length: int, status: int) -> None:
    """The length of its opaque text; fails with it if it begins with `fail`."""
    text = ctypes.string_at(opaque, length)
    if text.startswith(b"fail"):
        xjit.custom_call_status_set_failure(status, text, length)
    result[0] = length


@pytest.fixture(autouse=True, scope="module")
def _status_targets() -> None:
    xjit.register_custom_call_target("test.root", _root)
    xjit.register_custom_call_target("test.say", _say)


ROOT = """HloModule roots
ENTRY e {
  x = f32[1] parameter(0)
  y = f32[1] parameter(1)
  a = f32[1] custom-call(x), custom_call_target="test.root", api_version=API_VERSION_STATUS_RETURNING
  b = f32[1] custom-call(y), custom_call_target="test.root", api_version=API_VERSION_STATUS_RETURNING, metadata={op_name="jit(f)/root" source_file="model.py" source_line=12}
  ROOT s = f32[1] add(a, b)
}"""


@pytest.mark.unguarded  # the second call of a guarded one would hide the failure of the first
@pytest.mark.parametrize("interpreted", [False, True])
def test_a_call_that_fails_is_an_error_with_its_message_and_place(interpreted: bool) -> None:
    executable = xjit.compile(ROOT)
    run = executable.run_thunks if interpreted else executable
    four, minus = np.array([4], np.float32), np.array([-4], np.float32)
    for _ in range(3):
        assert run(four, four)[0] == 4
        with pytest.raises(xjit.ExecutionError) as caught:
            run(four, minus)
        error = caught.value
        assert "failed at b: CUSTOM_CALL_FAILED: a custom call failed: no root of -4: \u221a" in error.message
        assert (error.line, error.notes) == (6, ("from model.py:12 (jit(f)/root)",))
        with pytest.raises(xjit.ExecutionError, match=r"failed at a: .*no root of -4"):
            run(minus, four)


def test_a_call_that_fails_evaluated() -> None:
    four, minus = np.array([4], np.float32), np.array([-4], np.float32)
    assert xjit.evaluate(ROOT, four, four)[0] == 4
    with pytest.raises(xjit.ExecutionError, match=r"custom-call to 'test.root' failed: no root of -4") as caught:
        xjit.evaluate(ROOT, minus, four)
    assert caught.value.line == 5


@pytest.mark.unguarded
@pytest.mark.parametrize("opaque", ["", "abc", "fail: x"])
def test_a_call_gets_its_opaque_text(opaque: str) -> None:
    text = (
        "HloModule m ENTRY e { x = f32[1] parameter(0) ROOT r = f32[1] custom-call(x), "
        f'custom_call_target="test.say", api_version=API_VERSION_STATUS_RETURNING_UNIFIED, backend_config="{opaque}" }}'
    )
    x = np.zeros(1, np.float32)
    for run in (xjit.compile(text), lambda x: xjit.evaluate(text, x)):
        if opaque.startswith("fail"):
            with pytest.raises(xjit.ExecutionError, match="fail: x"):
                run(x)
        else:
            assert run(x)[0] == len(opaque)


def test_messages_that_nobody_takes_do_not_pile_up() -> None:
    status = ctypes.c_int64()
    for _ in range(custom_call_registry.MAX_MESSAGES + 10):
        xjit.custom_call_status_set_failure(ctypes.addressof(status), b"lost", 4)
    assert len(custom_call_registry._messages) <= custom_call_registry.MAX_MESSAGES
    assert custom_call_registry.take_failure_message(status.value) == "lost"
    assert custom_call_registry.take_failure_message(status.value) == ""
