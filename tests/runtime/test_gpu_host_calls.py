"""Steps of GPU programs that the host does: registered functions, and collectives of several devices.

Each program runs on the simulator, and by the runtime for GPUs on drivers of its own. Nothing runs on a GPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import xjit
from tests.runtime.test_collectives import REDUCTIONS, inputs_of, reduction
from tests.support.fake_cuda import FakeDriver
from tests.support.kernels import leaves_of, random_inputs
from xjit.gpu_compiler import DeviceExecutable, SimulatedExecutable, compile_for_gpu
from xjit.hlo.custom_call_registry import custom_call_status_set_failure
from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition, InvalidArgument
from xjit.runtime.cuda import CudaExecutable
from xjit.text.parser import parse_hlo

P = ctypes.c_void_p
Floats = ctypes.POINTER(ctypes.c_float)
seen: list[float] = []


@ctypes.CFUNCTYPE(None, Floats, ctypes.POINTER(Floats))
def _add_rows(result: Any, operands: Any) -> None:
    seen.append(operands[0][0])
    for i in range(6):
        result[i] = operands[0][i] + 10 * operands[1][i]


@ctypes.CFUNCTYPE(None, ctypes.POINTER(Floats), ctypes.POINTER(Floats))
def _divmod(results: Any, operands: Any) -> None:
    for i in range(6):
        results[0][i], results[1][i] = divmod(operands[0][i], 2.0)


@ctypes.CFUNCTYPE(None, Floats, ctypes.POINTER(Floats), P, ctypes.c_size_t, P)
def _fail_if_negative(result: Any, operands: Any, opaque: int, length: int, status: int) -> None:
    if operands[0][0] < 0:
        message = b"negative: " + ctypes.string_at(opaque, length)
        custom_call_status_set_failure(status, message, len(message))
    result[0] = operands[0][0]


@pytest.fixture(autouse=True, scope="module")
def _targets() -> None:
    xjit.register_custom_call_target("gpu.add_rows", _add_rows)
    xjit.register_custom_call_target("gpu.divmod", _divmod)
    xjit.register_custom_call_target("gpu.fail", _fail_if_negative)


def compiled(text: str) -> SimulatedExecutable:
    """The program for the simulator."""
    return compile_for_gpu(parse_hlo(text), "sm_90", xjit.CompileOptions())


def on_fake_gpu(executable: SimulatedExecutable) -> tuple[CudaExecutable, FakeDriver]:
    """The program on a driver of its own."""
    kernels = executable.program.program.kernels
    driver = FakeDriver(kernels)
    return CudaExecutable(executable.program, {name: name.encode() for name in kernels}, driver), driver


ONE = """HloModule m
ENTRY e { x = f32[2,3] parameter(0)
  y = f32[2,3] negate(x)
  s = f32[2,3] custom-call(y, y), custom_call_target="gpu.add_rows"
  ROOT r = f32[2,3] add(s, x) }"""
ALIASED = """HloModule m
ENTRY e { x = f32[6] parameter(0)
  y = f32[6] negate(x)
  d = (f32[6], f32[6]) custom-call(y), custom_call_target="gpu.divmod", output_to_operand_aliasing={{0}: (0, {})}
  q = f32[6] get-tuple-element(d), index=0
  m = f32[6] get-tuple-element(d), index=1
  ROOT r = f32[6] subtract(q, m) }"""
IN_A_LOOP = """HloModule m
c { s = (s32[], f32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT l = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[6] get-tuple-element(s), index=1
  y = f32[6] custom-call(x, x), custom_call_target="gpu.add_rows"
  h = f32[] constant(0.125)
  hs = f32[6] broadcast(h), dimensions={}
  z = f32[6] multiply(y, hs)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[6]) tuple(j, z) }
ENTRY e { x = f32[6] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[6]) tuple(zero, x)
  w = (s32[], f32[6]) while(t), condition=c, body=b
  ROOT r = f32[6] get-tuple-element(w), index=1 }"""


@pytest.mark.parametrize("text", [ONE, ALIASED, IN_A_LOOP], ids=["repeated operand", "aliased", "in a loop"])
def test_registered_functions_are_called_in_order(text: str) -> None:
    module = parse_hlo(text)
    inputs, executable = random_inputs(module), compiled(text)
    expected = leaves_of(xjit.evaluate(module, *inputs))
    on_gpu, driver = on_fake_gpu(executable)
    assert not on_gpu.is_static
    for found in (executable(*inputs), on_gpu(*inputs)):
        for a, e in zip(leaves_of(found), expected, strict=True):
            np.testing.assert_array_equal(a, e)
    if text is ONE:
        order = [entry[0] for entry in driver.log if entry[0] in ("launch", "to_host", "to_device", "synchronize")]
        round_trip = ["launch", "to_host", "synchronize", "to_device", "synchronize", "launch"]
        assert round_trip in [order[n : n + 6] for n in range(len(order))]
        with pytest.raises(FailedPrecondition, match="steps of the host: it cannot be a graph"):
            on_gpu.capture(*on_gpu.to_device(*inputs))


def test_a_function_that_fails_is_an_error_with_its_message() -> None:
    executable = compiled("""HloModule m
ENTRY e { x = f32[1] parameter(0)
  ROOT r = f32[1] custom-call(x), custom_call_target="gpu.fail", api_version=API_VERSION_STATUS_RETURNING_UNIFIED,
    backend_config="why" }""")
    on_gpu, _ = on_fake_gpu(executable)
    for run in (executable, on_gpu):
        assert run(np.ones(1, np.float32)) == 1
        with pytest.raises(ExecutionError, match=r"custom-call to 'gpu\.fail' failed: negative: why"):
            run(-np.ones(1, np.float32))


# -- several devices


def on_fake_gpus(executable: SimulatedExecutable) -> DeviceExecutable:
    """The program on as many drivers as it has devices."""
    drivers = [FakeDriver(executable.program.program.kernels) for _ in range(executable.program.num_devices)]
    return DeviceExecutable(executable, lambda number: drivers[number])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["small", "no elements", *(pytest.param(n, marks=pytest.mark.slow) for n in ("groups of two sizes", "scatter"))],
)
def test_reductions_have_the_bits_of_the_evaluator(name: str) -> None:
    instruction, kind, reducer, dims = REDUCTIONS[name]
    text = reduction(instruction, kind, reducer, dims, "replica_count=4")
    module, executable = parse_hlo(text), compiled(text)
    inputs = inputs_of(module, 4)
    expected = xjit.evaluate(module, inputs)
    for run in (executable, on_fake_gpus(executable)):
        for got, wanted in zip(run.execute_sharded(inputs), expected, strict=True):
            assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes()


MANY = """HloModule m, replica_count=2, num_partitions=2
ENTRY e { x = f32[4] parameter(0)
  r = u32[] replica-id()
  p = u32[] partition-id()
  g = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
  a = f32[4] all-to-all(x), replica_groups={{1,0}}, dimensions={0}
  c = f32[4] collective-permute(x), source_target_pairs={{0,1}}
  ROOT t = (u32[], u32[], f32[8], f32[4], f32[4]) tuple(r, p, g, a, c) }"""


def test_devices_have_their_numbers_and_exchange_data() -> None:
    module, executable = parse_hlo(MANY), compiled(MANY)
    inputs = inputs_of(module, 4)
    expected = leaves_of(tuple(xjit.evaluate(module, inputs)))
    assert "collective @all-gather" in executable.as_text("thunks")
    for run in (executable, on_fake_gpus(executable)):
        found = leaves_of(tuple(run.execute_sharded(inputs)))
        assert [a.tobytes() for a in found] == [e.tobytes() for e in expected]


def test_what_is_wrong_names_the_device_and_the_number_of_them() -> None:
    executable = compiled(MANY)
    for run in (executable, on_fake_gpus(executable)):
        with pytest.raises(InvalidArgument, match=r"runs on 4 devices .*: call execute_sharded"):
            run(np.zeros(4, np.float32))
        with pytest.raises(InvalidArgument, match="got inputs for 1"):
            run.execute_sharded([[np.zeros(4, np.float32)]])
        with pytest.raises(InvalidArgument, match=r"device 2: parameter 0 'x': expected f32\[4\]"):
            run.execute_sharded([[np.zeros(5 if n == 2 else 4, np.float32)] for n in range(4)])


FAILING = """HloModule m, replica_count=3
ENTRY e { x = f32[1] parameter(0)
  y = f32[1] custom-call(x), custom_call_target="gpu.fail", api_version=API_VERSION_STATUS_RETURNING_UNIFIED
  ROOT g = f32[3] all-gather(y), replica_groups={}, dimensions={0} }"""


def test_a_failure_on_one_device_ends_all() -> None:
    executable = compiled(FAILING)
    for run in (executable, on_fake_gpus(executable)):
        with pytest.raises(ExecutionError, match="failed: negative"):
            run.execute_sharded([[np.full(1, 1 - 2 * (n == 1), np.float32)] for n in range(3)])
