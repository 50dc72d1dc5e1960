"""A CUDA driver without a GPU whose memory the host cannot touch, as a GPU's: only the driver's own functions open it."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

import xjit.gpu_compiler
import xjit.runtime.cuda
from tests.support.fake_cuda import FakeDriver

_PROT_NONE, _PROT_ALL = 0, mmap.PROT_READ | mmap.PROT_WRITE
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedDriver(FakeDriver):
    """`CudaDriver` on the host. Who reads or writes its memory beside it ends with a SIGSEGV."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sizes: dict[int, int] = {}
        self._depth = 0
        super().__init__({}, sanitize=False)

    def know(self, kernels: dict[str, Any]) -> None:
        """Makes the kernels of a program known: their names are their own."""
        self._kernels = {**self._kernels, **kernels}

    def allocate(self, size: int, stream: int) -> int:
        length = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        block = mmap.mmap(-1, length)
        address = np.frombuffer(block, np.uint8).ctypes.data
        with self._lock:
            self._blocks[address] = np.frombuffer(block, np.uint8)
            self._sizes[address] = length
            self._protect(address, _PROT_NONE)
        return address

    def free(self, address: int, stream: int) -> None:
        with self._lock:
            self._protect(address, _PROT_ALL)
            del self._sizes[address]
            super().free(address, stream)

    def copy_to_device(self, destination: int, source: int, size: int, stream: int) -> None:
        with self._opened():
            super().copy_to_device(destination, source, size, stream)

    def copy_to_host(self, destination: int, source: int, size: int, stream: int) -> None:
        with self._opened():
            super().copy_to_host(destination, source, size, stream)

    def _on_copy(self, *given: Any) -> int:
        with self._opened():
            return super()._on_copy(*given)

    def _on_launch(self, *given: Any) -> int:
        with self._opened():
            return super()._on_launch(*given)

    @contextmanager
    def _opened(self) -> Generator[None]:
        with self._lock:
            self._depth += 1
            for address in self._sizes:
                self._protect(address, _PROT_ALL)
            try:
                yield
            finally:
                self._depth -= 1
                for address in self._sizes if not self._depth else ():
                    self._protect(address, _PROT_NONE)

    def _protect(self, address: int, how: int) -> None:
        if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(self._sizes[address]), how):
            raise OSError(ctypes.get_errno(), "mprotect")


def install(count: int = 1) -> GuardedDriver:
    """Makes such drivers the GPUs of this process; returns the first."""
    drivers = [GuardedDriver() for _ in range(count)]
    compile_for_gpu = xjit.gpu_compiler.compile_for_gpu

    def compile_and_know(*arguments: Any) -> Any:
        compiled = compile_for_gpu(*arguments)
        for driver in drivers:
            driver.know(compiled.program.program.kernels)
        return compiled

    xjit.gpu_compiler.compile_for_gpu = compile_and_know
    xjit.gpu_compiler.cuda_driver = xjit.runtime.cuda.cuda_driver = lambda device=0: drivers[device]
    xjit.runtime.cuda.cuda_device_count = lambda: count
    return drivers[0]
