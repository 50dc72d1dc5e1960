"""How many threads compiled code uses. The pool itself is native code: `xjit.runtime.native.thread_pool_functions`.

Invariants: results do not depend on the number of threads (the emitters see to that). Workers start with the first
parallel region, sleep when idle, and end at interpreter exit. After a fork the child starts its own when it needs them.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import math
import os
import threading
import time

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.native.loader import NativeLibrary, library
from xjit.runtime.native.thread_pool_state import MAX_CPUS, MAX_WORKERS

NUM_THREADS_VARIABLE = "XJIT_NUM_THREADS"
"""Environment variable that sets the number of threads, the calling one included."""

_EXIT_PATIENCE_S = 0.5
_configure_lock = threading.Lock()


def schedulable_cpus() -> list[int]:
    """The CPUs that this process may run on, by number."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def default_num_threads() -> int:
    """XJIT_NUM_THREADS if set; else the schedulable CPUs, or the CPU quota of the control group if that is less."""
    if text := os.environ.get(NUM_THREADS_VARIABLE):
        if not text.isdigit() or int(text) < 1:
            raise InvalidArgument(f"{NUM_THREADS_VARIABLE} must be a positive integer, got {text!r}")
        return min(int(text), MAX_WORKERS + 1)
    return min(len(schedulable_cpus()), _cgroup_cpu_limit(), MAX_WORKERS + 1)


def num_threads() -> int:
    """Threads that a parallel region may use, the calling one included."""
    return running_pool().num_threads()


def set_num_threads(count: int) -> None:
    """Sets the number of threads, the calling one included; 1 means serial. Waits for a region that is running.

    Workers are pinned only when there is one thread per schedulable CPU: several processes that each use a few threads
    would otherwise pin them to the same CPUs. Must not be called from code that runs inside a region.
    """
    if not 1 <= count <= MAX_WORKERS + 1:
        raise InvalidArgument(f"the number of threads must be 1..{MAX_WORKERS + 1}, got {count}")
    _configure(running_pool(), count)


@functools.cache
def running_pool() -> NativeLibrary:
    """The native library with its pool configured: what executables use."""
    native = library()
    _configure(native, default_num_threads())
    atexit.register(_end_workers, native)
    os.register_at_fork(after_in_child=functools.partial(_after_fork, native))
    return native


def _configure(native: NativeLibrary, count: int) -> None:
    cpus = schedulable_cpus()
    pin = count > 1 and count == len(cpus) and cpus[-1] < MAX_CPUS
    pinned = cpus if pin else []
    with _configure_lock:
        native.configure_pool(count - 1, (ctypes.c_int32 * len(pinned))(*pinned), len(pinned))


def _end_workers(native: NativeLibrary) -> None:
    """At exit. Leaves a region that does not end (perhaps an endless one of a daemon thread) to the system."""
    deadline = time.monotonic() + _EXIT_PATIENCE_S
    while native.pool_is_busy() and time.monotonic() < deadline:
        time.sleep(0.001)
    if not native.pool_is_busy():
        native.configure_pool(0, None, 0)


def _after_fork(native: NativeLibrary) -> None:
    global _configure_lock
    _configure_lock = threading.Lock()
    native.set_main_thread()
    native.pool_after_fork()
    native.buffer_after_fork()


def _cgroup_cpu_limit() -> int:
    """The CPU quota of the control group (version 2) in CPUs, rounded up; a large number if there is none."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return MAX_WORKERS + 1
