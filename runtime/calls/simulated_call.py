"""Calls of a GPU module on the host: its thunks from Python, its kernels by the simulator, one after the other."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from xjit.runtime.arrays.arguments import conforming
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.calls.host_calls import Device, do_on_host
from xjit.runtime.calls.simulated_matmul import multiply_on_host
from xjit.runtime.calls.simulated_solver import Lapack, solve_on_host
from xjit.runtime.calls.thunk_interpreter import ThunkMemory, executed_thunks
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.gpu_sim import MemoryRange, simulate
from xjit.runtime.program import ARENA_ALIGNMENT
from xjit.thunks import CopyThunk, KernelThunk, MatmulSpec, RuntimeCallThunk, ShapedSlice, SolverSpec


class SimulatedCall:
    """Runs a module on physical buffers. With `sanitize`, every access of every kernel is checked.

    `reverse` runs threads and blocks from the last to the first. `cache_dir`: see `simulate`. `device`: which one this
    is, of a program of several. `lapack` does what the device's libraries would.
    """

    def __init__(
        self,
        module: GpuModule,
        lapack: Lapack,
        *,
        sanitize: bool = False,
        reverse: bool = False,
        cache_dir: str | None = None,
        device: Device | None = None,
    ) -> None:
        self._device = device
        self._lapack = lapack
        self._cache_dir = cache_dir
        self._module = module
        self._sanitize = sanitize
        self._reverse = reverse
        self._constants = [_aligned_copy(constant) for constant in module.constants]

    def __call__(self, *buffers: Array) -> tuple[Array, ...]:
        """Returns the physical buffers of the results. Errors: SimulationError for what a GPU does not define."""
        given = [conforming(b, s.dtype) for b, s in zip(buffers, self._module.parameters, strict=True)]
        results = [_aligned_zeros(s.byte_size).view(s.dtype) for s in self._module.results]
        self.run(given, results)
        return tuple(results)

    def run(self, buffers: Sequence[Array], results: Sequence[Array]) -> None:
        """Runs with given result buffers."""
        self.run_at([array.ctypes.data for array in buffers], [array.ctypes.data for array in results])

    def run_at(self, parameters: Sequence[int], results: Sequence[int]) -> None:
        """Runs on memory at addresses, in the layouts of the program; a result may be where a donated parameter is."""
        constants = [array.ctypes.data for array in self._constants]
        memory = ThunkMemory(parameters, results, constants, self._module.arena_size)
        for thunk in executed_thunks(self._module.program.thunks, memory.number):
            if isinstance(thunk, CopyThunk):
                ctypes.memmove(memory.address(thunk.destination), memory.address(thunk.source), thunk.destination.size)
                continue
            if isinstance(thunk, RuntimeCallThunk):
                self._do_call(thunk, memory)
                continue
            assert isinstance(thunk, KernelThunk), f"a GPU runs no {type(thunk).__name__}"
            if not _is_needless(thunk, memory):
                self._launch(thunk, memory)

    def _do_call(self, thunk: RuntimeCallThunk, memory: ThunkMemory) -> None:
        operands, results = (
            [memory.address(place.slice) for place in places] for places in (thunk.operands, thunk.results)
        )
        match thunk.call:
            case MatmulSpec():
                multiply_on_host(thunk.call, [*operands, *results])
            case SolverSpec():
                solve_on_host(thunk.call, [*operands, *results], self._lapack)
            case call:
                do_on_host(call, operands, results, [place.slice.size for place in thunk.operands], self._device)

    def _launch(self, thunk: KernelThunk, memory: ThunkMemory) -> None:
        arguments = [_range(memory, place) for place in (*thunk.operands, *thunk.results)]
        kernel = self._module.program.kernels[thunk.kernel]
        simulate(kernel, arguments, reverse=self._reverse, sanitize=self._sanitize, cache_dir=self._cache_dir)


def _is_needless(thunk: KernelThunk, memory: ThunkMemory) -> bool:
    """Whether a kernel only copies a buffer to itself."""
    if thunk.skip_if_same is None:
        return False
    operand, result = thunk.skip_if_same
    return memory.address(thunk.operands[operand].slice) == memory.address(thunk.results[result].slice)


def _range(memory: ThunkMemory, place: ShapedSlice) -> MemoryRange:
    return MemoryRange(memory.address(place.slice), place.slice.size)


def _aligned_zeros(size: int) -> Array:
    block = np.zeros(size + ARENA_ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ARENA_ALIGNMENT
    return block[start : start + size]


def _aligned_copy(constant: Array) -> Array:
    data = np.ascontiguousarray(constant).reshape(-1).view(np.uint8)
    copy = _aligned_zeros(max(data.size, 1))
    copy[: data.size] = data
    return copy
