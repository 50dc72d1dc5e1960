"""A module on a GPU: called with NumPy arrays or with arrays that are there already.

What a call puts on its stream is asynchronous: results on the device come back at once, and know when they are ready.
Temporary memory and results come from the device's pool, in the order of the stream.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument, Unsupported
from xjit.runtime.arguments import conforming, flatten_arguments, leaf_paths, place_of, to_buffer
from xjit.runtime.cuda.device_array import DeviceArray, DeviceMemory, Ready, as_device_array, is_on_device
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.cuda.launch_tables import LaunchTables
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.physical_layout import Array, from_physical
from xjit.runtime.program import ArraySignature, unflatten_tree
from xjit.runtime.thunk_interpreter import executed_thunks
from xjit.thunks import BufferSlice, Thunk


class CudaExecutable:
    """A `GpuModule` loaded onto a device.

    `executable(*arguments, stream=None)` takes one argument per HLO parameter, tuples nested as in HLO, or one per
    leaf: NumPy arrays, or arrays on the device that have `__cuda_array_interface__` or DLPack and the layout of the
    program. With an array on the device among them, the results are `DeviceArray`s; otherwise NumPy arrays. `stream` is
    one of numba.cuda, CuPy, PyTorch, or a number; by default the executable has one of its own.

    Args:
        module: what to run.
        images: for each kernel, by name, what the driver loads.
        driver: the device.
    """

    def __init__(self, module: GpuModule, images: Mapping[str, bytes], driver: CudaDriver) -> None:
        if any(alias.must for alias in module.aliases):
            raise Unsupported(f"module '{module.name}' must be given parameters that it overwrites: not on GPUs yet")
        self.module = module
        self._driver = driver
        driver.make_current()
        kernels = module.program.kernels
        functions = {
            name: driver.load_kernel(images[name], name, kernel.launch.dynamic_shared_bytes)
            for name, kernel in kernels.items()
        }
        first_bases = {"parameter": 0, "result": len(module.parameters)}
        first_bases["constant"] = first_bases["result"] + len(module.results)
        first_bases["arena"] = first_bases["constant"] + len(module.constants)
        self._first_bases = first_bases
        self._tables = LaunchTables(module.program, functions, first_bases)
        self._stream = driver.create_stream()
        self._constants = [_upload(driver, constant, self._stream) for constant in module.constants]
        driver.synchronize(self._stream)
        entry = module.program.thunks.sequences[module.program.thunks.entry]
        self._static_order = self._tables.order(entry) if entry.is_straight else None
        self._paths = leaf_paths(module.parameter_tree)
        self._lock = threading.Lock()

    @property
    def is_static(self) -> bool:
        """Whether every call does the same steps: no loop, conditional or call."""
        return self._static_order is not None

    def __call__(self, *arguments: Any, stream: Any = None) -> Any:
        """See the class. Errors: InvalidArgument names the parameter; ExecutionError has CUDA's name of a failure."""
        module, driver = self.module, self._driver
        driver.make_current()
        on = self._stream if stream is None else stream_number(stream)
        leaves = flatten_arguments(module.parameter_tree, module.parameters, arguments)
        returns_device = any(map(is_on_device, leaves))
        inputs = [self._input(*each, on) for each in zip(leaves, module.parameters, self._paths, strict=True)]
        results = [DeviceMemory(driver, signature.byte_size, on) for signature in module.results]
        arena = DeviceMemory(driver, module.arena_size, on)
        self._run([array.address for array in inputs], [memory.address for memory in results], arena.address, on)
        ready = Ready(driver, on)
        for array in inputs:  # memory that another stream gives back waits for what was read here
            if isinstance(array.owner, DeviceMemory):
                ready.let_wait(array.owner.stream)
        arrays = [self._result(m, s, ready) for m, s in zip(results, module.results, strict=True)]
        found = arrays if returns_device else [array.copy_to_host() for array in arrays]
        return unflatten_tree(module.result_tree, found)

    def capture(self, *arguments: Any) -> CapturedCall:
        """Returns a CUDA graph of one call on these arrays, which must be on the device: it reads them anew each time.

        Errors: FailedPrecondition if a call is not always the same steps, or an argument is not on the device.
        """
        if self._static_order is None:
            raise FailedPrecondition(f"module '{self.module.name}' has loops or branches: it cannot be a graph")
        leaves = flatten_arguments(self.module.parameter_tree, self.module.parameters, arguments)
        if not all(map(is_on_device, leaves)):
            raise FailedPrecondition("the arguments of a graph must be arrays on the device")
        self._driver.make_current()
        inputs = [
            self._input(*each, self._stream)
            for each in zip(leaves, self.module.parameters, self._paths, strict=True)
        ]
        return CapturedCall(self, inputs)

    def _input(self, leaf: Any, signature: ArraySignature, path: Any, stream: int) -> DeviceArray:
        if is_on_device(leaf):
            array = as_device_array(self._driver, leaf, stream)
            strides = device_strides(signature)
            fits = array.shape == signature.shape and array.dtype == signature.dtype
            if not fits or (array.strides != strides and array.nbytes):
                found = f"{array.dtype.name}{list(array.shape)} with strides {array.strides}"
                raise InvalidArgument(
                    f"{place_of(path, signature.name)}: expected {signature.describe()} with strides {strides}, "
                    f"got {found} on the device"
                )
            return array
        buffer = conforming(to_buffer(leaf, signature, path), signature.dtype)
        memory = _upload(self._driver, buffer, stream)
        return DeviceArray(self._driver, memory.address, signature.shape, signature.dtype, None, memory, None)

    def _result(self, memory: DeviceMemory, signature: ArraySignature, ready: Ready) -> DeviceArray:
        strides = device_strides(signature)
        return DeviceArray(self._driver, memory.address, signature.shape, signature.dtype, strides, memory, ready)

    def _bases(self, inputs: Sequence[int], results: Sequence[int], arena: int) -> np.ndarray[Any, Any]:
        """The addresses of a call, in the order of `LaunchTables`."""
        return np.array([*inputs, *results, *(memory.address for memory in self._constants), arena], np.int64)

    def _run(self, inputs: Sequence[int], results: Sequence[int], arena: int, stream: int) -> None:
        """Puts all steps on a stream; waits where a loop or a branch depends on what was computed."""
        bases = self._bases(inputs, results, arena)
        if self._static_order is not None:
            self._tables.run(self._static_order, bases, stream, self._driver)
            return
        pending: list[Thunk] = []

        def flush() -> None:
            self._tables.run(self._tables.order(pending), bases, stream, self._driver)
            pending.clear()

        def number(where: BufferSlice) -> int:
            flush()
            value = ctypes.c_int32(0)
            source = int(bases[self._first_bases[where.kind] + where.index]) + where.offset
            self._driver.copy_to_host(ctypes.addressof(value), source, min(where.size, 4), stream)
            self._driver.synchronize(stream)
            return value.value

        pending.extend(executed_thunks(self.module.program.thunks, number))
        flush()


class CapturedCall:
    """A call as a CUDA graph. `results` are always the same arrays, which each launch writes anew."""

    def __init__(self, executable: CudaExecutable, inputs: Sequence[DeviceArray]) -> None:
        module, driver = executable.module, executable._driver
        self._executable, self._driver, self._stream = executable, driver, executable._stream
        self._inputs = inputs
        self._memory = [DeviceMemory(driver, signature.byte_size, self._stream) for signature in module.results]
        self._arena = DeviceMemory(driver, module.arena_size, self._stream)
        driver.synchronize(self._stream)
        driver.begin_capture(self._stream)
        executable._run(
            [array.address for array in inputs],
            [memory.address for memory in self._memory],
            self._arena.address,
            self._stream,
        )
        self._graph = driver.end_capture(self._stream)

    def __call__(self, stream: Any = None) -> Any:
        """Launches the graph and returns the results, nested as in HLO: `DeviceArray`s."""
        module, on = self._executable.module, self._stream if stream is None else stream_number(stream)
        self._driver.make_current()
        self._driver.launch_graph(self._graph, on)
        ready = Ready(self._driver, on)
        pairs = zip(self._memory, module.results, strict=True)
        return unflatten_tree(module.result_tree, [self._executable._result(*pair, ready) for pair in pairs])

    def __del__(self) -> None:
        if getattr(self, "_graph", 0):
            self._driver.destroy_graph(self._graph)


def stream_number(stream: Any) -> int:
    """The handle of a stream of numba.cuda, cuda.core, CuPy or PyTorch, or the number itself. Errors: InvalidArgument."""
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("handle", "cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(getattr(handle, "value", handle) or 0)
    raise InvalidArgument(f"expected a CUDA stream, got {type(stream).__name__}")


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


def _upload(driver: CudaDriver, data: Array, stream: int) -> DeviceMemory:
    memory = DeviceMemory(driver, data.nbytes, stream)
    if data.nbytes:
        contiguous = np.ascontiguousarray(data)
        driver.copy_to_device(memory.address, contiguous.ctypes.data, contiguous.nbytes, stream)
    return memory
