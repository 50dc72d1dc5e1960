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
    monkeypatch.setattr("xjit.gpu_compiler.cuda_driver", lambda: driver)
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
    with pytest.raises(xjit.Unsupported, match="cannot be donated"):
        executable(x, donate=[0])


def test_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    executable, _ = compiled(POWER, monkeypatch)
    x = np.arange(64, dtype=np.float32)
    for n in (0, 1, 5):
        left, result = executable(np.int32(n), x)
        assert left == 0 and (result == x * 2**n).all()
