"""Programs on several devices at run time: their bits, failures and interrupts. Values: `ops/evaluation/test_devices`."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import xjit
from tests.runtime.test_cancel import interrupt
from xjit.hlo.diagnostics import ExecutionError, InvalidArgument, Unsupported
from xjit.runtime.collectives.communicator import Communicator, StoppedError
from xjit.runtime.collectives.movement import Places, move
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.program_file import program_from_bytes, program_to_bytes
from xjit.thunks import CollectiveThunk
from xjit.thunks.collective_spec import CollectiveSpec, MovedArray, collective_spec_from_text

F32 = np.float32
REDUCERS = {"add": "add(a, b)", "maximum": "maximum(a, b)", "subtract": "subtract(a, b)"}


def reduction(instruction: str, kind: str, reducer: str, dims: str, header: str) -> str:
    return (
        f"HloModule m, {header}\nf {{ a = {kind}[] parameter(0) b = {kind}[] parameter(1) "
        f"ROOT r = {kind}[] {REDUCERS[reducer]} }}\n"
        f"ENTRY e {{ x = {kind}[{dims}] parameter(0) ROOT r = {kind}{instruction}, to_apply=f }}"
    )


def inputs_of(module: xjit.HloModule, count: int) -> list[list[np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(7)
    shapes = [p.shape for p in module.entry_computation.parameter_instructions]
    return [[(rng.standard_normal(s.dimensions) * 9).astype(s.dtype) for s in shapes] for _ in range(count)]


REDUCTIONS = {
    "small": ("[3,5] all-reduce(x), replica_groups={{0,2},{3,1}}", "f32", "add", "3,5"),
    "large, in shares": ("[301,77] all-reduce(x), replica_groups={{2,0},{1,3}}", "f32", "add", "301,77"),
    "large, of all": ("[100,91] all-reduce(x), replica_groups={}", "f64", "subtract", "100,91"),
    "groups of two sizes": ("[4,3] all-reduce(x), replica_groups={{3,0,1},{2}}", "bf16", "subtract", "4,3"),
    "integers": ("[4096,9] all-reduce(x), replica_groups={{0,1,2,3}}", "s32", "maximum", "4096,9"),
    "no elements": ("[0,3] all-reduce(x), replica_groups={}", "f32", "add", "0,3"),
    "scatter": ("[3,2,5] reduce-scatter(x), dimensions={1}, replica_groups={{3,1,0,2}}", "f16", "add", "3,8,5"),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_have_the_bits_of_the_evaluator(name: str) -> None:
    instruction, kind, reducer, dims = REDUCTIONS[name]
    module = xjit.parse_hlo(reduction(instruction, kind, reducer, dims, "replica_count=4"))
    inputs, executable = inputs_of(module, 4), xjit.compile(module)
    expected = xjit.evaluate(module, inputs)
    for _ in range(3):
        for got, wanted in zip(executable.execute_sharded(inputs), expected, strict=True):
            assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes()


def test_thunks_say_who_meets() -> None:
    text = reduction("[2] all-reduce(x), replica_groups={{1,0},{2,3}}", "f32", "add", "2", "replica_count=4")
    executable = xjit.compile(text)
    (thunk,) = [t for t in executable._emitted.thunks.kernel_thunks if isinstance(t, CollectiveThunk)]
    assert thunk.spec.groups == ((1, 0), (2, 3)) and thunk.spec.opcode == "all-gather"
    assert "devices={{1,0},{2,3}}" in executable.as_text("thunks")
    with pytest.raises(InvalidArgument, match="runs on 4 devices"):
        executable.run_thunks(np.zeros(2, F32))


def test_a_spec_is_read_back() -> None:
    spec = CollectiveSpec("collective-permute", "r", -1, ((0, 1),), (MovedArray(1, 8),), pairs=((0, 1), (1, 0)))
    assert collective_spec_from_text(spec.to_text()) == spec


def test_a_program_of_several_devices_is_read_back() -> None:
    text = reduction("[2] all-reduce(x), replica_groups={}", "f32", "add", "2", "replica_count=3")
    program = program_from_bytes(program_to_bytes(xjit.compile(text).program))
    results = CpuExecutable(program).execute_sharded([[np.full(2, n, F32)] for n in range(3)])
    assert [r.tolist() for r in results] == [[3, 3]] * 3


def test_several_executions_at_once_do_not_meet() -> None:
    from concurrent.futures import ThreadPoolExecutor

    text = reduction("[64] all-reduce(x), replica_groups={}", "f32", "add", "64", "replica_count=3")
    executable = xjit.compile(text)

    def run(k: int) -> bool:
        results = executable.execute_sharded([[np.full(64, n * k, F32)] for n in range(3)])
        return all((r == 3 * k).all() for r in results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


def test_a_call_that_never_begins_leaves_no_communicator(monkeypatch: pytest.MonkeyPatch) -> None:
    from xjit.runtime.collectives import communicator, sharded_call

    def refuse(*_: Any) -> bytes:
        raise MemoryError

    text = reduction("[2] all-reduce(x), replica_groups={}", "f32", "add", "2", "replica_count=2")
    executable, before = xjit.compile(text), len(communicator._executions)
    monkeypatch.setattr(sharded_call, "device_context", refuse)
    with pytest.raises(MemoryError):
        executable.execute_sharded([[np.ones(2, F32)]] * 2)
    assert len(communicator._executions) == before


FAILING = """HloModule m, replica_count=3
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] custom-call(x), custom_call_target="tests.collectives.odd", api_version=API_VERSION_STATUS_RETURNING
  ROOT r = f32[2] all-reduce(y), to_apply=f, replica_groups={}
}"""


def test_a_failure_on_one_device_ends_all() -> None:
    import ctypes

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
    def odd(result: Any, operands: Any, status: int) -> None:
        value = ctypes.c_float.from_address(operands[0]).value
        result[0] = result[1] = value
        if value == 1:
            xjit.custom_call_status_set_failure(status, b"device 1 is odd", 15)

    xjit.register_custom_call_target("tests.collectives.odd", odd)
    executable = xjit.compile(FAILING)
    with pytest.raises(ExecutionError, match="device 1 is odd"):
        executable.execute_sharded([[np.full(2, n, F32)] for n in range(3)])
    results = executable.execute_sharded([[np.full(2, 2 * n, F32)] for n in range(3)])
    assert [r.tolist() for r in results] == [[6, 6]] * 3


def test_nobody_moves_data_of_a_device_that_has_left() -> None:
    pairs = CollectiveSpec("all-gather", "g", -1, ((0, 1), (2, 3)), (MovedArray(1, 4),))
    communicator, data = Communicator(4), np.arange(4, dtype=F32)
    places = Places((data.ctypes.data,), (0,))  # a result at 0: to write it ends the process
    left: list[bool] = []

    def first() -> None:
        with pytest.raises(StoppedError):
            communicator.run(0, pairs, places)
        left.append(True)

    thread = threading.Thread(target=first)
    thread.start()
    while not communicator._meetings:
        time.sleep(0.001)
    communicator.stop(ExecutionError("device 3 has failed"))
    thread.join()
    assert left
    with pytest.raises(StoppedError):
        communicator.run(1, pairs, places)


def test_nobody_leaves_while_data_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = CollectiveSpec("all-gather", "g", -1, ((0, 1),), (MovedArray(1, 4),))
    communicator, data, results = Communicator(3), np.arange(2, dtype=F32), np.zeros((2, 2), F32)
    places = [Places((data[i:].ctypes.data,), (results[i].ctypes.data,)) for i in range(2)]
    ended: list[int] = []

    def device(number: int) -> None:
        communicator.run(number, pair, places[number])
        ended.append(number)

    def slow_move(*arguments: Any) -> None:
        communicator.stop(ExecutionError("device 2 has failed"))
        time.sleep(0.05)
        assert not ended
        move(*arguments)

    monkeypatch.setattr("xjit.runtime.collectives.communicator.move", slow_move)
    threads = [threading.Thread(target=device, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ended) == [0, 1] and results.tolist() == [[0, 1], [0, 1]]


def test_a_movement_that_fails_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = CollectiveSpec("all-gather", "g", -1, ((0, 1),), (MovedArray(1, 4),))
    communicator = Communicator(2)
    raised: list[type[BaseException]] = []

    def device(number: int) -> None:
        try:
            communicator.run(number, pair, Places((0,), (0,)))
        except BaseException as error:
            raised.append(type(error))

    def failing_move(*_: Any) -> None:
        raise ExecutionError("rows are out of range")

    monkeypatch.setattr("xjit.runtime.collectives.communicator.move", failing_move)
    threads = [threading.Thread(target=device, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(raised) == {ExecutionError, StoppedError} and str(communicator.failure) == "rows are out of range"


def test_what_is_not_moved_is_refused() -> None:
    text = "HloModule m, replica_count=2\nENTRY e { x = f32[2] parameter(0) t = token[] after-all() "
    text += "s = (f32[2], u32[], token[]) send(x, t), channel_id=1 ROOT d = token[] send-done(s), channel_id=1 }"
    with pytest.raises(Unsupported, match="send 's' cannot be compiled"):
        xjit.compile(text)


ENDLESS = """HloModule m, replica_count=3
f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
body { p = s32[] parameter(0) ROOT r = s32[] all-reduce(p), to_apply=f, replica_groups={} }
alone { p = s32[] parameter(0) ROOT r = s32[] multiply(p, p) }
cond { p = s32[] parameter(0) z = s32[] constant(-1) ROOT c = pred[] compare(p, z), direction=NE }
ENTRY e { x = s32[] parameter(0) ROOT w = s32[] while(x), condition=cond, body=BODY }"""

CALL = """
import signal
import sys
import numpy as np
import xjit
from tests.runtime.test_collectives import ENDLESS

executable = xjit.compile(ENDLESS.replace("BODY", sys.argv[1]))
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
    executable.execute_sharded([[np.int32(0)]] * 3)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.unguarded
@pytest.mark.parametrize("body", ["body", "alone"])
def test_interrupt_ends_all_devices(body: str) -> None:
    interrupt([sys.executable, "-c", CALL, body])
