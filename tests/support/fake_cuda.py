"""A CUDA driver without a GPU: memory is the host's, kernels are simulated, streams run at once - or are captured."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import ExecutionError
from xjit.runtime.gpu_sim import MemoryRange, simulate
from xjit.runtime.gpu_sim.kernel_text import read_kernel
from xjit.thunks import GpuKernel, LaunchDimensions

_U32, _POINTER = ctypes.c_uint32, ctypes.c_void_p
_Launch = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, *[_U32] * 7, _POINTER, _POINTER, _POINTER)
_Copy = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, _POINTER)
LAUNCH_FAILED = 719
_ALIGNMENT = 256


class FakeDriver:
    """`CudaDriver` on the host.

    `log` has what was done, `live` the memory and events in use. `fail_launch` makes the launch of that number fail.
    `free_memory` is what the device says that nobody uses.
    """

    architecture = "sm_90"

    def __init__(self, kernels: Mapping[str, GpuKernel], *, sanitize: bool = True) -> None:
        self._kernels = kernels
        self._sanitize = sanitize
        self._numbers = itertools.count(1000)
        self._functions: dict[int, GpuKernel] = {}
        self._blocks: dict[int, np.ndarray[Any, Any]] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self._capturing: dict[int, list[Callable[[], None]]] = {}
        self.events: set[int] = set()
        self.log: list[tuple[Any, ...]] = []
        self.fail_launch = -1
        self.free_memory = 1 << 30
        self._launches = 0
        self._clock = 0.0  # in microseconds; it goes on by one with each time that is taken
        self._times: dict[int, float] = {}
        self._launch, self._copy = _Launch(self._on_launch), _Copy(self._on_copy)

    @property
    def launch_function(self) -> int:
        return ctypes.cast(self._launch, _POINTER).value or 0

    @property
    def copy_function(self) -> int:
        return ctypes.cast(self._copy, _POINTER).value or 0

    @property
    def live_memory(self) -> int:
        """Blocks that were not given back."""
        return len(self._blocks)

    def make_current(self) -> None:
        self.log.append(("current",))

    def load_kernel(self, image: bytes, name: str, dynamic_shared_bytes: int) -> int:
        assert name.encode() in image
        handle = next(self._numbers)
        self._functions[handle] = self._kernels[name]
        return handle

    def create_stream(self) -> int:
        return next(self._numbers)

    def synchronize(self, stream: int) -> None:
        assert stream not in self._capturing, "a stream that is captured cannot be waited for"
        self.log.append(("synchronize", stream))

    def allocate(self, size: int, stream: int) -> int:
        assert stream not in self._capturing and size > 0
        block = np.full(size + _ALIGNMENT, 0xCD, np.uint8)
        address = block.ctypes.data + -block.ctypes.data % _ALIGNMENT
        self._blocks[address] = block
        self.log.append(("allocate", size, stream))
        return address

    def free(self, address: int, stream: int) -> None:
        del self._blocks[address]
        self.log.append(("free", stream))

    def free_bytes(self) -> int:
        return self.free_memory

    def pass_time(self, microseconds: float) -> None:
        """Lets the device be busy for so long."""
        self._clock += microseconds

    def copy_to_device(self, destination: int, source: int, size: int, stream: int) -> None:
        self._range(destination, size)
        ctypes.memmove(destination, source, size)
        self.log.append(("to_device", size, stream))

    def copy_to_host(self, destination: int, source: int, size: int, stream: int) -> None:
        self._range(source, size)
        ctypes.memmove(destination, source, size)
        self.log.append(("to_host", size, stream))

    def copy_on_device(self, destination: int, source: int, size: int, stream: int) -> None:
        self._on_copy(destination, source, size, stream)

    def record_event(self, stream: int) -> int:
        event = next(self._numbers)
        self.events.add(event)
        self.log.append(("record", stream))
        return event

    def record_time(self, stream: int) -> int:
        self._clock += 1
        event = self.record_event(stream)
        self._times[event] = self._clock
        return event

    def seconds_between(self, first: int, second: int) -> float:
        assert {first, second} <= self.events
        return 1e-6 * (self._times[second] - self._times[first])

    def wait_event(self, stream: int, event: int) -> None:
        assert event in self.events
        self.log.append(("wait", stream))

    def synchronize_event(self, event: int) -> None:
        assert event in self.events

    def is_done(self, event: int) -> bool:
        return event in self.events

    def destroy_event(self, event: int) -> None:
        self.events.remove(event)

    def begin_capture(self, stream: int) -> None:
        self._capturing[stream] = []

    def end_capture(self, stream: int) -> int:
        graph = next(self._numbers)
        self._graphs[graph] = self._capturing.pop(stream)
        return graph

    def launch_graph(self, graph: int, stream: int) -> None:
        self.log.append(("graph", stream))
        for step in self._graphs[graph]:
            step()

    def destroy_graph(self, graph: int) -> None:
        del self._graphs[graph]

    def _do(self, stream: int | None, step: Callable[[], None]) -> None:
        if (stream or 0) in self._capturing:
            self._capturing[stream or 0].append(step)
        else:
            step()

    def _on_launch(self, function: int, *rest: Any) -> int:
        *extents, shared, stream, parameters, _ = rest
        number, self._launches = self._launches, self._launches + 1
        if number == self.fail_launch:
            return LAUNCH_FAILED
        kernel = self._functions[function]
        launch = LaunchDimensions(tuple(extents[:3]), tuple(extents[3:]), shared)  # type: ignore[arg-type]
        assert launch == kernel.launch
        count = sum(parameter.is_pointer for parameter in read_kernel(kernel.ir_text, kernel.name).parameters)
        places = (ctypes.c_void_p * (count + len(kernel.scalars))).from_address(parameters)
        values = [ctypes.c_uint64.from_address(place or 0).value for place in places]
        assert tuple(values[count:]) == kernel.scalars
        ranges = [self._around(address) for address in values[:count]]
        self.log.append(("launch", kernel.name, stream))
        self._do(stream, lambda: simulate(kernel, ranges, sanitize=self._sanitize))
        return 0

    def _on_copy(self, destination: int, source: int, size: int, stream: int) -> int:
        self._range(destination, size)
        self._range(source, size)
        self.log.append(("copy", size, stream))
        self._do(stream, lambda: ctypes.memmove(destination, source, size) and None)
        return 0

    def _around(self, address: int) -> MemoryRange:
        """What is left of the block of an address."""
        for start, block in self._blocks.items():
            end = block.ctypes.data + block.size
            if start <= address < end:
                return MemoryRange(address, end - address)
        raise AssertionError(f"{address:#x} is in no block of the device")

    def _range(self, address: int, size: int) -> None:
        if self._around(address).size < size:
            raise ExecutionError(f"{size} bytes from {address:#x} are not in one block")
