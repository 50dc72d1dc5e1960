"""The fork/join pool and concurrent calls: every task runs exactly once, whatever calls whom from where."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.runtime.programs import array, program
from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime import thread_pool
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.native import library

pytestmark = pytest.mark.unguarded  # the calls themselves are tested

_TASKS = """
declare void @xjit_parallel_for(ptr, ptr, i64)

; Counts how often each task ran.
define void @count(ptr %counts, i64 %task) {
  %place = getelementptr i32, ptr %counts, i64 %task
  %old = atomicrmw add ptr %place, i32 1 monotonic
  ret void
}
; Task i of a region of regions: counts i * 16 .. i * 16 + 15 in a nested region.
define void @nested(ptr %counts, i64 %task) {
  %first = mul i64 %task, 16
  %part = getelementptr i32, ptr %counts, i64 %first
  call void @xjit_parallel_for(ptr @count, ptr %part, i64 16)
  ret void
}
; Runs `count` over %n tasks, %repeats times.
define void @repeat(ptr %counts, i64 %n, i64 %repeats) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @xjit_parallel_for(ptr @count, ptr %counts, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %repeats
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
; Spins for a while, so that a second thread can take part, then stores a subnormal sum.
define void @flush(ptr %out, i64 %task) {
entry:
  br label %spin
spin:
  %i = phi i64 [ 0, %entry ], [ %next, %spin ]
  %x = load volatile float, ptr %out
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 200000
  br i1 %more, label %spin, label %store
store:
  %tiny_ptr = getelementptr float, ptr %out, i64 %task
  %tiny = load float, ptr %tiny_ptr
  %sum = fadd float %tiny, %tiny
  store float %sum, ptr %tiny_ptr
  ret void
}
"""


@pytest.fixture(scope="module")
def tasks() -> LoadedObject:
    symbols = {"xjit_parallel_for": thread_pool.running_pool().address("xjit_parallel_for")}
    return load_object(compile_ir_to_object(_TASKS), ["count", "nested", "repeat", "flush"], symbols)


@pytest.fixture(autouse=True)
def _default_threads() -> Iterator[None]:
    yield
    thread_pool.set_num_threads(thread_pool.default_num_threads())


def _repeat(tasks: LoadedObject) -> Callable[[int, int, int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(tasks.address("repeat"))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("num_tasks", [0, 1, 2, 7, 1000])
def test_each_task_runs_once(tasks: LoadedObject, threads: int, num_tasks: int) -> None:
    thread_pool.set_num_threads(threads)
    assert thread_pool.num_threads() == threads
    counts = np.zeros(num_tasks + 1, np.int32)
    library().parallel_for(tasks.address("count"), counts.ctypes.data, num_tasks)
    assert counts.tolist() == [1] * num_tasks + [0]


def test_negative_task_counts_run_nothing(tasks: LoadedObject) -> None:
    counts = np.zeros(1, np.int32)
    library().parallel_for(tasks.address("count"), counts.ctypes.data, -5)
    assert counts[0] == 0


@pytest.mark.parametrize("threads", [2, 4])
def test_many_regions(tasks: LoadedObject, threads: int) -> None:
    thread_pool.set_num_threads(threads)
    counts = np.zeros(5, np.int32)
    _repeat(tasks)(counts.ctypes.data, 5, 20_000)
    assert counts.tolist() == [20_000] * 5


def test_nested_regions(tasks: LoadedObject) -> None:
    thread_pool.set_num_threads(4)
    counts = np.zeros(64 * 16, np.int32)
    for _ in range(50):
        library().parallel_for(tasks.address("nested"), counts.ctypes.data, 64)
    assert (counts == 50).all()


def test_regions_from_many_python_threads(tasks: LoadedObject) -> None:
    thread_pool.set_num_threads(3)
    counts = np.zeros((8, 33), np.int32)
    with ThreadPoolExecutor(8) as executor:
        for row in counts:
            executor.submit(_repeat(tasks), row.ctypes.data, 33, 2000)
    assert (counts == 2000).all()


def test_workers_sleep_and_wake(tasks: LoadedObject) -> None:
    thread_pool.set_num_threads(3)
    counts = np.zeros(8, np.int32)
    for pause in (0.0, 0.0002, 0.002, 0.02) * 10:
        time.sleep(pause)
        library().parallel_for(tasks.address("count"), counts.ctypes.data, 8)
    assert (counts == 40).all()
    assert library().num_running() == 2


def test_resizing_while_regions_run(tasks: LoadedObject) -> None:
    counts = np.zeros(16, np.int32)
    worker = threading.Thread(target=_repeat(tasks), args=(counts.ctypes.data, 16, 30_000))
    worker.start()
    for threads in [1, 4, 2, 3, 1, 2] * 5:
        thread_pool.set_num_threads(threads)
    worker.join()
    assert (counts == 30_000).all()


def test_workers_flush_subnormals(tasks: LoadedObject) -> None:
    """Only tasks of workers flush here: the caller's mode is set around entries, not around regions."""
    thread_pool.set_num_threads(2)
    for _ in range(20):
        values = np.full(8, 1e-39, np.float32)
        library().parallel_for(tasks.address("flush"), values.ctypes.data, 8)
        if (values == 0).any():
            return
    pytest.fail("no task of a worker flushed a subnormal")


def test_number_of_threads_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match=r"must be 1\.\.1024, got 0"):
        thread_pool.set_num_threads(0)
    monkeypatch.setenv(thread_pool.NUM_THREADS_VARIABLE, "3")
    assert thread_pool.default_num_threads() == 3
    monkeypatch.setenv(thread_pool.NUM_THREADS_VARIABLE, "-1")
    with pytest.raises(InvalidArgument, match="XJIT_NUM_THREADS must be a positive integer, got '-1'"):
        thread_pool.default_num_threads()


_FORK_SCRIPT = """
import os, sys
import numpy as np
sys.path.insert(0, os.getcwd())
from tests.runtime.test_threads import _TASKS
from xjit.runtime import thread_pool
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.machine_code.linker import load_object
thread_pool.set_num_threads(3)
native = thread_pool.running_pool()
tasks = load_object(compile_ir_to_object(_TASKS), ["count"], {"xjit_parallel_for": native.address("xjit_parallel_for")})
counts = np.zeros(100, np.int32)
native.parallel_for(tasks.address("count"), counts.ctypes.data, 100)
pid = os.fork()
assert native.num_running() == (2 if pid else 0)
for _ in range(100):
    native.parallel_for(tasks.address("count"), counts.ctypes.data, 100)
assert native.num_running() == 2 and (counts == 101).all()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
    print("ok")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_its_own_workers() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _FORK_SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (finished.stdout, finished.returncode) == ("ok\n", 0), finished.stderr


_ENDLESS_SCRIPT = """
import os, sys, threading, time
sys.path.insert(0, os.getcwd())
from xjit.runtime import thread_pool
from xjit.runtime.machine_code.jit import compile_ir_to_object
from xjit.runtime.machine_code.linker import load_object
native = thread_pool.running_pool()
text = "define void @endless(ptr %ctx, i64 %task) {\\nentry:\\n  br label %loop\\nloop:\\n  br label %loop\\n}"
loaded = load_object(compile_ir_to_object(text), ["endless"], {})
thread_pool.set_num_threads(2)
threading.Thread(target=native.parallel_for, args=(loaded.address("endless"), None, 2), daemon=True).start()
time.sleep(0.1)
print("leaving", native.pool_is_busy(), flush=True)
"""


def test_an_endless_region_of_a_daemon_thread_does_not_block_exit() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", _ENDLESS_SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (finished.stdout, finished.returncode) == ("leaving 1\n", 0), finished.stderr


# Result i is the sum over the arena, which the program first fills with its parameter. A shared arena would show.
_ARENA_PROGRAM = """
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
entry:
  %p = load ptr, ptr %parameters
  %out = load ptr, ptr %results
  %value = load i64, ptr %p
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i_next, %fill ]
  %a = getelementptr i64, ptr %arena, i64 %i
  store volatile i64 %value, ptr %a
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, 2000
  br i1 %more, label %fill, label %sum
sum:
  %j = phi i64 [ 0, %fill ], [ %j_next, %sum ]
  %total = phi i64 [ 0, %fill ], [ %total_next, %sum ]
  %b = getelementptr i64, ptr %arena, i64 %j
  %v = load volatile i64, ptr %b
  %total_next = add i64 %total, %v
  %j_next = add i64 %j, 1
  %again = icmp slt i64 %j_next, 2000
  br i1 %again, label %sum, label %done
done:
  store i64 %total_next, ptr %out
  ret i32 0
}
"""


def arena_executable(fast: bool, estimated_us: float) -> CpuExecutable:
    """A program that fills and sums a 16 kB arena."""
    return CpuExecutable(
        program(
            _ARENA_PROGRAM, [array(np.int64, 1)], [array(np.int64, 200)], arena_size=16_000, estimated_us=estimated_us
        ),
        fast=fast,
    )


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("estimated_us", [1.0, 100.0])
def test_concurrent_calls_have_their_own_arenas(fast: bool, estimated_us: float) -> None:
    executable = arena_executable(fast, estimated_us)
    wrong: list[Any] = []

    def calls(thread: int) -> None:
        for i in range(500):
            value = thread * 1000 + i
            result = executable(np.array([value]))
            if result[0] != 2000 * value:
                wrong.append((value, result[0]))

    threads = [threading.Thread(target=calls, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


_SPIN_PROGRAM = """
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
entry:
  %flag = load ptr, ptr %parameters
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %next = add i64 %i, 1
  %set = load atomic volatile i64, ptr %flag monotonic, align 8
  %end = icmp ne i64 %set, 0
  br i1 %end, label %exit, label %loop
exit:
  %out = load ptr, ptr %results
  store i64 %next, ptr %out
  ret i32 0
}
"""


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("release", [{"estimated_us": 100.0}, {"always_releases_gil": True}])
def test_long_programs_release_the_gil(fast: bool, release: dict[str, Any]) -> None:
    """The program ends only when Python code of another thread sets a flag."""
    executable = CpuExecutable(program(_SPIN_PROGRAM, [array(np.int64, 1)], [array(np.int64, 1)], **release), fast=fast)
    flag = np.zeros(1, np.int64)
    caller = threading.Thread(target=executable, args=(flag,))
    caller.start()
    time.sleep(0.02)
    flag[0] = 1
    caller.join(20)
    assert not caller.is_alive()
