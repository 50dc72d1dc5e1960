"""What xjit needs of CUDA, as one small interface. `bindings_driver` has the real one; tests have one of their own.

Addresses, streams, events, functions and graphs are integers, as CUDA's handles are. Everything on a stream is
asynchronous. Errors of all methods: ExecutionError with CUDA's name of the failure.
"""

from __future__ import annotations

from typing import Protocol


class CudaDriver(Protocol):
    """One GPU, in its primary context: that of numba.cuda, CuPy and PyTorch."""

    @property
    def architecture(self) -> str:
        """Such as "sm_90"."""
        ...

    @property
    def launch_function(self) -> int:
        """The address of `cuLaunchKernel`, for native code."""
        ...

    @property
    def copy_function(self) -> int:
        """The address of `cuMemcpyDtoDAsync_v2`."""
        ...

    def make_current(self) -> None:
        """Makes the context that of this thread."""
        ...

    def load_kernel(self, image: bytes, name: str, dynamic_shared_bytes: int) -> int:
        """Loads a cubin, or PTX that ends with a zero byte; returns the function. It is never unloaded."""
        ...

    def create_stream(self) -> int:
        """Returns a stream that does not wait for the default one."""
        ...

    def synchronize(self, stream: int) -> None:
        """Waits for everything on a stream."""
        ...

    def allocate(self, size: int, stream: int) -> int:
        """Returns memory of the device's pool, from this place of the stream on."""
        ...

    def free(self, address: int, stream: int) -> None:
        """Gives it back, at this place of the stream."""
        ...

    def free_bytes(self) -> int:
        """Returns how much memory of the device nobody uses."""
        ...

    def copy_to_device(self, destination: int, source: int, size: int, stream: int) -> None:
        """Copies from the host. The source may change once this returns, if it is not pinned."""
        ...

    def copy_to_host(self, destination: int, source: int, size: int, stream: int) -> None:
        """Copies to the host."""
        ...

    def copy_on_device(self, destination: int, source: int, size: int, stream: int) -> None:
        """Copies from device to device."""
        ...

    def record_event(self, stream: int) -> int:
        """Returns an event that happens when the stream gets here."""
        ...

    def record_time(self, stream: int) -> int:
        """As `record_event`, of an event that knows when it happened."""
        ...

    def seconds_between(self, first: int, second: int) -> float:
        """Returns the time from one event of `record_time` to a later one, both of which have happened."""
        ...

    def wait_event(self, stream: int, event: int) -> None:
        """Lets a stream wait for an event."""
        ...

    def synchronize_event(self, event: int) -> None:
        """Waits for an event."""
        ...

    def is_done(self, event: int) -> bool:
        """Whether an event has happened."""
        ...

    def destroy_event(self, event: int) -> None:
        """Forgets an event."""
        ...

    def begin_capture(self, stream: int) -> None:
        """Starts to note what is put on a stream, instead of doing it."""
        ...

    def end_capture(self, stream: int) -> int:
        """Returns what was noted, as a graph that can be launched."""
        ...

    def launch_graph(self, graph: int, stream: int) -> None:
        """Does what a graph has."""
        ...

    def destroy_graph(self, graph: int) -> None:
        """Forgets a graph."""
        ...
