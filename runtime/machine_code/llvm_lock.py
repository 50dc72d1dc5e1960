"""Code generation on several threads, past llvmlite's global lock.

Role: llvmlite takes one lock around each C call, so threads that generate code wait for each other. LLVM itself allows
concurrent work in distinct contexts. While jobs run here, the lock is exchanged for one that lets only our worker
threads pass; all other threads still exclude each other with the original lock. The exchange uses a private attribute
of llvmlite: where it is not as expected, the jobs run one after another.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from llvmlite.binding import ffi

_T = TypeVar("_T")
_exchange_lock = threading.Lock()
_llvm_lock: Any = getattr(getattr(ffi, "lib", None), "_lock", None)
_inner_lock: Any = getattr(_llvm_lock, "_lock", None)  # llvmlite's own; None where llvmlite is not as expected


class _BypassLock:
    """`inner`, except that the threads in `bypass` (thread identifiers) neither take nor release it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.bypass: set[int] = set()

    def acquire(self) -> None:
        if threading.get_ident() not in self.bypass:
            self._inner.acquire()

    def release(self) -> None:
        if threading.get_ident() not in self.bypass:
            self._inner.release()


class UnlockedThreads(contextlib.AbstractContextManager["UnlockedThreads"]):
    """Threads that run jobs which each use their own LLVM context, not waiting for each other's C calls.

    At the end, all jobs have ended or were never started, and the lock is as it was. One user at a time. Without the
    expected lock, or with `num_threads` < 2, `submit` runs the job itself.
    """

    def __init__(self, num_threads: int) -> None:
        usable = num_threads > 1 and hasattr(_inner_lock, "acquire") and not getattr(_llvm_lock, "_cblist", True)
        self._llvm_lock: Any = _llvm_lock if usable else None
        self._num_threads = num_threads
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, job: Callable[[], _T]) -> Future[_T]:
        """Runs a job soon, on a thread."""
        if self._llvm_lock is None:
            return completed(job)
        if self._executor is None:
            self._executor = self._start()
        return self._executor.submit(job)

    def _start(self) -> ThreadPoolExecutor:
        _exchange_lock.acquire()
        bypass = _BypassLock(self._llvm_lock._lock)
        self._llvm_lock._lock = bypass
        # An identifier is added before its thread takes any lock and all threads end before the lock is put back.
        return ThreadPoolExecutor(self._num_threads, initializer=lambda: bypass.bypass.add(threading.get_ident()))

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None
            self._llvm_lock._lock = self._llvm_lock._lock._inner
            _exchange_lock.release()


def _before_fork() -> None:
    """A fork waits for the call of LLVM that is running: both processes go on with its state, which must be whole.

    The lock is held meanwhile because the interpreter drops the other threads' objects in the child before any hook
    runs there, and the finalizers of LLVM's objects among them take this lock.
    """
    if _inner_lock is not None:
        _inner_lock.acquire()


def _after_fork_in_parent() -> None:
    if _inner_lock is not None:
        _inner_lock.release()


def _after_fork_in_child() -> None:
    """A thread that does not exist in the child may have exchanged llvmlite's lock."""
    global _exchange_lock
    _exchange_lock = threading.Lock()
    if _inner_lock is not None:
        _llvm_lock._lock = _inner_lock
        _inner_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def completed(job: Callable[[], _T]) -> Future[_T]:
    """Runs a job now."""
    future = Future[_T]()
    try:
        future.set_result(job())
    except BaseException as error:
        future.set_exception(error)
    return future
