"""The threads that do what devices have to do: they start with the first job.

Exits and forks wait for what was asked for before, not for what other threads go on to ask for. What handlers of
signals raise while threads are started (KeyboardInterrupt) is raised after the call, whose jobs run all the same.
"""

from __future__ import annotations

import _thread
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from xjit.jax_backend.native.api import NativeApi
from xjit.jax_backend.native.execute import IS_ASYNCHRONOUS
from xjit.jax_backend.native.queues import (
    HAS_NO_THREADS,
    HAS_THREADS,
    MAX_JOBS,
    NESTED_KEY,
    RUN_APART,
    START_WORKER,
)
from xjit.jax_backend.records import PTHREAD_SIZE, QUEUE
from xjit.jax_backend.requests import Request, give_answer

_ASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_DO = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PATIENCE_S = 0.05


class Workers:
    """A thread per queue, and one per job that calls functions of users."""

    def __init__(self, api: NativeApi, stop_group: Callable[[int], None]) -> None:
        """`stop_group(call)` ends the calls of a call's group, whose devices get no threads."""
        self._api = api
        self._stop_group = stop_group
        names = ("xjit_queue_work", "xjit_queue_wait", "xjit_job_run")
        work, self._wait, self._run = (_DO(api.address(name)) for name in names)
        self._work: Callable[[_Gang, int], Any] = lambda _, queue: work(queue)
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
        self._gangs: dict[_Gang, None] = {}  # in order
        self._gang_of: dict[int, _Gang] = {}  # by thread
        self._changed = threading.Event()

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
        if threading.get_ident() in self._gang_of:
            return
        roots = {gang.root for gang in tuple(self._gangs)}
        while gangs := [gang for gang in tuple(self._gangs) if gang.root in roots]:
            for gang in gangs:
                gang.ended.wait()
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

    def _start_worker(self, address: int, _count: int, answer: int) -> None:
        queue = Request(QUEUE, address)

        def start(gang: _Gang) -> int:
            with self._starting:
                if not queue["has_worker"]:
                    queue["has_worker"] = gang.start()
            return HAS_THREADS if queue["has_worker"] else HAS_NO_THREADS

        give_answer(answer, lambda: _Gang([address], self._work, None), start)

    def _run_apart(self, address: int, count: int, answer: int) -> None:
        """Several jobs meet while they run: all of them have threads, or none has."""
        jobs = list((ctypes.c_void_p * count).from_address(address))
        caller = self._gang_of.get(threading.get_ident())

        def start(gang: _Gang) -> int:
            if not gang.has_started:
                self._gangs[gang] = None
                self._wait_for_room(gang)
            if gang.start():
                return HAS_THREADS
            self._forget(gang)
            if count > 1:
                self._stop_group(jobs[0] or 0)
            return HAS_NO_THREADS

        give_answer(answer, lambda: _Gang(jobs, self._run_job, caller), start)

    def _wait_for_room(self, gang: _Gang) -> None:
        """Until few enough came before it; those that others' functions call wait for nothing, and do not count."""
        while gang.root is gang:
            before = itertools.takewhile(lambda other: other is not gang, tuple(self._gangs))
            if sum(other.root is other for other in before) < MAX_JOBS:
                return
            self._changed.wait(_PATIENCE_S)
            self._changed.clear()

    def _run_job(self, gang: _Gang, job: int) -> None:
        me = threading.get_ident()
        self._gang_of[me] = gang
        try:
            self._run(job)
        finally:
            del self._gang_of[me]
            if gang.meeting.wait() == 0:
                self._forget(gang)

    def _forget(self, gang: _Gang) -> None:
        self._gangs.pop(gang, None)
        gang.ended.set()
        self._changed.set()


class _Gang:
    """Threads that do a job each, all of them or none, once they are all there. `root`: whose job has called theirs."""

    def __init__(self, jobs: Sequence[int], run: Callable[[_Gang, int], Any], caller: _Gang | None) -> None:
        self.root: _Gang = caller.root if caller else self
        self.meeting = threading.Barrier(len(jobs))
        self.ended = threading.Event()
        self._jobs = jobs
        self.has_started = False
        self._run = run
        self._threads: dict[int, int] = {}  # by job

    def start(self) -> bool:
        """Whether the system let all of them start. It may be interrupted, and called again."""
        if self.has_started or self.meeting.broken:
            return self.has_started
        for i in range(len(self._jobs)):
            if i not in self._threads:
                try:
                    _thread.start_new_thread(self._do, (i,))  # what it raises then is a handler's: it has started
                except RuntimeError:
                    self.meeting.abort()
                    return False
        self.has_started = True
        return True

    def _do(self, i: int) -> None:
        me = threading.get_ident()
        if self._threads.setdefault(i, me) != me:  # who was interrupted has started another one
            return
        try:
            self.meeting.wait()
        except threading.BrokenBarrierError:
            return
        self._run(self, self._jobs[i])
