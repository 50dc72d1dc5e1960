"""Ctrl-C ends a native call soon, in both call paths, with the exception that Python's signal handler raised."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.conftest import Load
from tests.runtime.programs import add_program, array, program
from xjit.hlo.diagnostics import ExecutionError, ResourceExhausted
from xjit.llvm.execution_context import RuntimeStatus

pytestmark = pytest.mark.unguarded  # programs that end only once they are interrupted
ROOT = Path(__file__).parents[2]
ENDLESS = """
declare i32 @xjit_check_cancel(ptr)
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
entry:
  br label %loop
loop:
  %cancel = call i32 @xjit_check_cancel(ptr %context)
  %ends = icmp ne i32 %cancel, 0
  br i1 %ends, label %exit, label %loop
exit:
  ret i32 0
}
"""

CALL = """
import signal
import sys
import numpy as np
from tests.runtime.programs import array, program
from tests.runtime.test_cancel import ENDLESS
from xjit.runtime.executable import CpuExecutable

endless = program(ENDLESS, [], [array(np.float32, 400)], estimated_us=1000.0)
executable = CpuExecutable(endless, fast=bool(int(sys.argv[1])))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background leaves it ignored
print("ready", flush=True)
try:
    executable()
except KeyboardInterrupt:
    print("interrupted", flush=True)
sum([1, 2, 3])  # no exception is left behind
"""


@pytest.mark.parametrize("fast", [1, 0], ids=["native", "ctypes"])
def test_interrupt_ends_a_call(fast: int) -> None:
    interrupt([sys.executable, "-c", CALL, str(fast)])


def interrupt(command: list[str]) -> None:
    """Sends SIGINT to a process that prints "ready", which must say soon that it was interrupted."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)  # now it is in the call
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        guard = threading.Timer(30, process.kill)
        guard.start()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - start < 5
        assert process.wait(20) == 0
        guard.cancel()


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
@pytest.mark.parametrize("estimated_us", [0.0, 1000.0], ids=["with GIL", "without GIL"])
def test_a_handler_may_raise_anything_and_may_run_programs(load: Load, estimated_us: float) -> None:
    inner = load(add_program(8))
    x = np.ones(8, np.float32)
    handled: list[float] = []

    def handler(number: int, frame: object) -> None:
        handled.append(float(inner(x, x).sum()))
        raise LookupError("from the handler")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(LookupError, match="from the handler"):
            load(program(ENDLESS, [], [array(np.float32, 400)], estimated_us=estimated_us))()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert handled == [16.0]


FAILS = """
declare void @xjit_fail(ptr, i32, i32, i64)
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {{
  call void @xjit_fail(ptr %context, i32 {status}, i32 {instruction}, i64 {detail})
  ret i32 0
}}
"""


def test_failures_name_the_instruction(load: Load) -> None:
    names = ("sort.1", "cholesky.2")
    text = FAILS.format(status=int(RuntimeStatus.INTERNAL), instruction=1, detail=-4)
    executable = load(program(text, [], [array(np.float32, 8)], instructions=names))
    with pytest.raises(ExecutionError, match=r"failed at cholesky.2: INTERNAL: .* \(info -4\)"):
        executable()
    text = FAILS.format(status=int(RuntimeStatus.RESOURCE_EXHAUSTED), instruction=0, detail=123456)
    executable = load(program(text, [], [array(np.float32, 8)], instructions=names))
    with pytest.raises(ResourceExhausted, match=r"failed at sort.1: .* allocating 123456 bytes") as raised:
        executable()
    assert isinstance(raised.value, MemoryError)


def test_a_failure_without_an_instruction_names_none(load: Load) -> None:
    text = FAILS.format(status=int(RuntimeStatus.CANCELLED), instruction=-1, detail=0)
    with pytest.raises(ExecutionError, match=r"program 'test' failed: CANCELLED: "):
        load(program(text, [], [], (), instructions=("a",)))()


WHILE = """
import signal
import sys
import numpy as np
import xjit

executable = xjit.compile('''
HloModule endless

body { ROOT b = f32[64] parameter(0) }
condition { c = f32[64] parameter(0)  ROOT true = pred[] constant(true) }

ENTRY main {
  x = f32[64] parameter(0)
  ROOT w = f32[64] while(x), condition=condition, body=body
}
''')
x = np.ones(64, np.float32)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background leaves it ignored
print("ready", flush=True)
try:
    executable(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_interrupt_ends_a_loop_of_a_program() -> None:
    interrupt([sys.executable, "-c", WHILE])
