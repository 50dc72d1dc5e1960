"""The threads that do what devices have to do: they start with the first job.

Exits and forks wait for what was asked for before, not for what other threads go on to ask for.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence

from xjit.jax_backend.native.api import NativeApi
from xjit.jax_backend.native.execute import IS_ASYNCHRONOUS
from xjit.jax_backend.native.queues import MAX_JOBS, NESTED_KEY, RUN_APART, START_WORKER
from xjit.jax_backend.records import PTHREAD_SIZE, QUEUE
from xjit.jax_backend.requests import Request

_ASK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_ASK_FOR_SEVERAL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)
_DO = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Workers:
    """A thread per queue, and one per job that calls functions of users."""

    def __init__(self, api: NativeApi, stop_group: Callable[[int], None]) -> None:
        """`stop_group(call)` ends the calls of a call's group, whose devices get no threads."""
        self._api = api
        self._stop_group = stop_group
        names = ("xjit_queue_work", "xjit_queue_wait", "xjit_job_run")
        self._work, self._wait, self._run = (_DO(api.address(name)) for name in names)
        self._queues: tuple[int, ...] = ()
        self._forget_threads()
        self._asked = {START_WORKER: _ASK(self._start_worker), RUN_APART: _ASK_FOR_SEVERAL(self._run_apart)}
        for name, function in self._asked.items():
            api.set_variable(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
        key = ctypes.c_uint32()
        if ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None):
            raise OSError("there are no more pthread keys")
        api.set_variable(NESTED_KEY, key.value)
        os.register_at_fork(before=self.finish, after_in_child=self._after_fork)

    def _forget_threads(self) -> None:
        self._starting = threading.Lock()
        self._apart: dict[threading.Thread, threading.Thread] = {}  # with the one whose job called, in the end, its own
        self._room = threading.Semaphore(MAX_JOBS)

    def serve(self, queues: Sequence[int], *, is_asynchronous: bool) -> None:
        """From now on calls may be put into these queues, and return before they are done if it is asynchronous."""
        self._queues = tuple(queues)
        self._api.set_variable(IS_ASYNCHRONOUS, int(is_asynchronous))

    def end(self) -> None:
        """Finishes, and has later calls wait for their results."""
        self.finish()
        self._api.set_variable(IS_ASYNCHRONOUS, 0)

    def finish(self) -> None:
        """Waits until what there is to do now is done; a function that a program calls waits for nothing."""
        if threading.current_thread() in self._apart:
            return
        roots = set(self._apart.values())
        while threads := [t for t, root in tuple(self._apart.items()) if root in roots and t.is_alive()]:
            for thread in threads:
                thread.join()
        for queue in self._queues:
            self._wait(queue)

    def _after_fork(self) -> None:
        """The child has none of these threads, and locks in any state."""
        self._forget_threads()
        for address in self._queues:
            queue = Request(QUEUE, address)
            for field in ("first", "last", "length", "has_worker"):
                queue[field] = 0
            for field in ("mutex", "changed"):
                ctypes.memset(queue[field], 0, PTHREAD_SIZE)

    def _start_worker(self, address: int) -> int:
        queue = Request(QUEUE, address)
        with self._starting:
            if not queue["has_worker"]:
                queue["has_worker"] = _start(threading.Thread(target=self._work, args=(address,)))
            return queue["has_worker"]

    def _run_apart(self, jobs: Sequence[int], count: int) -> int:
        """Several jobs meet while they run: all of them have threads, or none has."""
        is_nested = threading.current_thread() in self._apart
        if not is_nested:
            self._room.acquire()
        meeting = threading.Barrier(count)
        threads = [threading.Thread(target=self._run_with, args=(jobs[i], meeting, is_nested)) for i in range(count)]
        with self._starting:
            alive = {other: root for other, root in self._apart.items() if other.is_alive()}
            root = self._apart.get(threading.current_thread())
            self._apart = alive | {thread: root or thread for thread in threads}  # they look for themselves
            if all(map(_start, threads)):
                return count
            meeting.abort()
            self._apart = alive
        if not is_nested:
            self._room.release()
        if count > 1:
            self._stop_group(jobs[0] or 0)
        return 0

    def _run_with(self, job: int, meeting: threading.Barrier, is_nested: bool) -> None:
        try:
            meeting.wait()
        except threading.BrokenBarrierError:
            return
        try:
            self._run(job)
        finally:
            if meeting.wait() == 0 and not is_nested:
                self._room.release()


def _start(thread: threading.Thread) -> bool:
    """Whether the system let it start."""
    thread.daemon = True
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
