"""Arrays on a GPU: what executables return, and what they take from others.

Role: a `DeviceArray` owns memory of the device's pool and knows when its values are there. Others see it through
`__cuda_array_interface__` (numba.cuda, CuPy, PyTorch) and DLPack, and it is made of their arrays without a copy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.runtime.arrays.dlpack import CUDA, export_capsule, import_array
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.program import ArraySignature

Strides = tuple[int, ...]


class DeviceMemory:
    """A block of the device's pool. It goes back, behind what was put on its stream until then, with the last user."""

    __slots__ = ("_driver", "address", "size", "stream")

    def __init__(self, driver: CudaDriver, size: int, stream: int) -> None:
        self._driver = driver
        self.stream = stream
        self.size = size
        self.address = driver.allocate(max(size, 1), stream)

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self._driver.free(self.address, self.stream)


class Ready:
    """The moment at which values are there: an event on the stream that computes them."""

    __slots__ = ("_driver", "event", "stream")

    def __init__(self, driver: CudaDriver, stream: int) -> None:
        self._driver = driver
        self.stream = stream
        self.event = driver.record_event(stream)

    def wait(self) -> None:
        """Returns when it has come."""
        self._driver.synchronize_event(self.event)

    def is_done(self) -> bool:
        """Whether it has come."""
        return self._driver.is_done(self.event)

    def let_wait(self, stream: int) -> None:
        """Lets a stream wait for it; its own does so anyway."""
        if stream != self.stream:
            self._driver.wait_event(stream, self.event)

    def __del__(self) -> None:
        if getattr(self, "event", 0):
            self._driver.destroy_event(self.event)


class DeviceArray:
    """An array in the memory of a GPU. Its values may still be on their way: `block_until_ready` waits for them.

    `strides` are bytes. `owner` keeps the memory; `ready` is None if nobody is known to write it any more.
    """

    __slots__ = ("__weakref__", "_driver", "address", "dtype", "owner", "ready", "shape", "strides")

    def __init__(self, driver: CudaDriver, address: int, shape: tuple[int, ...], dtype: np.dtype[Any],
                 strides: Strides | None, owner: object, ready: Ready | None) -> None:  # fmt: skip
        self._driver = driver
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.strides = row_major_strides(shape, dtype.itemsize) if strides is None else strides
        self.owner = owner
        self.ready = ready

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None if self.strides == row_major_strides(self.shape, self.dtype.itemsize) else self.strides,
            "stream": self.ready.stream or _DEFAULT_STREAM if self.ready is not None else None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CUDA, 0)

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        if self.ready is not None and stream != -1:  # -1: the consumer looks after the order itself
            self.ready.let_wait(stream or _DEFAULT_STREAM)
        return export_capsule(self, CUDA)

    def is_ready(self) -> bool:
        """Whether the values are there."""
        return self.ready is None or self.ready.is_done()

    def block_until_ready(self) -> DeviceArray:
        """Returns when the values are there."""
        if self.ready is not None:
            self.ready.wait()
        return self

    def copy_to_host(self) -> np.ndarray[Any, Any]:
        """Returns the values as a NumPy array, when they are there."""
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        result = np.empty([self.shape[axis] for axis in order], self.dtype)
        self.block_until_ready()
        stream = self.ready.stream if self.ready is not None else 0
        if result.nbytes:
            self._driver.copy_to_host(result.ctypes.data, self.address, result.nbytes, stream)
            self._driver.synchronize(stream)
        return result.transpose(np.argsort(order))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array on a GPU cannot become a NumPy array without a copy")
        return np.asarray(self.copy_to_host(), dtype)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype.name}{list(self.shape)} at {self.address:#x}>"


_DEFAULT_STREAM = 1
"""The number that the array interface and DLPack have for CUDA's default stream, as 0 would be ambiguous."""


def is_on_device(value: object) -> bool:
    """Whether a value is an array on a GPU, of whatever library."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and int(device()[0]) == CUDA


def as_device_array(driver: CudaDriver, value: Any, stream: int) -> DeviceArray:
    """Returns an array of another library as a `DeviceArray` of the same memory; `stream` waits for its values.

    Errors: InvalidArgument for a masked array.
    """
    if isinstance(value, DeviceArray):
        if value.ready is not None:
            value.ready.let_wait(stream)
        return value
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        found = import_array(value, stream)
        return DeviceArray(driver, found.address, found.shape, found.dtype, found.strides, found.owner, None)
    if interface.get("mask") is not None:
        raise InvalidArgument("a masked array on a GPU would lose its mask; fill it first")
    if interface.get("stream"):
        Ready(driver, int(interface["stream"])).let_wait(stream)
    dtype = np.dtype(getattr(value, "dtype", None) or interface["typestr"])
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    return DeviceArray(driver, int(interface["data"][0]), shape, dtype, strides, value, None)


def row_major_strides(shape: tuple[int, ...], itemsize: int) -> Strides:
    """Bytes from one element to the next along each axis of an array in C order."""
    strides = [itemsize]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))[: len(shape)] if shape else ()


def device_strides(signature: ArraySignature) -> tuple[int, ...]:
    """Bytes between elements along each dimension, in the layout of the program. Errors: Unsupported for tiles."""
    if signature.tiles:
        raise Unsupported(f"'{signature.name}' has a tiled layout: not on GPUs")
    order = signature.minor_to_major or tuple(reversed(range(len(signature.shape))))
    strides, size = [0] * len(order), signature.dtype.itemsize
    for dimension in order:
        strides[dimension] = size
        size *= signature.shape[dimension]
    return tuple(strides)


def stream_number(stream: Any) -> int:
    """The handle of a stream of numba.cuda, cuda.core, CuPy or PyTorch; a number is one. Errors: InvalidArgument."""
    if isinstance(stream, int):
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version_and_handle: Any = protocol() if callable(protocol) else protocol
        return int(version_and_handle[1])
    for name in ("handle", "cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(getattr(handle, "value", handle) or 0)
    raise InvalidArgument(f"expected a CUDA stream, got {type(stream).__name__}")


def result_array(
    driver: CudaDriver, place: DeviceMemory | DeviceArray, signature: ArraySignature, ready: Ready
) -> DeviceArray:
    """The array of a result in its memory, or where a donated array lies."""
    strides = device_strides(signature)
    owner = place.owner if isinstance(place, DeviceArray) else place
    return DeviceArray(driver, place.address, signature.shape, signature.dtype, strides, owner, ready)
