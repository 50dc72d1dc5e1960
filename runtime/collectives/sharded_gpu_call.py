"""A call of a GPU's program on all its devices: a thread of the host for each, which meet at collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.calls.host_calls import Device
from xjit.runtime.collectives.communicator import Communicator
from xjit.runtime.collectives.sharded_call import check_number_of_inputs, run_on_threads
from xjit.runtime.gpu_program import GpuModule


class ShardedGpuCall:
    """`call(inputs_per_device)` as of `ShardedCall`; `run_device(device, inputs)` does the part of one device."""

    def __init__(self, module: GpuModule, run_device: Callable[[Device, Sequence[Any]], Any]) -> None:
        self._module = module
        self._run_device = run_device

    def __call__(self, inputs_per_device: Sequence[Sequence[Any]]) -> list[Any]:
        check_number_of_inputs(self._module, inputs_per_device)
        communicator = Communicator(self._module.num_devices)
        results: list[Any] = [None] * self._module.num_devices

        def run(number: int) -> None:
            device = Device(communicator, number, *divmod(number, self._module.num_partitions))
            try:
                results[number] = self._run_device(device, inputs_per_device[number])
            except InvalidArgument as error:
                raise InvalidArgument(f"device {number}: {error}") from None

        run_on_threads(self._module.num_devices, run, communicator, lambda: None)
        return results
