"""Arrays from the caller's memory to buffers, and back, and between buffers."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.jax_backend.c_api import BUFFER_TYPES, MEMORY_LAYOUT, STRIDED_LAYOUT, HostBufferSemantics
from xjit.jax_backend.device_memory import DeviceMemories
from xjit.jax_backend.devices import default_device, default_memory, device_of_memory
from xjit.jax_backend.element_types import byte_width
from xjit.jax_backend.native.api import NativeApi
from xjit.jax_backend.native.transfers import ALIASING_ALIGNMENT
from xjit.jax_backend.records import ARRAY, BUFFER, EVENT, HOLD
from xjit.jax_backend.requests import (
    CodedError,
    Memory,
    Request,
    failure_of,
    free_event,
    new_ending,
    new_error,
    new_event,
)
from xjit.runtime.program import PARAMETER_ALIGNMENT

Array = np.ndarray[Any, np.dtype[Any]]


_WITHOUT_VIEWS = ("f4e2m1fn",)
"""Types whose memory XLA's CPU client takes from nobody else: packed floats."""

NO_VIEWS = "views of a GPU's memory: convert the array with numpy.asarray"
"""Why arrays of a device that has memory of its own are not shared by DLPack."""

_DELETE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Copying(threading.local):
    """Whether views that this thread makes may be copies, or must be."""

    is_allowed = False
    is_asked = False


class Transfers:
    """Makes and reads buffers in the memory of devices."""

    def __init__(self, api: NativeApi, ready_event: int, memories: DeviceMemories) -> None:
        self._api = api
        self._memories = memories
        self._ready_event = ready_event
        self.copying = Copying()

    def from_host(self, request: Request) -> None:
        """`Client_BufferFromHostBuffer`: in place where the caller keeps the memory as it is, else a copy."""
        kind, shape = request["type"], request.numbers("dims", "num_dims")
        order = _order(request["device_layout"], len(shape))
        width = byte_width(kind)
        strides = request.numbers("byte_strides", "num_byte_strides") or row_major_strides(shape, width)
        device, memory = self._place(request)
        source = request["data"]
        in_place = (
            self._memories.of_gpu(device) is None
            and request["host_buffer_semantics"] == HostBufferSemantics.IMMUTABLE_ZERO_COPY
            and source % ALIASING_ALIGNMENT == 0
            and _is_dense(shape, strides, _strides(shape, order, width))
        )
        if in_place:
            done = new_event(is_ready=False, references=2)
            request["buffer"] = self.new_buffer(kind, shape, source, device, memory, done, order=order)
            request["done_with_host_buffer"] = done
            return
        num_bytes = _num_bytes(shape, width)
        with self._memories.allocated(device, num_bytes) as data:
            with self._memories.writing(device, data, num_bytes) as place:
                view(place, shape, _strides(shape, order, width), width)[...] = view(source, shape, strides, width)
            request["buffer"] = self.new_buffer(kind, shape, data, device, memory, order=order)
        request["done_with_host_buffer"] = self._ready_event

    def view_of(self, request: Request) -> None:
        """`Client_CreateViewOfDeviceBuffer`: a buffer in the caller's memory, which hears of its end.

        Where `copying` says so it is a copy, which ends the caller's at once, if it must be or the memory is unaligned.
        """
        shape, kind = request.numbers("dims", "num_dims"), request["element_type"]
        order = _order(request["layout"], len(shape))
        device, memory = self._place(request)
        data, callback = request["device_buffer_ptr"], request["on_delete_callback"]
        if self._memories.of_gpu(device) is not None:
            raise Unsupported(NO_VIEWS)
        if BUFFER_TYPES[kind] in _WITHOUT_VIEWS:
            if self.copying.is_asked:
                raise InvalidArgument(f"Unsupported DLPack tensor dtype: {BUFFER_TYPES[kind]}")
            raise Unsupported(f"views of memory of the type {BUFFER_TYPES[kind]}")
        is_aligned = data % PARAMETER_ALIGNMENT == 0
        if not is_aligned and not self.copying.is_allowed:
            raise InvalidArgument(f"memory at {data:#x} is not aligned to {PARAMETER_ALIGNMENT} bytes")
        if not is_aligned or self.copying.is_asked:
            num_bytes = _num_bytes(shape, byte_width(kind))
            with self._memories.allocated(device, num_bytes) as own:
                ctypes.memmove(own, data, num_bytes)
                request["buffer"] = self.new_buffer(kind, shape, own, device, memory, order=order)
            if callback:
                _DELETE_CALLBACK(callback)(data, request["on_delete_callback_arg"])
            return
        if callback:
            ending = new_ending(callback, data, request["on_delete_callback_arg"])
        else:
            ending = new_event(is_ready=False)
        request["buffer"] = self.new_buffer(kind, shape, data, device, memory, ending, order=order)

    def to_host(self, request: Request) -> None:
        """`Buffer_ToHostBuffer`: in the layout that is asked for, row-major by default; without `dst`, its size."""
        if not request["dst"]:
            request["dst_size"] = Request(BUFFER, request["src"])["num_bytes"]
            return
        with self._reading(request["src"]) as buffer:
            self._to_host(request, buffer)
        request["event"] = self._ready_event

    def _to_host(self, request: Request, buffer: Request) -> None:
        shape = buffer.numbers("dimensions", "rank")
        width = byte_width(buffer["type"])
        strides = _strides(shape, buffer.numbers("minor_to_major", "rank"), width)
        row_major = row_major_strides(shape, width)
        target = _host_strides(request["host_layout"], shape, width) if request["host_layout"] else row_major
        if request["dst_size"] < buffer["num_bytes"]:
            raise InvalidArgument(f"{request['dst_size']} bytes for an array of {buffer['num_bytes']}")
        with self._memories.reading(buffer["device"], buffer["data"], buffer["num_bytes"]) as place:
            view(request["dst"], shape, target, width)[...] = view(place, shape, strides, width)

    def raw_to_host(self, request: Request) -> None:
        """`Buffer_CopyRawToHost`: a range of bytes."""
        with self._reading(request["buffer"]) as buffer:
            offset, size = request["offset"], request["transfer_size"]
            if not 0 <= offset <= offset + size <= buffer["num_bytes"]:
                raise InvalidArgument(f"bytes {offset} to {offset + size} of an array of {buffer['num_bytes']}")
            with self._memories.reading(buffer["device"], buffer["data"] + offset, size) as place:
                ctypes.memmove(request["dst"], place, size)
        request["event"] = self._ready_event

    @contextmanager
    def _reading(self, address: int) -> Generator[Request]:
        """A buffer whose data is there, and stays. Errors: InvalidArgument if it is deleted, CodedError."""
        if not self._api.hold(address, HOLD):
            raise InvalidArgument("the array has been deleted or donated")
        buffer = Request(BUFFER, address)
        try:
            self._api.wait(buffer["ready"])
            error = Request(EVENT, buffer["ready"])["error"]
            if error:
                raise failure_of(error)
            yield buffer
        finally:
            self._api.unhold(address, HOLD)

    def copy(self, source: int, device: int, memory: int) -> int:
        """A copy of a buffer on a device, which may have to wait for it. Errors: InvalidArgument if it is deleted."""
        buffer = Request(BUFFER, source)
        if buffer["is_deleted"]:
            raise InvalidArgument("the array has been deleted or donated")
        shape, order = buffer.numbers("dimensions", "rank"), buffer.numbers("minor_to_major", "rank")
        with self._memories.allocated(device, buffer["num_bytes"]) as data:
            event = new_event(is_ready=False, references=2)
            made = self.new_buffer(buffer["type"], shape, data, device, memory, ready=event, order=order)
        self._api.start_copy(source, made, event)
        return made

    def uninitialized(self, request: Request, failure: CodedError | None = None) -> int:
        """A buffer of the shape in a request whose contents are undefined, or an error."""
        kind, shape = request["shape_element_type"], request.numbers("shape_dims", "shape_num_dims")
        order = _order(request["shape_layout"], len(shape))
        memory = request["memory"]
        device = device_of_memory(memory) if memory else request["device"]
        with self._memories.allocated(device, _num_bytes(shape, byte_width(kind))) as data:
            ready = new_event(new_error(failure.code, str(failure))) if failure else 0
            return self.new_buffer(kind, shape, data, device, memory, ready=ready, order=order)

    def new_buffer(
        self,
        kind: int,
        shape: Sequence[int],
        data: int,
        device: int,
        memory: int,
        host_event: int = 0,
        ready: int = 0,
        *,
        order: Sequence[int],
    ) -> int:
        """The struct of a buffer that owns `data`, with dimensions in the order from minor to major.

        It takes the references to the events, and the data unless it fails. Errors: MemoryError.
        """
        dimensions, minor_to_major = Memory.of_numbers(shape), Memory.of_numbers(order)
        size = _num_bytes(shape, byte_width(kind))
        fields = {"dimensions": dimensions.address, "minor_to_major": minor_to_major.address}
        array = Memory(ARRAY.pack(type=kind, num_bytes=size, rank=len(shape), **fields))
        event = ready or self._ready_event
        made = self._api.new_buffer(array.address, data, device, memory or default_memory(device), event, host_event)
        if made:
            return made
        for own in (host_event, ready):
            if own:
                free_event(own)
        raise MemoryError("Out of memory allocating the struct of a buffer")

    def _place(self, request: Request) -> tuple[int, int]:
        """The device and the memory that a request names."""
        memory = request["memory"]
        device = device_of_memory(memory) if memory else request["device"] or default_device(request["client"])
        return device, memory or default_memory(device)


def row_major_strides(shape: Sequence[int], width: int) -> tuple[int, ...]:
    """Byte strides of an array in C order."""
    return _strides(shape, range(len(shape) - 1, -1, -1), width)


def view(address: int, shape: Sequence[int], strides: Sequence[int], width: int) -> Array:
    """The memory at an address as an array of elements of `width` bytes."""
    return np.asarray(_Interface(address, shape, strides, width))


class _Interface:
    """What NumPy needs to see memory as an array."""

    def __init__(self, address: int, shape: Sequence[int], strides: Sequence[int], width: int) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "strides": tuple(strides),
            "typestr": f"|V{width}",
        }


def _strides(shape: Sequence[int], minor_to_major: Sequence[int], width: int) -> tuple[int, ...]:
    strides = [0] * len(shape)
    for dimension in minor_to_major:
        strides[dimension] = width
        width *= shape[dimension]
    return tuple(strides)


def _is_dense(shape: Sequence[int], strides: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether an array has the strides that are expected; those of dimensions of size 1 say nothing."""
    return 0 not in shape and all(s == e or n == 1 for n, s, e in zip(shape, strides, expected, strict=True))


def _num_bytes(shape: Sequence[int], width: int) -> int:
    size = width
    for extent in shape:
        size *= extent
    return size


def _read_layout(address: int) -> Request:
    return Request(MEMORY_LAYOUT, address)


def _host_strides(address: int, shape: Sequence[int], width: int) -> tuple[int, ...]:
    layout = _read_layout(address)
    numbers = layout.numbers("minor_to_major", "minor_to_major_size")
    if layout["type"] == STRIDED_LAYOUT:
        return numbers
    if layout["num_tiles"]:
        raise Unsupported("a tiled layout of host memory")
    return _strides(shape, numbers, width)


def _order(address: int, rank: int) -> tuple[int, ...]:
    """The dimensions of a device layout from minor to major; row-major without one. Errors: Unsupported for others."""
    row_major = tuple(range(rank - 1, -1, -1))
    if not address:
        return row_major
    layout = _read_layout(address)
    numbers = layout.numbers("minor_to_major", "minor_to_major_size")
    if layout["type"] == STRIDED_LAYOUT or layout["num_tiles"]:
        raise Unsupported("a device layout by strides, or with tiles")
    if sorted(numbers) != sorted(row_major):
        raise InvalidArgument(f"a device layout {numbers} of an array of rank {rank}")
    return numbers
