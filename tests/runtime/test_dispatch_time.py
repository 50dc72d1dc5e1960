"""How long a call of a tiny program takes. Loose assertions: they catch a lost fast path, not a slow machine."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import numpy as np
import pytest

from tests.runtime.programs import add_program
from xjit.runtime.executable import CpuExecutable

pytestmark = pytest.mark.unguarded  # the calls themselves are tested


def _microseconds(function: Callable[[], object], number: int) -> float:
    return min(timeit.repeat(function, number=number, repeat=7)) / number * 1e6


def test_dispatch(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.ones(8, np.float32)
    backwards = x[::-1]
    fast, through_ctypes = CpuExecutable(add_program(8)), CpuExecutable(add_program(8), fast=False)
    unlocked = CpuExecutable(add_program(8, estimated_us=100.0))
    times = {
        "native": _microseconds(lambda: fast(x, x), 20_000),
        "native, GIL released": _microseconds(lambda: unlocked(x, x), 20_000),
        "native, one argument copied": _microseconds(lambda: fast(x, backwards), 2000),
        "ctypes": _microseconds(lambda: through_ctypes(x, x), 2000),
    }
    with capsys.disabled():
        print("\nf32[8] + f32[8]:", ", ".join(f"{name} {time:.2f} us" for name, time in times.items()))
    assert times["native"] < 4
    assert times["native, GIL released"] < 6
    assert times["native"] < times["native, one argument copied"] < 100
    assert times["native"] < times["ctypes"] < 200
