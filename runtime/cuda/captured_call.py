"""A call of a GPU program as a CUDA graph: what is launched is fixed, and so are all addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from xjit.runtime.cuda.device_array import DeviceArray, DeviceMemory, Ready, result_array, stream_number
from xjit.runtime.cuda.driver import CudaDriver
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.program import unflatten_tree


class PutOnStream(Protocol):
    """Puts all steps of a program on the stream to capture."""

    def __call__(self, results: Sequence[int], arena: int) -> None:
        """Takes the addresses of the results and of temporary memory."""
        ...


class CapturedCall:
    """One call as a graph. Its results are always the same memory, which each launch writes anew.

    Args:
        module: what is run.
        driver: the device.
        stream: where it is captured and, by default, launched.
        put: does one call; kept, as constants are its program's.
        inputs: the arguments, which are kept.
    """

    def __init__(
        self, module: GpuModule, driver: CudaDriver, stream: int, put: PutOnStream, inputs: Sequence[DeviceArray]
    ) -> None:
        self._module, self._driver, self._stream = module, driver, stream
        self._kept = put, inputs
        self._memory = [DeviceMemory(driver, signature.byte_size, stream) for signature in module.results]
        self._arena = DeviceMemory(driver, module.arena_size, stream)
        driver.synchronize(stream)  # memory that a graph uses must be there before
        driver.begin_capture(stream)
        try:
            put([memory.address for memory in self._memory], self._arena.address)
        finally:
            self._graph = driver.end_capture(stream)

    def __call__(self, stream: Any = None) -> Any:
        """Launches the graph and returns the results, nested as in HLO: `DeviceArray`s."""
        on = self._stream if stream is None else stream_number(stream)
        self._driver.make_current()
        for array in self._kept[1]:
            if array.ready is not None:
                array.ready.let_wait(on)
        self._driver.launch_graph(self._graph, on)
        ready = Ready(self._driver, on)
        pairs = zip(self._memory, self._module.results, strict=True)
        return unflatten_tree(self._module.result_tree, [result_array(self._driver, *pair, ready) for pair in pairs])

    def __del__(self) -> None:
        if getattr(self, "_graph", 0):
            self._driver.destroy_graph(self._graph)
