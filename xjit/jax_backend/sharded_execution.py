"""Calls of programs over several devices: one thread per device, each of which calls the native entry as for one."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from xjit.jax_backend.c_api import FUNCTIONS
from xjit.jax_backend.programs import LoadedProgram
from xjit.jax_backend.records import EXECUTABLE
from xjit.jax_backend.requests import Memory, Request
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.runtime.collectives.communicator import Communicator, close_communicator, open_communicator
from xjit.runtime.collectives.sharded_call import device_context, run_on_threads

_EXECUTE = FUNCTIONS["LoadedExecutable_Execute"]
_LISTS = ("argument_lists", "output_lists", "device_complete_events")


class ShardedExecution:
    """Runs programs on all their devices; knows on which thread which execution runs."""

    def __init__(self, execute: int) -> None:
        """`execute` is the address of the native function for one device."""
        self._execute: Callable[[int], int | None] = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(execute)
        self._running: dict[int, Communicator] = {}

    def __call__(self, program: LoadedProgram, request: Request) -> int:
        """Does a request for all devices of a program; returns the address of an error, or 0.

        What fails at run time is the error of the results, as for one device.
        """
        placement = program.placement
        with program.lock:
            number, communicator = open_communicator(placement.num_replicas, placement.num_partitions)
            try:
                return self._run(program, request, number, communicator)
            finally:
                close_communicator(number)

    def _run(self, program: LoadedProgram, request: Request, number: int, communicator: Communicator) -> int:
        from jax.profiler import TraceAnnotation

        initial = program.executable.entry.initial_context
        partitions = program.placement.num_partitions
        errors = [0] * len(program.structs.parts)
        requests = [self._part_of(program, request, i) for i in range(len(program.structs.parts))]
        for device, part in enumerate(program.structs.parts):
            context = device_context(initial, device // partitions, device % partitions, number)
            ctypes.memmove(Request(EXECUTABLE, part)["initial_context"], context, EXECUTION_CONTEXT.size)

        def run(device: int) -> None:
            thread = threading.get_ident()
            self._running[thread] = communicator
            try:
                with TraceAnnotation("xjit::execute", module=program.module.name, device=device):
                    errors[device] = self._execute(requests[device].address) or 0
            finally:
                del self._running[thread]

        try:
            run_on_threads(len(program.structs.parts), run, communicator, lambda: None)
        except BaseException as error:
            if error is not communicator.failure:  # which is the error of the results
                raise
        return next(filter(None, errors), 0)

    def _part_of(self, program: LoadedProgram, request: Request, device: int) -> Memory:
        """The request for one device alone."""
        size = min(request["struct_size"], _EXECUTE.size)
        part = Memory(ctypes.string_at(request.address, size).ljust(_EXECUTE.size, b"\0"))
        fields = Request(_EXECUTE, part.address)
        fields["executable"], fields["num_devices"], fields["execute_device"] = program.structs.parts[device], 1, 0
        for name in _LISTS:
            if request[name]:
                fields[name] = request[name] + ctypes.sizeof(ctypes.c_void_p) * device
        return part

    def failure(self, status: int, error: BaseException) -> BaseException:
        """The error for a status on this thread: of a collective that failed, that of the device which did.

        The other devices of the execution end at their next collective.
        """
        communicator = self._running.get(threading.get_ident())
        if communicator is None:
            return error
        if status == RuntimeStatus.COLLECTIVE_FAILED and communicator.failure is not None:
            return communicator.failure
        communicator.stop(error)
        return error
