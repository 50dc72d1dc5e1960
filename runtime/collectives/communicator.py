"""Where the devices of one execution meet: the last that comes to a collective moves the data of all.

Nothing is copied before everyone is there, and nobody goes on before all is copied, so operands and results may lie
anywhere. A device that fails, or ends while others wait for it, ends the execution on all of them: those that wait
leave, with their memory, and no meeting takes place any more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from xjit.hlo.diagnostics import ExecutionError
from xjit.runtime.collectives.movement import Places, clear_results, move
from xjit.thunks.collective_spec import CollectiveSpec


class StoppedError(Exception):
    """Another device has failed."""


@dataclass(slots=True)
class _Meeting:
    """One execution of a collective by one group."""

    spec: CollectiveSpec
    members: tuple[int, ...]
    places: dict[int, Places] = field(default_factory=dict[int, Places])
    is_moving: bool = False  # nobody may leave
    is_done: bool = False

    def describe(self) -> str:
        """Says who waits for whom."""
        missing = [m for m in self.members if m not in self.places]
        return f"{self.spec.opcode} '{self.spec.instruction}' of devices {sorted(self.places)} waits for {missing}"


class Communicator:
    """Of one execution on `count` devices."""

    def __init__(self, count: int) -> None:
        self._running = count
        self._changed = threading.Condition()
        self._meetings: dict[tuple[CollectiveSpec, tuple[int, ...]], _Meeting] = {}
        self.failure: BaseException | None = None

    def run(self, device: int, spec: CollectiveSpec, places: Places) -> None:
        """Does a device's part of a collective: its results are complete afterwards.

        Errors: ExecutionError for a device of no group, and if no device can go on; StoppedError if another failed.
        """
        members = next((group for group in spec.groups if device in group), None)
        if members is None:
            if spec.opcode not in ("collective-permute", "collective-broadcast"):
                raise ExecutionError(f"{spec.opcode} '{spec.instruction}': device {device} is in no replica group")
            clear_results(spec, places)
            return
        meeting = self._enter(device, spec, members, places)
        if meeting is None:
            return
        try:
            move(spec, members, meeting.places)
        except BaseException as error:
            self._end(meeting, error)
            raise
        self._end(meeting, None)

    def _enter(self, device: int, spec: CollectiveSpec, members: tuple[int, ...], places: Places) -> _Meeting | None:
        """Returns the meeting to the device that completes it; the others come back when all is moved."""
        with self._changed:
            if self.failure is not None:
                raise StoppedError
            meeting = self._meetings.setdefault((spec, members), _Meeting(spec, members))
            meeting.places[device] = places
            if len(meeting.places) == len(members):
                meeting.is_moving = True
                del self._meetings[(spec, members)]
                self._running += len(members) - 1  # they run again: no one can find them waiting for ever
                return meeting
            self._leave()
            while not meeting.is_done:
                if self.failure is not None and not meeting.is_moving:
                    raise StoppedError
                self._changed.wait()
            return None

    def _end(self, meeting: _Meeting, failure: BaseException | None) -> None:
        with self._changed:
            meeting.is_moving, meeting.is_done = False, failure is None
            if failure is not None:
                self._fail(failure)
            self._changed.notify_all()

    def finish(self, failure: BaseException | None) -> None:
        """A device has ended. The first failure is kept, and stops the others at their next meeting."""
        with self._changed:
            if failure is not None and not isinstance(failure, StoppedError):
                self._fail(failure)
            self._leave()

    def stop(self, failure: BaseException) -> None:
        """Stops all devices."""
        with self._changed:
            self._fail(failure)

    def _fail(self, failure: BaseException) -> None:
        if self.failure is None:
            self.failure = failure
        self._changed.notify_all()

    def _leave(self) -> None:
        self._running -= 1
        if self._running == 0 and self._meetings and self.failure is None:
            reasons = "; ".join(sorted(meeting.describe() for meeting in self._meetings.values()))
            self._fail(ExecutionError(f"the devices wait for each other for ever: {reasons}"))


@dataclass(frozen=True, slots=True)
class _Execution:
    communicator: Communicator
    num_partitions: int


_executions: dict[int, _Execution] = {}
_last_number = 0
_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that does not exist in the child may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


def open_communicator(num_replicas: int, num_partitions: int) -> tuple[int, Communicator]:
    """Returns a communicator, and its number for the slot of that name in execution contexts."""
    global _last_number
    communicator = Communicator(num_replicas * num_partitions)
    with _lock:
        _last_number += 1
        _executions[_last_number] = _Execution(communicator, num_partitions)
        return _last_number, communicator


def close_communicator(number: int) -> None:
    """Forgets a communicator; no device may run any more."""
    with _lock:
        del _executions[number]


@contextmanager
def opened_communicator(num_replicas: int, num_partitions: int) -> Generator[tuple[int, Communicator]]:
    """A communicator and its number, as of `open_communicator`, for as long as a call takes."""
    number, communicator = open_communicator(num_replicas, num_partitions)
    try:
        yield number, communicator
    finally:
        close_communicator(number)


def communicator_of(context: Mapping[str, int]) -> tuple[Communicator, int]:
    """Returns what an execution context's device meets others with, and the number of the device.

    Errors: ExecutionError for a call that is not one on all devices.
    """
    execution = _executions.get(context["communicator"])
    if execution is None:
        raise ExecutionError("a program of several devices was called on one: call execute_sharded")
    device = context["replica_id"] * execution.num_partitions + context["partition_id"]
    return execution.communicator, device
