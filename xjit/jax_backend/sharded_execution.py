"""Calls of programs whose devices meet: a communicator for each, and who runs which of its calls."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import ResourceExhausted
from xjit.jax_backend.programs import LoadedProgram
from xjit.jax_backend.records import CALL
from xjit.jax_backend.requests import Request, error_of, failure_of
from xjit.llvm.execution_context import RuntimeStatus
from xjit.runtime.calls.host_calls import Device
from xjit.runtime.collectives.communicator import Communicator, close_communicator, open_communicator


@dataclass(slots=True)
class _Group:
    """One call of a program on all its devices."""

    program: LoadedProgram
    communicator: Communicator
    num_running: int


class ShardedExecution:
    """The groups of calls that are not done, by number. What fails at run time is the error of the results."""

    def __init__(self, run: int) -> None:
        """`run` is the address of the native function that runs one call."""
        self._run: Callable[[int], int | None] = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(run)
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A child has none of these calls."""
        self._groups: dict[int, _Group] = {}
        self._running: dict[int, Communicator] = {}  # by thread
        self._lock = threading.Lock()

    def open(self, program: LoadedProgram) -> int:
        """The number of a new group."""
        placement = program.placement
        number, communicator = open_communicator(placement.num_replicas, placement.num_partitions)
        self._groups[number] = _Group(program, communicator, len(placement.devices))
        return number

    def run_member(self, call: int, input_error: int) -> int:
        """Runs a call of a group, unless an argument has failed; returns its error, or 0."""
        fields = Request(CALL, call)
        number = fields["group"]
        group = self._groups[number]
        thread = threading.get_ident()
        outer = self._running.get(thread)  # where there are no threads, a call within a callback runs in the callback's
        self._running[thread] = group.communicator
        error, failure = input_error, None
        try:
            if input_error:
                group.communicator.stop(failure_of(input_error))
            else:
                error = self._run_traced(group.program, fields)
        except BaseException as raised:
            error, failure = error_of(raised), raised
        finally:
            if outer is None:
                del self._running[thread]
            else:
                self._running[thread] = outer
            self._leave(number, group, failure)
        return error

    def device_of(self, program: LoadedProgram, call: Request) -> Device | None:
        """Which device of a program a call is for, and what it meets the others with; None of a program of one."""
        parts = program.structs.parts
        if not parts:
            return None
        number, group = parts.index(call["executable"]), self._groups.get(call["group"])
        communicator = group.communicator if group is not None else Communicator(len(parts))
        return Device(communicator, number, *divmod(number, program.placement.num_partitions))

    def _run_traced(self, program: LoadedProgram, call: Request) -> int:
        from jax.profiler import TraceAnnotation

        part = program.structs.parts.index(call["executable"])
        with TraceAnnotation("xjit::execute", module=program.module.name, device=part):
            return self._run(call.address) or 0

    def _leave(self, number: int, group: _Group, failure: BaseException | None) -> None:
        group.communicator.finish(failure)
        with self._lock:
            group.num_running -= 1
            if group.num_running:
                return
        del self._groups[number]
        close_communicator(number)

    def stop(self, call: int) -> None:
        """Ends the group of a call, for want of threads."""
        error = ResourceExhausted("there are not as many threads as the program has devices")
        self._groups[Request(CALL, call)["group"]].communicator.stop(error)

    def failure(self, status: int, error: BaseException) -> BaseException:
        """The error for a status on this thread: of a collective that failed, that of the device which did.

        The other devices of the group end at their next collective.
        """
        communicator = self._running.get(threading.get_ident())
        if communicator is None:
            return error
        if status == RuntimeStatus.COLLECTIVE_FAILED and communicator.failure is not None:
            return communicator.failure
        communicator.stop(error)
        return error
