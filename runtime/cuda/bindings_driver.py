"""The real driver: `cuda.bindings.driver`, in the primary context of one device, which is numba.cuda's, too.

Imported only when a program is to run on a GPU. The packages come with `pip install 'xjit[cuda]'`.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
from typing import Any

from xjit.hlo.diagnostics import ExecutionError, FailedPrecondition, ResourceExhausted

_LIBRARY = "libcuda.so.1"
_MAX_STATIC_SHARED_BYTES = 48 << 10
"""More dynamic shared memory than this has to be asked for."""


@functools.cache
def cuda_driver(device: int = 0) -> BindingsDriver:
    """Returns the driver of a device. Errors: FailedPrecondition if packages, driver or device are not there."""
    api, library = _packages()
    try:
        return BindingsDriver(api, library, device)
    except ExecutionError as error:
        raise FailedPrecondition(f"target 'cuda' cannot use device {device}: {error.message}") from error


def cuda_device_count() -> int:
    """Returns the number of devices, one at least. Errors: FailedPrecondition as of `cuda_driver`."""
    api, _ = _packages()
    for function in ("cuInit", "cuDeviceGetCount"):
        status, *found = getattr(api, function)(*((0,) if function == "cuInit" else ()))
        if int(status):
            raise FailedPrecondition(f"target 'cuda' finds no device: {function} failed: {status.name}")
    return max(int(found[0]), 1)


def _packages() -> tuple[Any, ctypes.CDLL]:
    try:
        api = importlib.import_module("cuda.bindings.driver")
        return api, ctypes.CDLL(_LIBRARY)
    except ImportError as error:
        raise FailedPrecondition(
            f"target 'cuda' needs NVIDIA's Python packages: pip install 'xjit[cuda]' ({error})"
        ) from error
    except OSError as error:
        raise FailedPrecondition(f"target 'cuda' needs an NVIDIA driver: {_LIBRARY} was not found") from error


class BindingsDriver:
    """See `CudaDriver`. `api` is the module `cuda.bindings.driver`, `library` the driver's own functions."""

    def __init__(self, api: Any, library: ctypes.CDLL, device: int) -> None:
        self._api = api
        self._library = library
        self._check("cuInit", 0)
        handle = self._check("cuDeviceGet", device)
        self._context = self._check("cuDevicePrimaryCtxRetain", handle)
        attributes = api.CUdevice_attribute
        major, minor = (
            int(self._check("cuDeviceGetAttribute", getattr(attributes, name), handle))
            for name in (
                "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
                "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
            )
        )
        self.architecture = f"sm_{major}{minor}"
        self._pool = self._check("cuDeviceGetDefaultMemPool", handle)
        # What is freed stays in the pool: memory that went back to the system at each wait would be mapped anew.
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._check("cuMemPoolSetAttribute", self._pool, threshold, api.cuuint64_t(2**64 - 1))
        self.make_current()
        self._is_open = True
        atexit.register(self._close)

    @property
    def launch_function(self) -> int:
        """See `CudaDriver`."""
        return self._address("cuLaunchKernel")

    @property
    def copy_function(self) -> int:
        """See `CudaDriver`."""
        return self._address("cuMemcpyDtoDAsync_v2")

    def make_current(self) -> None:
        """See `CudaDriver`."""
        self._check("cuCtxSetCurrent", self._context)

    def load_kernel(self, image: bytes, name: str, dynamic_shared_bytes: int) -> int:
        """See `CudaDriver`."""
        library = self._check("cuLibraryLoadData", image, [], [], 0, [], [], 0)
        kernel = self._check("cuLibraryGetKernel", library, name.encode())
        function = self._check("cuKernelGetFunction", kernel)
        if dynamic_shared_bytes > _MAX_STATIC_SHARED_BYTES:
            attribute = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._check("cuFuncSetAttribute", function, attribute, dynamic_shared_bytes)
        return int(function)

    def create_stream(self) -> int:
        """See `CudaDriver`."""
        return int(self._check("cuStreamCreate", int(self._api.CUstream_flags.CU_STREAM_NON_BLOCKING)))

    def synchronize(self, stream: int) -> None:
        """See `CudaDriver`."""
        self._check("cuStreamSynchronize", stream)

    def allocate(self, size: int, stream: int) -> int:
        """See `CudaDriver`."""
        return int(self._check("cuMemAllocAsync", size, stream))

    def free(self, address: int, stream: int) -> None:
        """See `CudaDriver`."""
        self._give_back("cuMemFreeAsync", address, stream)

    def free_bytes(self) -> int:
        """See `CudaDriver`."""
        outside = int(self._check("cuMemGetInfo"))  # and the whole memory, which is not asked for
        kinds = self._api.CUmemPool_attribute
        reserved, used = (
            int(self._check("cuMemPoolGetAttribute", self._pool, kind))
            for kind in (kinds.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, kinds.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        )
        return outside + reserved - used

    def copy_to_device(self, destination: int, source: int, size: int, stream: int) -> None:
        """See `CudaDriver`."""
        self._check("cuMemcpyHtoDAsync", destination, source, size, stream)

    def copy_to_host(self, destination: int, source: int, size: int, stream: int) -> None:
        """See `CudaDriver`."""
        self._check("cuMemcpyDtoHAsync", destination, source, size, stream)

    def copy_on_device(self, destination: int, source: int, size: int, stream: int) -> None:
        """See `CudaDriver`."""
        self._check("cuMemcpyDtoDAsync", destination, source, size, stream)

    def record_event(self, stream: int) -> int:
        """See `CudaDriver`."""
        return self._record(stream, self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING)

    def record_time(self, stream: int) -> int:
        """See `CudaDriver`."""
        return self._record(stream, self._api.CUevent_flags.CU_EVENT_DEFAULT)

    def seconds_between(self, first: int, second: int) -> float:
        """See `CudaDriver`."""
        return float(self._check("cuEventElapsedTime", first, second)) / 1e3

    def wait_event(self, stream: int, event: int) -> None:
        """See `CudaDriver`."""
        self._check("cuStreamWaitEvent", stream, event, 0)

    def synchronize_event(self, event: int) -> None:
        """See `CudaDriver`."""
        self._check("cuEventSynchronize", event)

    def is_done(self, event: int) -> bool:
        """See `CudaDriver`."""
        status = self._api.cuEventQuery(event)[0]
        if int(status) == int(self._api.CUresult.CUDA_ERROR_NOT_READY):
            return False
        self._raise_if_failed("cuEventQuery", status)
        return True

    def destroy_event(self, event: int) -> None:
        """See `CudaDriver`."""
        self._give_back("cuEventDestroy", event)

    def begin_capture(self, stream: int) -> None:
        """See `CudaDriver`."""
        mode = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._check("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> int:
        """See `CudaDriver`."""
        graph = self._check("cuStreamEndCapture", stream)
        try:
            return int(self._check("cuGraphInstantiate", graph, 0))
        finally:
            self._check("cuGraphDestroy", graph)

    def launch_graph(self, graph: int, stream: int) -> None:
        """See `CudaDriver`."""
        self._check("cuGraphLaunch", graph, stream)

    def destroy_graph(self, graph: int) -> None:
        """See `CudaDriver`."""
        self._give_back("cuGraphExecDestroy", graph)

    def _record(self, stream: int, flags: Any) -> int:
        event = self._check("cuEventCreate", int(flags))
        try:
            self._check("cuEventRecord", event, stream)
        except ExecutionError:
            self._check("cuEventDestroy", event)
            raise
        return int(event)

    def _close(self) -> None:
        """The process ends, which gives back all: arrays that live on until the packages are gone must not try."""
        self._is_open = False

    def _give_back(self, function: str, *arguments: Any) -> None:
        if self._is_open:
            self._check(function, *arguments)

    def _check(self, function: str, *arguments: Any) -> Any:
        """Calls a function; returns its result without the status."""
        status, *results = getattr(self._api, function)(*arguments)
        self._raise_if_failed(function, status)
        return results[0] if results else None

    def _raise_if_failed(self, function: str, status: Any) -> None:
        if int(status) == 0:
            return
        name = getattr(status, "name", str(int(status)))
        kind = ResourceExhausted if name == "CUDA_ERROR_OUT_OF_MEMORY" else ExecutionError
        raise kind(f"{function} failed: {name}")

    def _address(self, function: str) -> int:
        return ctypes.cast(getattr(self._library, function), ctypes.c_void_p).value or 0
