"""A module on a GPU: called with NumPy arrays or with arrays that are there already.

What a call puts on its stream is asynchronous: results on the device come back at once, and know when they are ready.
Temporary memory and results come from the device's pool, in the order of the stream.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.runtime.arrays.arguments import conforming, flatten_arguments, leaf_paths, place_of, to_buffer
from xjit.runtime.arrays.donation import Donations
from xjit.runtime.arrays.physical_layout import Array
from xjit.runtime.calls.host_calls import Device
from xjit.runtime.calls.thunk_interpreter import executed_thunks
from xjit.runtime.cuda.captured_call import CapturedCall
from xjit.runtime.cuda.device_array import (
    DeviceArray,
    DeviceMemory,
    Ready,
    as_device_array,
    device_strides,
    is_on_device,
    result_array,
    stream_number,
)
from xjit.runtime.cuda.donation import check_donations, copied_to
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.cuda.launch_tables import LaunchTables
from xjit.runtime.cuda.runtime_calls import RuntimeCalls
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.program import ArraySignature, unflatten_tree
from xjit.thunks import BufferSlice, MatmulSpec, RuntimeCallThunk, Thunk


class CudaExecutable:
    """A `GpuModule` loaded onto a device.

    `executable(*arguments, stream=None, donate=())` takes one argument per HLO parameter, tuples nested as in HLO, or
    one per leaf: NumPy arrays, or arrays on the device that have `__cuda_array_interface__` or DLPack and the layout of
    the program. With an array on the device among them, the results are `DeviceArray`s; otherwise NumPy arrays.
    `stream` is one of numba.cuda, CuPy, PyTorch, or a number; by default the executable has one of its own. Results
    that alias a donated parameter lie where its arrays did: those are overwritten.

    Args:
        module: what to run.
        images: for each kernel, by name, what the driver loads.
        driver: the device.
        calls: does what is left to the runtime; by default with the libraries that are installed.

    Errors: FailedPrecondition for a library that is not.
    """

    def __init__(
        self, module: GpuModule, images: Mapping[str, bytes], driver: CudaDriver, calls: RuntimeCalls | None = None
    ) -> None:
        self.module = module
        self.driver = driver
        self._calls = calls or RuntimeCalls(driver)
        driver.make_current()
        for thunk in module.program.thunks.kernel_thunks:
            if isinstance(thunk, RuntimeCallThunk):
                self._calls.prepare(thunk)
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
        self.stream = driver.create_stream()
        self._constants = [_upload(driver, constant, self.stream) for constant in module.constants]
        driver.synchronize(self.stream)
        entry = module.program.thunks.sequences[module.program.thunks.entry]
        is_static = entry.is_straight and not any(isinstance(t, RuntimeCallThunk) and _needs_host(t) for t in entry)
        self._static_steps = list(self._grouped(entry)) if is_static else None
        self._paths = leaf_paths(module.parameter_tree)

    @property
    def is_static(self) -> bool:
        """Whether every call does the same steps, none of which needs the host: no loop, conditional or call."""
        return self._static_steps is not None

    def __call__(
        self,
        *arguments: Any,
        stream: Any = None,
        donate: int | Iterable[int] = (),
        on_step: Callable[[Thunk], None] | None = None,
        device: Device | None = None,
    ) -> Any:
        """See the class. `on_step` is told each step when it is on the stream. `device`: this one, of several.

        Errors: InvalidArgument names the parameter; FailedPrecondition, one that must be donated; ExecutionError has
        CUDA's name of a failure.
        """
        module, driver = self.module, self.driver
        driver.make_current()
        on = self.stream if stream is None else stream_number(stream)
        leaves = flatten_arguments(module.parameter_tree, module.parameters, arguments)
        donated = Donations.of(module, donate).parameter_of
        returns_device = any(map(is_on_device, leaves))
        inputs = [self._input(*each, on) for each in zip(leaves, module.parameters, self._paths, strict=True)]
        check_donations(module, donated, leaves, inputs)
        arena = DeviceMemory(driver, module.arena_size, on)
        places = [
            inputs[donated[n]] if n in donated else DeviceMemory(driver, signature.byte_size, on)
            for n, signature in enumerate(module.results)
        ]
        self._put_on_stream(
            [array.address for array in inputs],
            [place.address for place in places],
            arena.address,
            on,
            on_step,
            device,
        )
        ready = Ready(driver, on)
        for array in inputs:  # memory that another stream gives back waits for what was read here
            if isinstance(array.owner, DeviceMemory):
                ready.let_wait(array.owner.stream)
        results = [result_array(driver, p, s, ready) for p, s in zip(places, module.results, strict=True)]
        if returns_device:
            return unflatten_tree(module.result_tree, results)
        found = [array.copy_to_host() for array in results]
        for number, parameter in donated.items():
            found[number] = copied_to(leaves[parameter], found[number])
        return unflatten_tree(module.result_tree, found)

    def run_at(
        self, parameters: Sequence[int], results: Sequence[int], stream: int, device: Device | None = None
    ) -> None:
        """Runs on memory of the device at addresses, and waits for the end; see the class for the layouts.

        A result may be where a donated parameter is. `device`: this one, of several. Errors: ExecutionError has CUDA's
        name of a failure.
        """
        self.driver.make_current()
        arena = DeviceMemory(self.driver, self.module.arena_size, stream)
        self._put_on_stream(parameters, results, arena.address, stream, device=device)
        self.driver.synchronize(stream)

    def to_device(self, *arguments: Any) -> tuple[DeviceArray, ...]:
        """Returns the arguments of a call as arrays on the device, one per leaf. Errors: as of a call."""
        self.driver.make_current()
        leaves = flatten_arguments(self.module.parameter_tree, self.module.parameters, arguments)
        placed = zip(leaves, self.module.parameters, self._paths, strict=True)
        arrays = tuple(self._input(*each, self.stream) for each in placed)
        self.driver.synchronize(self.stream)
        return arrays

    def capture(self, *arguments: Any) -> CapturedCall:
        """Returns one call on these arrays, which must be on the device, as a CUDA graph: it reads them anew each time.

        Errors: FailedPrecondition if a call is not always the same steps, or an argument is not on the device.
        """
        if any(alias.must for alias in self.module.aliases):
            raise FailedPrecondition(f"module '{self.module.name}' overwrites its parameters: it cannot be a graph")
        if self._static_steps is None:
            raise FailedPrecondition(
                f"module '{self.module.name}' has loops, branches or steps of the host: it cannot be a graph"
            )
        leaves = flatten_arguments(self.module.parameter_tree, self.module.parameters, arguments)
        if not all(map(is_on_device, leaves)):
            raise FailedPrecondition("the arguments of a graph must be arrays on the device")
        self.driver.make_current()
        inputs = [
            self._input(*each, self.stream) for each in zip(leaves, self.module.parameters, self._paths, strict=True)
        ]
        addresses = [array.address for array in inputs]
        return CapturedCall(
            self.module,
            self.driver,
            self.stream,
            functools.partial(self._put_on_stream, addresses, stream=self.stream),
            inputs,
        )

    def _input(self, leaf: Any, signature: ArraySignature, path: Any, stream: int) -> DeviceArray:
        if is_on_device(leaf):
            array = as_device_array(self.driver, leaf, stream)
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
        memory = _upload(self.driver, buffer, stream)
        return DeviceArray(self.driver, memory.address, signature.shape, signature.dtype, None, memory, None)

    def _bases(self, inputs: Sequence[int], results: Sequence[int], arena: int) -> np.ndarray[Any, Any]:
        """The addresses of a call, in the order of `LaunchTables`."""
        return np.array([*inputs, *results, *(memory.address for memory in self._constants), arena], np.int64)

    def _put_on_stream(
        self,
        inputs: Sequence[int],
        results: Sequence[int],
        arena: int,
        stream: int,
        on_step: Callable[[Thunk], None] | None = None,
        device: Device | None = None,
    ) -> None:
        """Puts all steps on a stream; waits where a loop or a branch depends on what was computed.

        `on_step` is told each step when it is on the stream: they go there one by one then.
        """
        bases = self._bases(inputs, results, arena)
        if self._static_steps is not None and on_step is None:
            self._run(self._static_steps, bases, stream, device)
            return
        pending: list[Thunk] = []

        def flush() -> None:
            self._run(self._grouped(pending), bases, stream, device)
            pending.clear()

        def number(where: BufferSlice) -> int:
            flush()
            value = ctypes.c_int32(0)
            source = self._address(where, bases)
            self.driver.copy_to_host(ctypes.addressof(value), source, min(where.size, 4), stream)
            self.driver.synchronize(stream)
            return value.value

        for thunk in executed_thunks(self.module.program.thunks, number):
            pending.append(thunk)
            if on_step is not None:
                flush()
                on_step(thunk)
        flush()

    def _grouped(self, thunks: Iterable[Thunk]) -> Iterator[np.ndarray[Any, Any] | RuntimeCallThunk]:
        """Yields the steps of some thunks: the numbers of kernels and copies that follow each other, and calls."""
        for is_call, group in itertools.groupby(thunks, lambda t: isinstance(t, RuntimeCallThunk)):
            if is_call:
                yield from (thunk for thunk in group if isinstance(thunk, RuntimeCallThunk))
            else:
                yield self._tables.order(group)

    def _run(
        self,
        steps: Iterable[np.ndarray[Any, Any] | RuntimeCallThunk],
        bases: np.ndarray[Any, Any],
        stream: int,
        device: Device | None,
    ) -> None:
        for step in steps:
            if isinstance(step, RuntimeCallThunk):
                addresses = [self._address(place.slice, bases) for place in (*step.operands, *step.results)]
                self._calls.put_on_stream(step, addresses, stream, device)
            else:
                self._tables.run(step, bases, stream, self.driver)

    def _address(self, where: BufferSlice, bases: np.ndarray[Any, Any]) -> int:
        return int(bases[self._first_bases[where.kind] + where.index]) + where.offset


def _needs_host(thunk: RuntimeCallThunk) -> bool:
    """Whether the host allocates memory for a step, waits for it or does it: no graph can have it."""
    return not isinstance(thunk.call, MatmulSpec)


def _upload(driver: CudaDriver, data: Array, stream: int) -> DeviceMemory:
    memory = DeviceMemory(driver, data.nbytes, stream)
    if data.nbytes:
        contiguous = np.ascontiguousarray(data)
        driver.copy_to_device(memory.address, contiguous.ctypes.data, contiguous.nbytes, stream)
    return memory
