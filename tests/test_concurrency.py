"""One executable, many threads: the same bits at any number of threads, from run to run, and from concurrent callers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xjit
from tests.support.hlo_cases import leaves
from tests.support.kernels import random_inputs
from xjit.runtime import thread_pool

EXAMPLE = Path(__file__).parent.parent / "examples" / "vision_transformer.hlo"
Inputs = list[np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def model() -> tuple[xjit.Executable, Inputs, Inputs]:
    """The example, compiled, with two sets of inputs."""
    module = xjit.load_module(EXAMPLE)
    return xjit.compile(module), random_inputs(module, 1), random_inputs(module, 2)


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    before = thread_pool.num_threads()
    yield
    thread_pool.set_num_threads(before)


def bits(result: Any) -> list[bytes]:
    """Returns the bytes of all results."""
    return [x.tobytes() for x in leaves(result)]


def test_bits_do_not_depend_on_threads_or_runs(model: tuple[xjit.Executable, Inputs, Inputs]) -> None:
    executable, inputs, _ = model
    thread_pool.set_num_threads(1)
    expected = bits(executable(*inputs))
    assert np.isfinite(np.frombuffer(expected[0], np.float32)).all()
    for count in (1, 2, 3, 4, 7):
        thread_pool.set_num_threads(count)
        for _ in range(3):
            assert bits(executable(*inputs)) == expected, f"{count} threads"


def test_plans_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """ENTRY e { x = f32[300,200] parameter(0)  y = f32[200,500] parameter(1)  n = f32[4,30,30,32] parameter(2)
      k = f32[3,3,32,48] parameter(3)  d = f32[300,500] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      c = f32[4,28,28,48] convolution(n, k), window={size=3x3}, dim_labels=b01f_01io->b01f
      ROOT t = (f32[300,500], f32[4,28,28,48]) tuple(d, c) }"""
    code: set[str] = set()
    for threads in ("1", "2", "64"):
        monkeypatch.setenv("XJIT_NUM_THREADS", threads)
        code.add(xjit.compile(text).as_text("llvm"))
    assert len(code) == 1


@pytest.mark.parametrize("pool", [1, 2, 4])
def test_concurrent_calls(model: tuple[xjit.Executable, Inputs, Inputs], pool: int) -> None:
    executable, *both = model
    thread_pool.set_num_threads(pool)
    expected = [bits(executable(*inputs)) for inputs in both]
    assert expected[0] != expected[1]
    wrong: list[str] = []
    start = threading.Barrier(6)

    def work(number: int) -> None:
        start.wait()
        for turn in range(6):
            which = (number + turn) % 2
            if bits(executable(*both[which])) != expected[which]:
                wrong.append(f"thread {number}, turn {turn}")

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive(), "a call hangs"
    assert not wrong


def test_compilation_in_several_threads() -> None:
    text = "HloModule m\nENTRY e {\n a = f32[64] parameter(0)\n b = f32[64] sine(a)\n ROOT r = f32[64] add(b, a)\n}\n"
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    expected = xjit.compile(text)(x).tobytes()
    results: list[bytes] = []
    workers = [threading.Thread(target=lambda: results.append(xjit.compile(text)(x).tobytes())) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert results == [expected] * 4


RANDOM = """
HloModule random

ENTRY main {
  x = f32[512,512] parameter(0)
  first = u64[2] rng-get-and-update-state(), delta=3
  wave = f32[512,512] tanh(x), control-predecessors={first}
  second = u64[2] rng-get-and-update-state(), delta=5, control-predecessors={wave}
  third = u64[2] rng-get-and-update-state(), delta=7, control-predecessors={second}
  ROOT r = (u64[2], u64[2], u64[2], f32[512,512]) tuple(first, second, third, wave)
}
"""


def test_concurrent_calls_have_random_states_of_their_own() -> None:
    executable = xjit.compile(RANDOM)
    x = np.linspace(-3, 3, 512 * 512, dtype=np.float32).reshape(512, 512)
    expected = bits(executable(x))
    assert bits(xjit.evaluate(RANDOM, x))[:3] == expected[:3]
    wrong: list[int] = []
    start = threading.Barrier(3)

    def work() -> None:
        start.wait()
        wrong.append(sum(bits(executable(x)) != expected for _ in range(60)))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert wrong == [0, 0, 0]


FORK = """
import os
import sys
import threading
import time
import time
import numpy as np
import xjit

TEXT = "HloModule m{n}\\nENTRY e {{\\n a = f32[{n}] parameter(0)\\n b = f32[{n}] sine(a)\\n ROOT r = f32[{n}] add(b, a)\\n}}\\n"
x = np.ones(64, np.float32)
xjit.compile(TEXT.format(n=64))(x)
ends = False


def compile_on() -> None:
    n = 65
    while not ends:
        xjit.compile(TEXT.format(n=n))
        n += 1


compiler = threading.Thread(target=compile_on)
compiler.start()
for turn in range(12):
    time.sleep(0.01 * turn)
    child = os.fork()
    if not child:
        import gc
        ok = gc.isenabled() and np.allclose(xjit.compile(TEXT.format(n=64))(x), np.sin(x) + x)
        os._exit(0 if ok else 1)
    deadline = time.monotonic() + 20
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            print("hangs", turn, flush=True)
            os._exit(1)
        time.sleep(0.01)
    assert found[1] == 0, found
ends = True
compiler.join()
print("done")
"""


def test_compilation_in_a_child_forked_while_a_thread_compiles() -> None:
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=300)
    assert result.stdout == "done\n", result.stdout + result.stderr


COUNT_DOWN = """HloModule m
c { p = (s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 z = s64[] constant(0)
    ROOT r = pred[] compare(i, z), direction=NE }
b { p = (s64[], s64[]) parameter(0) i = s64[] get-tuple-element(p), index=0 x = s64[] get-tuple-element(p), index=1
    o = s64[] constant(1) n = s64[] subtract(i, o) y = s64[] multiply(x, x) w = s64[] xor(y, n)
    ROOT t = (s64[], s64[]) tuple(n, w) }
ENTRY e { i = s64[] parameter(0) t = (s64[], s64[]) tuple(i, i) w = (s64[], s64[]) while(t), condition=c, body=b
    ROOT r = s64[] get-tuple-element(w), index=1 }"""


def test_loops_without_a_known_number_of_rounds_let_other_threads_run() -> None:
    executable = xjit.compile(COUNT_DOWN)
    executable(np.int64(1))
    done: list[object] = []
    caller = threading.Thread(target=lambda: done.append(executable(np.int64(100_000_000))))
    turns = 0
    caller.start()
    while not done and turns < 20:
        time.sleep(0.001)
        turns += 1
    assert turns == 20, f"this thread ran {turns} times"
    caller.join()
