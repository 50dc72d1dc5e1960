"""The memory of devices as Python reaches it: this machine's, or a GPU's by way of its driver."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import ResourceExhausted
from xjit.jax_backend.records import FREED
from xjit.jax_backend.requests import Request, free_struct
from xjit.runtime.thread_pool import running_pool

if TYPE_CHECKING:
    from xjit.runtime.cuda.driver import CudaDriver  # its package is for GPUs alone


class GpuMemory:
    """The memory of one GPU, in the order of one stream, on which its programs run, too.

    `take_freed()` returns the address of a list of FREED: what native code does not need any more.
    """

    def __init__(self, driver: CudaDriver, take_freed: Callable[[], int]) -> None:
        self.driver = driver
        self._take_freed = take_freed
        self._lock = threading.Lock()
        driver.make_current()
        self.stream = driver.create_stream()

    def allocate(self, num_bytes: int) -> int:
        """The address of memory of a byte at least. Errors: ResourceExhausted."""
        self.give_back()
        self.driver.make_current()
        return self.driver.allocate(max(num_bytes, 1), self.stream)

    def free(self, data: int) -> None:
        """Gives memory back."""
        self.driver.make_current()
        self.driver.free(data, self.stream)

    def give_back(self) -> None:
        """Gives back all that native code has noted."""
        freed = self._take_freed()
        while freed:
            note = Request(FREED, freed)
            self.free(note["data"])
            following = note["next"]
            free_struct(freed)
            freed = following

    def to_host(self, place: int, data: int, num_bytes: int) -> None:
        """Copies to memory of the host's."""
        self._on_stream(self.driver.copy_to_host, place, data, num_bytes)

    def to_device(self, data: int, place: int, num_bytes: int) -> None:
        """Copies from memory of the host's."""
        self._on_stream(self.driver.copy_to_device, data, place, num_bytes)

    def copy(self, target: int, source: int, num_bytes: int) -> None:
        """Copies on the device."""
        self._on_stream(self.driver.copy_on_device, target, source, num_bytes)

    def _on_stream(self, copy: Callable[[int, int, int, int], None], target: int, source: int, num_bytes: int) -> None:
        if not num_bytes:
            return
        self.driver.make_current()
        copy(target, source, num_bytes, self.stream)
        self.driver.synchronize(self.stream)


class DeviceMemories:
    """The memory of all devices, which are given by the addresses of their structs."""

    def __init__(self) -> None:
        self._gpus: dict[int, GpuMemory] = {}

    def add(self, device: int, memory: GpuMemory) -> None:
        """Has a device use memory of its own."""
        self._gpus[device] = memory

    def of_gpu(self, device: int) -> GpuMemory | None:
        """The memory of a device's own; None where it is the host's."""
        return self._gpus.get(device)

    def allocate(self, device: int, num_bytes: int) -> int:
        """The address of memory of a byte at least. Errors: ResourceExhausted."""
        if gpu := self.of_gpu(device):
            return gpu.allocate(num_bytes)
        data = running_pool().alloc(max(num_bytes, 1))
        if not data:
            raise ResourceExhausted(f"Out of memory allocating {num_bytes} bytes")
        return data

    def free(self, device: int, data: int) -> None:
        """Gives memory back."""
        if gpu := self.of_gpu(device):
            gpu.free(data)
        else:
            running_pool().free(data)

    @contextmanager
    def allocated(self, device: int, num_bytes: int) -> Generator[int]:
        """Like `allocate`; what fails inside gives the memory back. Errors: ResourceExhausted."""
        data = self.allocate(device, num_bytes)
        try:
            yield data
        except BaseException:
            self.free(device, data)
            raise

    @contextmanager
    def reading(self, device: int, data: int, num_bytes: int) -> Generator[int]:
        """The address where the host can read the data: it is there, or copied for as long."""
        gpu = self.of_gpu(device)
        if gpu is None:
            yield data
            return
        place = ctypes.create_string_buffer(max(num_bytes, 1))
        gpu.to_host(ctypes.addressof(place), data, num_bytes)
        yield ctypes.addressof(place)

    @contextmanager
    def writing(self, device: int, data: int, num_bytes: int) -> Generator[int]:
        """The address where the host can write all of the data."""
        gpu = self.of_gpu(device)
        if gpu is None:
            yield data
            return
        place = ctypes.create_string_buffer(max(num_bytes, 1))
        yield ctypes.addressof(place)
        gpu.to_device(data, ctypes.addressof(place), num_bytes)

    def copy(self, source_device: int, source: int, target_device: int, target: int, num_bytes: int) -> None:
        """Copies from a device to the same or another one."""
        gpu = self.of_gpu(source_device)
        if gpu is not None and source_device == target_device:
            gpu.copy(target, source, num_bytes)
            return
        reading, writing = (
            self.reading(source_device, source, num_bytes),
            self.writing(target_device, target, num_bytes),
        )
        with reading as read, writing as written:
            ctypes.memmove(written, read, num_bytes)
