"""Programs of GPUs, real or simulated, as JAX calls them: Python puts their kernels on the stream of their device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xjit.cpu_executable import MemoryAnalysis
from xjit.hlo.ir.module import HloModule
from xjit.jax_backend.device_memory import GpuMemory
from xjit.jax_backend.executable_structs import Code
from xjit.jax_backend.records import DISPATCH_LONG, DISPATCH_TOGETHER
from xjit.runtime.calls.host_calls import Device
from xjit.runtime.gpu_program import GpuModule
from xjit.thunks import CollectiveCall, RegisteredCall, RuntimeCallThunk

if TYPE_CHECKING:
    from xjit.gpu_compiler import (  # a sixth of all modules, for GPUs alone
        DeviceExecutable,
        GpuExecutable,
        SimulatedExecutable,
    )


class GpuProgram:
    """A compiled program, and what the backend asks about it."""

    def __init__(self, executable: GpuExecutable) -> None:
        self._executable = executable

    @property
    def program(self) -> GpuModule:
        """What runs."""
        return self._executable.program

    @property
    def optimized_module(self) -> HloModule:
        """The module that the kernels are of."""
        return self._executable.optimized_module

    @property
    def code(self) -> Code:
        """It always goes to the queue of its device: no thread of a caller waits for a GPU."""
        thunks = self.program.program.thunks.kernel_thunks
        calls = [thunk.call for thunk in thunks if isinstance(thunk, RuntimeCallThunk)]
        meets = any(isinstance(call, CollectiveCall) for call in calls)
        return Code(
            DISPATCH_TOGETHER if meets else DISPATCH_LONG,
            any(isinstance(call, RegisteredCall) for call in calls),
            self._code_size,
        )

    @property
    def _code_size(self) -> int:
        return sum(len(kernel.ir_text) for kernel in self.program.program.kernels.values())

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes that a call takes; of code, those of the kernels' text."""
        program = self.program
        aliased = {alias.result for alias in program.aliases}
        return MemoryAnalysis(
            argument_size_in_bytes=sum(parameter.byte_size for parameter in program.parameters),
            output_size_in_bytes=sum(result.byte_size for result in program.results),
            alias_size_in_bytes=sum(program.results[number].byte_size for number in aliased),
            temp_size_in_bytes=program.arena_size,
            constant_size_in_bytes=sum(constant.nbytes for constant in program.constants),
            generated_code_size_in_bytes=self._code_size,
        )

    def run(
        self, parameters: Sequence[int], results: Sequence[int], memory: GpuMemory | None, device: Device | None
    ) -> None:
        """Runs on the data at addresses, of a GPU's memory or (None) the host's; `device`: this one, of several.

        Errors: ExecutionError; StoppedError if another device failed.
        """
        if memory is None:
            cast("SimulatedExecutable", self._executable).run_at(parameters, results, device)
            return
        real = cast("DeviceExecutable", self._executable).executable_on(memory.driver)
        real.run_at(parameters, results, memory.stream, device)
        memory.give_back()
