"""Programs run thunk by thunk: the native entry's results, bit for bit, and what a callback sees on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xjit
from tests.emitters.test_unnested import BRANCHES, COUNT, layers
from xjit.runtime.calls.thunk_interpreter import ThunkStep
from xjit.thunks import KernelThunk

WHILE = f"""{COUNT}
ENTRY e {{
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  t = (s32[], f32[5]) tuple(i, x)
  ROOT w = (s32[], f32[5]) while(t), condition=cond, body=body
}}
"""
CHOICE = f"""{BRANCHES}
ENTRY e {{
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  c = f32[5] conditional(i, x, x, x), branch_computations={{double, same, none}}
  p = pred[] compare(i, i), direction=NE
  d = f32[5] conditional(p, c, c), true_computation=double, false_computation=same
  ROOT r = f32[5] subtract(d, x)
}}
"""
CALLS = f"""{BRANCHES}
ENTRY e {{
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  a = f32[5] call(x), to_apply=double
  b = f32[5] call(a), to_apply=double
  ROOT t = (f32[5], (f32[5], s32[])) tuple(a, (f32[5], s32[]) tuple(b, i))
}}
"""
RANDOM = """ENTRY e {
  i = s32[] parameter(0)
  x = f32[5] parameter(1)
  s = u64[2] rng-get-and-update-state(), delta=7
  t = u64[2] rng-get-and-update-state(), delta=7
  ROOT r = (u64[2], u64[2]) tuple(s, t)
}
"""


def bits(value: Any) -> Any:
    return tuple(map(bits, value)) if isinstance(value, tuple) else (value.dtype, value.shape, value.tobytes())


@pytest.mark.parametrize("text", [WHILE, CHOICE, CALLS, RANDOM], ids=["while", "conditional", "call", "rng"])
@pytest.mark.parametrize("start", [-1, 0, 1, 2, 7])
@pytest.mark.parametrize("fuse", [True, False])
def test_same_bits_as_the_native_entry(text: str, start: int, fuse: bool) -> None:
    exe = xjit.compile(text, options=xjit.CompileOptions(fusion=fuse))
    x = np.random.default_rng(0).standard_normal(5).astype(np.float32)
    assert bits(exe.run_thunks(np.int32(start), x)) == bits(exe(np.int32(start), x))


def test_kernels_that_the_entry_cuts_into_tasks() -> None:
    """The GEMM, and kernels of many units, with subnormals among the numbers: those are flushed."""
    exe = xjit.compile(layers(3, 300), options=xjit.CompileOptions(disabled_passes=("dot-epilogue-fusion",)))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((300, 300)).astype(np.float32) for _ in range(4)]
    arrays[0][::3] *= np.float32(1e-41)
    assert any(kernel.tasks > 1 for kernel in exe._emitted.thunks.kernel_thunks)
    assert bits(exe.run_thunks(*arrays)) == bits(exe(*arrays))


def test_programs_with_loops_nested_deeply() -> None:
    functions = "b0 { p = s32[] parameter(0)\n o = s32[] constant(1)\n ROOT r = s32[] add(p, o) }\n"
    functions += "c { p = s32[] parameter(0)\n z = s32[] constant(5)\n ROOT r = pred[] compare(p, z), direction=LT }\n"
    for i in range(1, 120):
        functions += f"b{i} {{ p = s32[] parameter(0)\n ROOT r = s32[] while(p), condition=c, body=b{i - 1} }}\n"
    text = f"HloModule m\n{functions}ENTRY e {{ p = s32[] parameter(0)\n ROOT r = s32[] while(p), condition=c, body=b119 }}"
    assert xjit.compile(text).run_thunks(np.int32(1)) == 5


LAYOUT = """HloModule m, entry_computation_layout={(f32[3,4]{1,0})->f32[4,3]{0,1}}
ENTRY e {
  x = f32[3,4] parameter(0)
  t = f32[4,3] transpose(x), dimensions={1,0}
  n = f32[4,3] negate(t)
  ROOT e = f32[4,3]{0,1} exponential(n)
}
"""


def test_a_callback_sees_what_each_kernel_reads_and_writes() -> None:
    exe = xjit.compile(LAYOUT, options=xjit.CompileOptions(fusion=False))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    seen: list[ThunkStep] = []
    values: dict[str, np.ndarray] = {}

    def on_thunk(step: ThunkStep) -> None:
        seen.append(step)
        values[step.thunk.instruction] = step.results[0]
        if step.thunk.instruction == "n":
            np.testing.assert_array_equal(step.operands[0], x.T)

    result = exe.run_thunks(x, on_thunk=on_thunk)
    kernels = [step.thunk.kernel for step in seen if isinstance(step.thunk, KernelThunk)]
    assert kernels == [kernel.name for kernel in exe.kernels]
    assert all(step.seconds > 0 for step in seen)
    np.testing.assert_array_equal(values["n"], -x.T)
    np.testing.assert_array_equal(values["e"], result)


def test_a_loop_is_seen_round_by_round() -> None:
    exe = xjit.compile(WHILE, options=xjit.CompileOptions(fusion=False))
    counts: list[int] = []

    def on_thunk(step: ThunkStep) -> None:
        if step.thunk.instruction == "k":
            counts.append(int(step.results[0]))

    exe.run_thunks(np.int32(7), np.zeros(5, np.float32), on_thunk=on_thunk)
    assert counts == [8, 9, 10]


def test_what_a_callback_raises_ends_the_run() -> None:
    exe = xjit.compile(LAYOUT)

    def stop(step: ThunkStep) -> None:
        raise LookupError(step.thunk.instruction)

    with pytest.raises(LookupError):
        exe.run_thunks(np.ones((3, 4), np.float32), on_thunk=stop)


def test_arguments_are_checked() -> None:
    exe = xjit.compile(LAYOUT)
    with pytest.raises(xjit.InvalidArgument, match="x"):
        exe.run_thunks(np.ones((3, 5), np.float32))
