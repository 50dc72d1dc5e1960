"""Evaluation on R replicas times P partitions: one thread and one interpreter per device, in step at collectives.

A device that reaches a collective leaves its operands there and waits for the others of its group; then each computes
its own result from what all have left, in the order of the group. Nothing else is shared.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Any

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import ExecutionError
from xjit.hlo.ir.instruction import HloInstruction


@dataclass
class _Meeting:
    """One execution of a collective by one group."""

    instruction: HloInstruction
    members: tuple[int, ...]
    values: dict[int, Any] = field(default_factory=dict)

    def is_complete(self) -> bool:
        """Whether every member has come."""
        return len(self.values) == len(self.members)

    def describe(self) -> str:
        """Says who waits for whom."""
        missing = [m for m in self.members if m not in self.values]
        return f"{self.instruction.name} of devices {sorted(self.values)} waits for {missing}"


class _StoppedError(Exception):
    """Another device has failed."""


@dataclass
class Rendezvous:
    """Where the devices of one evaluation meet."""

    count: int
    _lock: threading.Condition = field(default_factory=threading.Condition, init=False)
    _meetings: dict[Hashable, _Meeting] = field(default_factory=dict, init=False)
    _mail: dict[Hashable, deque[Any]] = field(default_factory=dict, init=False)
    _awaited: dict[Hashable, HloInstruction] = field(default_factory=dict, init=False)
    _running: int = field(init=False)
    failure: BaseException | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._running = self.count

    def exchange(self, device: int, instruction: HloInstruction, members: tuple[int, ...], value: Any) -> list[Any]:
        """Waits until every member has come to the instruction; returns what they left, in the order of `members`.

        ExecutionError if none can go on: some device of a group does not come.
        """
        with self._lock:
            meeting = self._meetings.setdefault((instruction, members), _Meeting(instruction, members))
            meeting.values[device] = value
            if meeting.is_complete():
                del self._meetings[(instruction, members)]
                self._running += len(members) - 1
                self._lock.notify_all()
            else:
                self._leave()
                while not meeting.is_complete() and self.failure is None:
                    self._lock.wait()
            if not meeting.is_complete():
                raise _StoppedError
        return [meeting.values[m] for m in members]

    def send(self, address: Hashable, value: Any) -> None:
        """Leaves a value for the one device that receives at an address, and goes on."""
        with self._lock:
            self._mail.setdefault(address, deque()).append(value)
            if self._awaited.pop(address, None) is not None:
                self._running += 1
                self._lock.notify_all()

    def receive(self, address: Hashable, instruction: HloInstruction) -> Any:
        """Waits for the next value left at an address. ExecutionError if none can come."""
        with self._lock:
            mail = self._mail.setdefault(address, deque())
            if not mail:
                self._awaited[address] = instruction
                self._leave()
            while not mail and self.failure is None:
                self._lock.wait()
            if not mail:
                raise _StoppedError
            return mail.popleft()

    def finish(self, failure: BaseException | None) -> None:
        """A device has ended. The first failure is kept, and stops the others at their next meeting."""
        with self._lock:
            if failure is not None and not isinstance(failure, _StoppedError) and self.failure is None:
                self.failure = failure
                self._lock.notify_all()
            self._leave()

    def _leave(self) -> None:
        self._running -= 1
        if self._running == 0 and (self._meetings or self._awaited) and self.failure is None:
            reasons = [m.describe() for m in self._meetings.values()]
            reasons += [f"{i.name} waits for what nobody sends" for i in self._awaited.values()]
            instruction = next((m.instruction for m in self._meetings.values()), None)
            span = (instruction or next(iter(self._awaited.values()))).span
            self.failure = ExecutionError(f"devices wait for each other: {'; '.join(reasons)}", span)
            self._lock.notify_all()


@dataclass(frozen=True)
class Device:
    """The place of an interpreter among others; by default, the only one."""

    number: int = 0
    replica_count: int = 1
    num_partitions: int = 1
    rendezvous: Rendezvous = field(default_factory=lambda: Rendezvous(1))

    @property
    def replica(self) -> int:
        """The replica id."""
        return self.number // self.num_partitions

    @property
    def partition(self) -> int:
        """The partition id."""
        return self.number % self.num_partitions


def run_devices(replica_count: int, num_partitions: int, run: Callable[[Device], Any]) -> list[Any]:
    """Returns `run(device)` of every device; raises the first error of any."""
    count = replica_count * num_partitions
    rendezvous = Rendezvous(count)
    results: list[Any] = [None] * count

    def work(number: int) -> None:
        failure: BaseException | None = None
        try:
            results[number] = run(Device(number, replica_count, num_partitions, rendezvous))
        except BaseException as error:  # handed to the caller's thread
            failure = error
        rendezvous.finish(failure)

    _join([threading.Thread(target=work, args=(n,), name=f"device {n}", daemon=True) for n in range(count)])
    if rendezvous.failure is not None:
        raise rendezvous.failure
    return results


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
