"""Pooled memory: results return to the pool exactly once, views keep them alive, nothing leaks."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.runtime.conftest import Load
from tests.runtime.programs import add_program, array, copies, program, returns
from tests.runtime.test_threads import arena_executable
from xjit.hlo.diagnostics import ExecutionError, InvalidArgument
from xjit.runtime import buffer_pool
from xjit.runtime.buffer_pool import buffer_pool_statistics, set_buffer_pool_limit, trim_buffer_pool
from xjit.runtime.executable import CpuExecutable

pytestmark = pytest.mark.unguarded  # the calls themselves are tested

_MIB = 1 << 20


@pytest.fixture(autouse=True)
def _restore_limit() -> Iterator[None]:
    limit = buffer_pool_statistics().limit_bytes
    yield
    set_buffer_pool_limit(limit)


@pytest.mark.parametrize(
    "num_bytes", [0, 1, 64, 1000, 1023, 1024, 4096, 65_535 - 64, 65_536, _MIB - 64, _MIB, 3 * _MIB + 5]
)
def test_blocks_are_aligned_writable_and_reused(num_bytes: int) -> None:
    native = buffer_pool.pooled_library()
    address = native.alloc(num_bytes)
    assert address % 64 == 0
    (np.ctypeslib.as_array((ctypes.c_uint8 * num_bytes).from_address(address)))[...] = 255
    native.free(address)
    assert native.alloc(num_bytes) == address
    other = native.alloc(num_bytes)
    assert abs(other - address) >= num_bytes
    native.free(address)
    native.free(other)
    native.free(None)


def test_capacity_is_at_most_a_quarter_more() -> None:
    native = buffer_pool.pooled_library()
    for num_bytes in [1000, 5000, 100_000, 123_456, 1_000_001, 10 * _MIB + 1]:
        before = buffer_pool_statistics().live_bytes
        address = native.alloc(num_bytes)
        used = buffer_pool_statistics().live_bytes - before
        native.free(address)
        assert num_bytes + 64 <= used <= 1.25 * (num_bytes + 64) + 1
    assert buffer_pool_statistics().live_bytes == before


def test_impossible_sizes_fail() -> None:
    native = buffer_pool.pooled_library()
    before = buffer_pool_statistics()
    for num_bytes in (1 << 47, -1, 1 << 46):
        assert not native.alloc(num_bytes)
    assert buffer_pool_statistics().live_bytes == before.live_bytes


def test_limit_and_trim() -> None:
    native = buffer_pool.pooled_library()
    set_buffer_pool_limit(4 * _MIB)
    assert buffer_pool_statistics().cached_bytes == 0
    blocks = [native.alloc(_MIB) for _ in range(6)]
    for block in blocks:
        native.free(block)
    assert 0 < buffer_pool_statistics().cached_bytes <= 4 * _MIB
    trim_buffer_pool()
    assert buffer_pool_statistics().cached_bytes == 0
    set_buffer_pool_limit(0)
    native.free(native.alloc(_MIB))
    assert buffer_pool_statistics().cached_bytes == 0
    with pytest.raises(InvalidArgument, match="must not be negative, got -1"):
        set_buffer_pool_limit(-1)


def test_alloc_and_free_from_many_threads() -> None:
    native = buffer_pool.pooled_library()
    before = buffer_pool_statistics().live_bytes
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(native.address("xjit_scratch_alloc"))
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native.address("xjit_scratch_free"))

    def churn(seed: int) -> bool:
        sizes = np.random.default_rng(seed).integers(1, 200_000, 300)
        for size in sizes:
            address = alloc(int(size))
            word = ctypes.c_int64.from_address(address)
            word.value = seed
            again = alloc(int(size))
            ctypes.c_int64.from_address(again).value = -1
            if word.value != seed:
                return False
            free(again)
            free(address)
        return True

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(churn, range(8)))
    assert buffer_pool_statistics().live_bytes == before


def test_results_return_to_the_pool_and_views_keep_them(load: Load) -> None:
    executable = load(add_program(300_000))
    x = np.ones(300_000, np.float32)
    view = executable(x, x)[100:200]
    others = [executable(x, x + i) for i in range(4)]
    gc.collect()
    np.testing.assert_array_equal(view, np.full(100, 2))
    for i, other in enumerate(others):
        assert (other == 2 + i).all()


def test_pooled_results_are_reused() -> None:
    executable = CpuExecutable(add_program(300_000))
    x = np.ones(300_000, np.float32)
    executable(x, x)
    before = buffer_pool_statistics()
    addresses = {executable(x, x).ctypes.data for _ in range(10)}
    after = buffer_pool_statistics()
    assert len(addresses) == 1 and after.hits - before.hits == 10 and after.misses == before.misses
    assert after.live_bytes == before.live_bytes


def test_numpy_can_resize_copy_and_pickle_pooled_results() -> None:
    executable = CpuExecutable(add_program(1000))
    x = np.arange(1000, dtype=np.float32)
    before = buffer_pool_statistics().live_bytes
    result = executable(x, x)
    assert result.flags.owndata
    result.resize(5000, refcheck=False)
    np.testing.assert_array_equal(result[:1000], x + x)
    assert not result[1000:].any()
    result.resize(10, refcheck=False)
    np.testing.assert_array_equal(result, (x + x)[:10])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(executable(x, x))), x + x)
    moved = executable(x, x)
    moved.shape = (10, 100)
    del result, moved
    assert buffer_pool_statistics().live_bytes == before


def test_failed_calls_give_everything_back(load: Load) -> None:
    signatures = [array(np.float32, 40_000), array(np.float32, 4), array(np.float32, 40_000)]
    executable = load(program(returns(3), [], signatures, (0, 1, 2), arena_size=100_000))
    before = buffer_pool_statistics().live_bytes
    for _ in range(10):
        with pytest.raises(ExecutionError):
            executable()
    gc.collect()
    assert buffer_pool_statistics().live_bytes == before
    huge = load(program(returns(0), [], [signatures[0], array(np.float32, 1 << 46)], (0, 1)))
    with pytest.raises(MemoryError):
        huge()
    gc.collect()
    assert buffer_pool_statistics().live_bytes == before


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_calls_do_not_leak(load: Load) -> None:
    """Reference counts of everything a call touches, and resident memory, over 20,000 calls of each kind."""
    signatures = [array(np.float32, 8), array(np.float64, 500)]
    executable = load(program(copies([32, 4000]), signatures, signatures, (0, 1), arena_size=5000))
    fail = load(program(returns(3), [], [signatures[0]]))
    x, y = np.ones(8, np.float32), np.ones(500)
    dtypes = (np.dtype(np.float32), np.dtype(np.float64))
    watched: tuple[Any, ...] = (x, y, *dtypes, executable, executable.__call__, buffer_pool.numpy_handler()[0], ())

    def run(count: int) -> None:
        for i in range(count):
            executable(x, y)
            executable(x[::-1] if i % 8 == 0 else x, y)
            if i % 8 == 0:
                for wrong in ((x,), (x, x)):
                    with pytest.raises(InvalidArgument):
                        executable(*wrong)
                with pytest.raises(ExecutionError):
                    fail()

    run(500)
    gc.collect()
    references = [sys.getrefcount(item) for item in watched]
    resident, live = _resident_bytes(), buffer_pool_statistics().live_bytes
    run(10_000)
    gc.collect()
    assert max(abs(now - then) for now, then in zip(map(sys.getrefcount, watched), references, strict=True)) <= 8
    assert buffer_pool_statistics().live_bytes == live
    assert _resident_bytes() - resident < 4 * _MIB


def test_executables_are_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        executable = arena_executable(True, 1.0)
        canary = weakref.ref(executable)
        call = executable.__call__
        del executable
        assert call(np.array([3]))[0] == 6000  # the function keeps the code loaded
        assert canary() is None
        loaded = weakref.ref(call)
        del call
        assert loaded() is None
    finally:
        gc.enable()
