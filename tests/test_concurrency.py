"""One executable, many threads: the same bits at any number of threads, from run to run, and from concurrent callers."""

from __future__ import annotations

import threading
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
