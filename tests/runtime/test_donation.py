"""Donated arguments are overwritten by the results that alias them; without donation nothing is."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.runtime.executable import CpuExecutable

STEP = """HloModule step, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, KIND) }
ENTRY e {
  w = f32[64,64] parameter(0)
  n = s32[] parameter(1)
  x = f32[64,64] parameter(2)
  one = s32[] constant(1)
  g = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = f32[64,64] subtract(w, g)
  m = s32[] add(n, one)
  ROOT t = (f32[64,64], s32[]) tuple(u, m)
}"""
ROW = """HloModule row, buffer_donor={ (0, {}) }
ENTRY e {
  w = f32[512,64] parameter(0)
  u = f32[1,64] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT d = f32[512,64] dynamic-update-slice(w, u, i, z)
}"""
LOOP = """HloModule loop, buffer_donor={ (0, {}) }
body {
  p = (s32[], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[32] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[32] add(x, x)
  ROOT t = (s32[], f32[32]) tuple(j, d)
}
condition {
  p = (s32[], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[32] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[32]) tuple(z, x)
  w = (s32[], f32[32]) while(s), condition=condition, body=body
  ROOT r = f32[32] get-tuple-element(w), index=1
}"""


def step(kind: str = "may-alias") -> xjit.Executable:
    return xjit.compile(STEP.replace("KIND", kind))


def state() -> tuple[Any, Any]:
    return np.random.default_rng(0).standard_normal((64, 64), np.float32), np.array(3, np.int32)


X = np.random.default_rng(1).standard_normal((64, 64), np.float32)


@pytest.mark.parametrize("fast", [True, False])
def test_a_donated_array_is_the_result(fast: bool) -> None:
    program = step().program
    executable = CpuExecutable(program, fast=fast)
    w, n = state()
    expected = xjit.evaluate(STEP.replace("KIND", "may-alias"), w, n, X)
    kept = w.copy()
    first = executable(w, n, X)
    assert first[0] is not w and (w == kept).all()
    given = executable(w, n, X, donate=0)
    assert given[0] is w and given[1] is not n and n == 3
    assert given[0].tobytes() == first[0].tobytes()
    np.testing.assert_allclose(given[0], expected[0], rtol=1e-5, atol=1e-5)
    again = executable(w, n, X, donate=[0, 1])
    assert again[0] is w and again[1] is n and n == 4


@pytest.mark.parametrize("text", [ROW, LOOP])
def test_updates_and_loops_in_place(text: str) -> None:
    executable = xjit.compile(text)
    rng = np.random.default_rng(1)
    inputs: list[Any] = [rng.standard_normal((512, 64) if text is ROW else 32, np.float32)]
    if text is ROW:
        inputs += [np.ones((1, 64), np.float32), np.array(17, np.int32)]
    fresh = executable(*inputs)
    donated = executable(*inputs, donate=[0])
    assert donated is inputs[0] and fresh is not donated
    assert fresh.tobytes() == donated.tobytes()


def test_what_must_be_donated() -> None:
    executable = step("must-alias")
    w, n = state()
    with pytest.raises(xjit.FailedPrecondition, match=r"parameter 1 must be donated: call with donate=\[1\]"):
        executable(w, n, X)
    assert executable(w, n, X, donate=[1])[1] is n and n == 4


def test_misuse() -> None:
    executable = step()
    w, n = state()
    frozen = w.copy()
    frozen.flags.writeable = False
    both = xjit.compile("""HloModule m, buffer_donor={ (0, {}) }
ENTRY e { x = f32[64,64] parameter(0) y = f32[64,64] parameter(1) ROOT r = f32[64,64] add(x, y) }""")
    plain = xjit.compile("ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }")
    for call, message in [
        (lambda: executable(frozen, n, X, donate=0), "donated parameter 'w': .*read-only"),
        (lambda: executable(w.view(np.recarray), n, X, donate=0), "which is no NumPy array"),
        (lambda: executable(np.asfortranarray(w), n, X, donate=0), "not contiguous"),
        (lambda: executable(w, n, X, donate=3), "donate=3: the program has 3 parameters"),
        (lambda: both(w, w, donate=0), "donated parameter 'x' shares its memory with 'y'"),
        (lambda: plain(np.ones(4, np.float32), donate=0), "parameter 0 cannot be donated"),
    ]:
        with pytest.raises(xjit.InvalidArgument, match=message):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'donated'"):
        executable(w, n, X, donated=0)


def test_memory_analysis_counts_aliased_results() -> None:
    analysis = step().memory_analysis()
    assert analysis.alias_size_in_bytes == analysis.output_size_in_bytes == 64 * 64 * 4 + 4


def test_programs_keep_their_aliases() -> None:
    executable = CpuExecutable(pickle.loads(pickle.dumps(step().program)))
    w, n = state()
    assert executable(w, n, X, donate=0)[0] is w
