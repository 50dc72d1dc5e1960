"""A call of a program on all its devices: one thread for each, which meet at collectives."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import ExecutionError, HloError, InvalidArgument, Unsupported
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.runtime.arrays.arguments import conforming, flatten_arguments, leaf_paths, to_buffer
from xjit.runtime.arrays.physical_layout import Array, from_physical
from xjit.runtime.calls.ctypes_call import call_with_context
from xjit.runtime.calls.fast_call import NativeEntry
from xjit.runtime.collectives.communicator import Communicator, opened_communicator
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.program import CpuProgram, unflatten_tree

_run_ids = itertools.count(1)


def device_context(initial: bytes, replica: int, partition: int, communicator: int) -> bytes:
    """The execution context of one device, from that of a call."""
    fields = EXECUTION_CONTEXT.unpack(initial)
    fields.update(replica_id=replica, partition_id=partition, communicator=communicator, run_id=next(_run_ids))
    return EXECUTION_CONTEXT.pack(**fields)


class ShardedCall:
    """Runs a program on all its devices.

    `call(inputs_per_device)` takes the arguments of each device, replica * num_partitions + partition, as for a call
    on one, and returns their results in that order. A failure on one device is the error of the call: the others end
    at their next collective. So does Ctrl-C.
    """

    def __init__(self, program: CpuProgram, entry: NativeEntry, on_error: Callable[[int, int, int], Any]) -> None:
        self._program = program
        self._entry = entry
        self._on_error = on_error
        self._paths = leaf_paths(program.parameter_tree)

    def __call__(self, inputs_per_device: Sequence[Sequence[Any]]) -> list[Any]:
        program, count = self._program, self._program.num_devices
        check_number_of_inputs(program, inputs_per_device)
        arguments = [self._buffers(device, inputs) for device, inputs in enumerate(inputs_per_device)]
        results = [[np.empty(s.byte_size // s.dtype.itemsize, s.dtype) for s in program.results] for _ in range(count)]
        with opened_communicator(program.num_replicas, program.num_partitions) as (number, communicator):
            _Run(program, self._entry, self._on_error, arguments, results, number).run(communicator)
        shaped = [[from_physical(*pair) for pair in zip(row, program.results, strict=True)] for row in results]
        return [unflatten_tree(program.result_tree, row) for row in shaped]

    def _buffers(self, device: int, inputs: Sequence[Any]) -> list[Array]:
        program = self._program
        try:
            leaves = flatten_arguments(program.parameter_tree, program.parameters, inputs)
            buffers = map(to_buffer, leaves, program.parameters, self._paths)
            return [conforming(b, s.dtype) for b, s in zip(buffers, program.parameters, strict=True)]
        except InvalidArgument as error:
            raise InvalidArgument(f"device {device}: {error}") from None


class _Run:
    """One execution."""

    def __init__(
        self,
        program: CpuProgram,
        entry: NativeEntry,
        on_error: Callable[[int, int, int], Any],
        arguments: Sequence[Sequence[Array]],
        results: Sequence[Sequence[Array]],
        communicator: int,
    ) -> None:
        self._entry = entry
        self._on_error = on_error
        self._arguments = arguments
        self._results = results
        self._contexts = [
            ctypes.create_string_buffer(
                device_context(entry.initial_context, r, p, communicator), EXECUTION_CONTEXT.size
            )
            for r in range(program.num_replicas)
            for p in range(program.num_partitions)
        ]

    def run(self, communicator: Communicator) -> None:
        """Runs all devices. Errors: the first failure of any."""
        run_on_threads(len(self._contexts), self._device, communicator, self._cancel)

    def _device(self, device: int) -> None:
        call_with_context(
            self._entry, self._on_error, self._contexts[device], self._arguments[device], self._results[device]
        )

    def _cancel(self) -> None:
        """Ends loops at their next round."""
        for context in self._contexts:
            ctypes.c_int32.from_buffer(context, EXECUTION_CONTEXT.offsets["cancel"]).value = 1


def check_number_of_inputs(program: CpuProgram | GpuModule, inputs_per_device: Sequence[Sequence[Any]]) -> None:
    """Errors: InvalidArgument for inputs of another number of devices; Unsupported if parameters are overwritten."""
    count = program.num_devices
    if len(inputs_per_device) != count:
        raise InvalidArgument(
            f"program {program.name!r} runs on {count} devices, got inputs for {len(inputs_per_device)}"
        )
    if any(alias.must for alias in program.aliases):
        raise Unsupported(f"program {program.name!r} writes results to its parameters: not on several devices")


def run_on_threads(
    count: int, run_device: Callable[[int], None], communicator: Communicator, cancel: Callable[[], None]
) -> None:
    """Runs devices 0 to count - 1, each on a thread of its own; returns when all have ended.

    Errors: the first failure of any, and what a signal handler raises meanwhile, after `cancel`.
    """

    def run(device: int) -> None:
        failure: BaseException | None = None
        try:
            run_device(device)
        except BaseException as error:
            failure = error
        communicator.finish(failure)

    threads = [threading.Thread(target=run, args=(i,), name=f"xjit-device-{i}", daemon=True) for i in range(count)]
    started: list[threading.Thread] = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        for thread in started:
            thread.join()
    except BaseException as error:
        communicator.stop(ExecutionError("the call was interrupted"))
        cancel()
        for thread in started:
            thread.join()
        raise error
    if communicator.failure is not None:
        raise _again(communicator.failure)


def _again(failure: BaseException) -> BaseException:
    """A failure of another thread, to be raised here."""
    return failure if isinstance(failure, HloError) else failure.with_traceback(None)
