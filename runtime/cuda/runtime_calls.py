"""The steps of a program that are no kernels of it, put on a stream of a GPU: calls of libraries, and of the host.

What the host does waits for the stream: operands are copied to the host, and results back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from xjit.hlo.diagnostics import FailedPrecondition
from xjit.runtime.calls.host_calls import Device, do_on_host
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.cuda.libraries.cublaslt import CublasLt, load_cublaslt
from xjit.runtime.cuda.libraries.cusolver import Solvers, load_solvers
from xjit.thunks import HostCall, MatmulSpec, RuntimeCallThunk, SolverSpec


class RuntimeCalls:
    """Does such steps on one device. A library that is not given is loaded when a program with a call of it is."""

    def __init__(self, driver: CudaDriver, cublaslt: CublasLt | None = None, solvers: Solvers | None = None) -> None:
        self._driver = driver
        self._cublaslt = cublaslt
        self._solvers = solvers

    def prepare(self, thunk: RuntimeCallThunk) -> None:
        """Loads what a step needs. Errors: FailedPrecondition says what to install."""
        match thunk.call:
            case MatmulSpec() if self._cublaslt is None:
                self._cublaslt = cublaslt_of(self._driver)
            case SolverSpec() if self._solvers is None:
                try:
                    self._solvers = _solvers_of(self._driver)
                except FailedPrecondition as error:
                    message = f"'{thunk.instruction}' needs {thunk.call.symbol}: {error.message}"
                    raise FailedPrecondition(message) from error
            case _:
                pass

    def put_on_stream(
        self, thunk: RuntimeCallThunk, addresses: Sequence[int], stream: int, device: Device | None
    ) -> None:
        """Puts a step that was prepared on a stream. `addresses`: of its operands, then of its results.

        `device`: which one this is, of a program of several. Errors: ExecutionError names the instruction, or what the
        host called.
        """
        match thunk.call:
            case MatmulSpec():
                assert self._cublaslt is not None, "not prepared"
                self._cublaslt.multiply(thunk.call, addresses, stream, thunk.instruction)
            case SolverSpec():
                assert self._solvers is not None, "not prepared"
                self._solvers.solve(thunk.call, addresses, stream, thunk.instruction)
            case call:
                self._do_on_host(call, thunk, addresses, stream, device)

    def _do_on_host(
        self, call: HostCall, thunk: RuntimeCallThunk, addresses: Sequence[int], stream: int, device: Device | None
    ) -> None:
        sizes = [place.slice.size for place in (*thunk.operands, *thunk.results)]
        buffers = [np.empty(max(size, 1), np.uint8) for size in sizes]
        count, driver = len(thunk.operands), self._driver
        for buffer, address, size in zip(buffers[:count], addresses[:count], sizes[:count], strict=True):
            if size:
                driver.copy_to_host(buffer.ctypes.data, address, size, stream)
        driver.synchronize(stream)
        on_host = [buffer.ctypes.data for buffer in buffers]
        do_on_host(call, on_host[:count], on_host[count:], sizes, device)
        for buffer, address, size in zip(buffers[count:], addresses[count:], sizes[count:], strict=True):
            if size:
                driver.copy_to_device(address, buffer.ctypes.data, size, stream)
        driver.synchronize(stream)  # the buffers may go


@functools.cache
def cublaslt_of(driver: CudaDriver) -> CublasLt:
    """The library on a device, for all programs there."""
    driver.make_current()
    return load_cublaslt()


@functools.cache
def _solvers_of(driver: CudaDriver) -> Solvers:
    """The libraries of LAPACK-like routines on a device."""
    driver.make_current()
    return load_solvers(driver)
