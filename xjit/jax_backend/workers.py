"""The threads that do what devices have to do: they start with the first job; exits and forks wait for them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence

from xjit.jax_backend.native_api import NativeApi
from xjit.jax_backend.native_execute import IS_ASYNCHRONOUS
from xjit.jax_backend.native_queues import MAX_JOBS, NESTED_KEY, RUN_APART, START_WORKER
from xjit.jax_backend.records import PTHREAD_SIZE, QUEUE
from xjit.jax_backend.requests import Request

_ASK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_DO = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Workers:
    """A thread per queue, and one per job that calls functions of users."""

    def __init__(self, api: NativeApi) -> None:
        self._api = api
        names = ("xjit_queue_work", "xjit_queue_wait", "xjit_job_run")
        self._work, self._wait, self._run = (_DO(api.address(name)) for name in names)
        self._queues: tuple[int, ...] = ()
        self._forget_threads()
        self._asked = {START_WORKER: _ASK(self._start_worker), RUN_APART: _ASK(self._run_apart)}
        for name, function in self._asked.items():
            api.set_variable(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
        key = ctypes.c_uint32()
        if ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), None):
            raise OSError("there are no more pthread keys")
        api.set_variable(NESTED_KEY, key.value)
        os.register_at_fork(before=self.finish, after_in_child=self._after_fork)

    def _forget_threads(self) -> None:
        self._starting = threading.Lock()
        self._apart: set[threading.Thread] = set()
        self._room = threading.Semaphore(MAX_JOBS)

    def serve(self, queues: Sequence[int]) -> None:
        """From now on calls may be put into these queues."""
        self._queues = tuple(queues)
        self._api.set_variable(IS_ASYNCHRONOUS, 1)

    def end(self) -> None:
        """Finishes, and has later calls run in the threads that make them."""
        self.finish()
        self._api.set_variable(IS_ASYNCHRONOUS, 0)

    def finish(self) -> None:
        """Waits until there is nothing to do; a function that a program calls waits for nothing."""
        while threading.current_thread() not in self._apart:
            with self._starting:
                threads = [thread for thread in self._apart if thread.is_alive()]
            for thread in threads:
                thread.join()
            for queue in self._queues:
                self._wait(queue)
            if not threads:
                return

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
                queue["has_worker"] = _start(threading.Thread(target=self._work, args=(address,), daemon=True))
            return queue["has_worker"]

    def _run_apart(self, job: int) -> int:
        is_nested = threading.current_thread() in self._apart
        if not is_nested:
            self._room.acquire()
        thread = threading.Thread(target=self._run_in_room, args=(job, is_nested), daemon=True)
        with self._starting:
            self._apart = {thread, *(other for other in self._apart if other.is_alive())}  # it looks for itself there
            if _start(thread):
                return 1
            self._apart.discard(thread)
        if not is_nested:
            self._room.release()
        return 0

    def _run_in_room(self, job: int, is_nested: bool) -> None:
        try:
            self._run(job)
        finally:
            if not is_nested:
                self._room.release()


def _start(thread: threading.Thread) -> bool:
    """Whether the system let it start."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
