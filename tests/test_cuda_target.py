"""`xjit.compile(..., "cuda")` from HLO to results, on a driver that simulates kernels: no test here runs on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.runtime.test_cuda import copy_in
from tests.support.fake_cuda import FakeDriver
from xjit.gpu_compiler import DeviceExecutable
from xjit.runtime.cuda import DeviceArray

SOFTMAX = """
HloModule softmax
maximum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[5,100] parameter(0)
  lowest = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[5] reduce(x, lowest), dimensions={1}, to_apply=maximum
  mb = f32[5,100] broadcast(m), dimensions={0}
  s = f32[5,100] subtract(x, mb)
  e = f32[5,100] exponential(s)
  d = f32[5] reduce(e, zero), dimensions={1}, to_apply=add
  db = f32[5,100] broadcast(d), dimensions={0}
  ROOT r = f32[5,100] divide(e, db)
}
"""
POWER = """
HloModule power
condition { p = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0)
  ROOT l = pred[] compare(i, zero), direction=GT }
body { p = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] subtract(i, one)
  x = f32[64] get-tuple-element(p), index=1
  y = f32[64] add(x, x)
  ROOT t = (s32[], f32[64]) tuple(j, y) }
ENTRY main {
  n = s32[] parameter(0)
  x = f32[64] parameter(1)
  t = (s32[], f32[64]) tuple(n, x)
  ROOT w = (s32[], f32[64]) while(t), condition=condition, body=body
}
"""


def compiled(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[DeviceExecutable, FakeDriver]:
    """A module on the driver of tests, which must know its kernels."""
    simulated = xjit.compile(text, "cuda-sim:sm_90")
    driver = FakeDriver(simulated.program.program.kernels)  # type: ignore[union-attr]
    monkeypatch.setattr("xjit.gpu_compiler.cuda_driver", lambda device=0: driver)
    executable = xjit.compile(text, "cuda")
    assert isinstance(executable, DeviceExecutable)
    return executable, driver


def test_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    executable, driver = compiled(SOFTMAX, monkeypatch)
    x = np.random.default_rng(0).random((5, 100), np.float32)
    expected = xjit.evaluate(xjit.parse_hlo(SOFTMAX), x)
    np.testing.assert_allclose(executable(x), expected, rtol=1e-6)
    given = copy_in(driver, x)
    result = executable(given, stream=12)
    assert isinstance(result, DeviceArray)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    np.testing.assert_allclose(executable.capture(given)(), expected, rtol=1e-6)
    assert ".entry" in executable.as_text("ptx") and len(executable.kernels) >= 1
    with pytest.raises(xjit.InvalidArgument, match="parameter 0 cannot be donated"):
        executable(x, donate=[0])


def test_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    executable, _ = compiled(POWER, monkeypatch)
    x = np.arange(64, dtype=np.float32)
    for n in (0, 1, 5):
        left, result = executable(np.int32(n), x)
        assert left == 0 and (result == x * 2**n).all()


STATE = """
HloModule state, input_output_alias={ {0}: (0, {}, ALIAS) }
ENTRY main {
  s = f32[64] parameter(0)
  x = f32[64] parameter(1)
  t = f32[64] add(s, x)
  u = f32[64] multiply(t, x)
  ROOT r = (f32[64], f32[64]) tuple(t, u)
}
"""


@pytest.mark.parametrize("alias", ["may-alias", "must-alias"])
def test_donated_arguments_are_the_results(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executable, driver = compiled(STATE.replace("ALIAS", alias), monkeypatch)
    s, x = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    expected = (s + x, (s + x) * x)
    on_host = s.copy()
    results = executable(on_host, x, donate=[0])
    assert results[0] is on_host
    for actual, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(actual, value)
    on_device = copy_in(driver, s)
    results = executable(on_device, x, donate=[0])
    assert results[0].address == on_device.address
    for actual, value in zip(results, expected, strict=True):
        np.testing.assert_array_equal(actual.copy_to_host(), value)
    with pytest.raises(xjit.InvalidArgument, match="donated parameter 's' shares its memory with 'x'"):
        executable(on_device, on_device, donate=[0])
    if alias == "must-alias":
        with pytest.raises(xjit.FailedPrecondition, match="parameter 0 must be donated"):
            executable(s, x)
        with pytest.raises(xjit.FailedPrecondition, match="it cannot be a graph"):
            executable.capture(on_device, on_device)
    else:
        np.testing.assert_array_equal(executable(s, x)[1], expected[1])


@pytest.mark.parametrize("alias", ["may-alias", "must-alias"])
def test_donations_to_a_simulated_gpu(alias: str) -> None:
    executable = xjit.compile(STATE.replace("ALIAS", alias), "cuda-sim", options=xjit.CompileOptions(sanitize=True))
    s, x = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    given = s.copy()
    results = executable(given, x, donate=[0])
    assert results[0] is given and (given == s + x).all() and (results[1] == (s + x) * x).all()
