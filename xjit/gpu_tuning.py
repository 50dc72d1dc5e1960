"""Measures cublasLt's algorithms on a GPU: what stands between `Autotuner` and a device's driver and library."""

from __future__ import annotations

import functools
import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from xjit.affine import tile_array
from xjit.compile_options import CompileOptions
from xjit.hlo import HloInstruction
from xjit.passes.framework.base import HloModulePass
from xjit.passes.gpu.algorithm_pickers import GemmAlgorithmPicker
from xjit.passes.gpu.autotuner import Algorithm, Array, Autotuner, Trial, tuned_pickers
from xjit.passes.gpu.matmul_calls import matmul_spec
from xjit.runtime.cuda import CudaDriver
from xjit.runtime.cuda.libraries.cublaslt import CublasLt
from xjit.runtime.cuda.runtime_calls import cublaslt_of

MAX_ALGORITHMS = 16
"""Of the library's list, which begins with those that it takes for the fastest."""

PRODUCTS_PER_RUN = 4
"""Products in a row whose time is one run's: the host puts one on the stream while the device does another."""

_RED_ZONE_BYTES = 64 << 10
_ALIGNMENT = 256
_UNTOUCHED = 0xA5  # every byte of red zones


def product_pickers(driver: CudaDriver, options: CompileOptions) -> tuple[HloModulePass, ...]:
    """Returns the pass that has cublasLt's algorithms measured on a device; none if options ask for none."""
    if not options.xla_gpu_autotune_level or not options.xla_gpu_enable_cublaslt:
        return ()
    return (_picker(driver, options.xla_gpu_autotune_level, options.deterministic),)


@functools.cache
def _picker(driver: CudaDriver, level: int, deterministic: bool) -> GemmAlgorithmPicker:
    """One for all compilations of the process, as it remembers what was measured.

    What one level measured, or a time decided, is no choice for another one.
    """
    _, picker = tuned_pickers(Autotuner(_device(driver), level, deterministic))
    return picker


@functools.cache
def _device(driver: CudaDriver) -> CublasLtDevice:
    return CublasLtDevice(driver, cublaslt_of(driver))


class CublasLtDevice:
    """A `TuningDevice`: products by a library on the device of a driver, in memory of their own.

    No product writes over an operand here: C and D are two arrays.
    """

    def __init__(self, driver: CudaDriver, library: CublasLt) -> None:
        driver.make_current()
        self.description = f"{driver.architecture}, cublasLt {library.version()}"
        self.lock: AbstractContextManager[Any] = threading.Lock()
        self._driver = driver
        self._library = library
        self._stream = driver.create_stream()

    def algorithms(self, call: HloInstruction) -> list[Algorithm]:
        """See `TuningDevice`. An algorithm's number is its place in the library's list."""
        self._driver.make_current()
        found = self._library.algorithms(matmul_spec(call), MAX_ALGORITHMS, call.name)
        return [Algorithm(place, scratch) for place, scratch in found]

    def free_bytes(self) -> int:
        """See `TuningDevice`."""
        self._driver.make_current()
        return self._driver.free_bytes()

    def run(self, call: HloInstruction, algorithm: Algorithm, operands: Sequence[Array], with_red_zones: bool) -> Trial:
        """See `TuningDevice`. The result is D, in the order of memory."""
        self._driver.make_current()
        spec = replace(matmul_spec(call), algorithm=algorithm.number)
        shapes = call.shape.tuple_shapes if call.shape.is_tuple else (call.shape,)
        given = [tile_array(a, o.shape.minor_to_major) for a, o in zip(operands, call.operands, strict=True)]
        with self._buffers([*(a.nbytes for a in given), *(s.byte_size for s in shapes)]) as (starts, zones):
            for address, array in zip(starts, given, strict=False):
                self._write(address, array)
            for address, size in zones if with_red_zones else ():
                self._write(address, np.full(size, _UNTOUCHED, np.uint8))
            with self._times() as times:
                times.append(self._driver.record_time(self._stream))
                for _ in range(PRODUCTS_PER_RUN):
                    self._library.multiply(spec, starts, self._stream, call.name)
                times.append(self._driver.record_time(self._stream))
                self._driver.synchronize(self._stream)
                seconds = self._driver.seconds_between(*times) / PRODUCTS_PER_RUN
            result = self._read(starts[len(given)], shapes[0].byte_size).view(shapes[0].dtype)
            is_intact = not with_red_zones or all((self._read(*zone) == _UNTOUCHED).all() for zone in zones)
        return Trial(seconds, result, is_intact)

    @contextmanager
    def _buffers(self, sizes: Sequence[int]) -> Generator[tuple[list[int], list[tuple[int, int]]]]:
        """Addresses of buffers; addresses and sizes of the red zones before, between and right behind them."""
        starts, ends = list[int](), [0]
        for size in sizes:
            starts.append(-(-(ends[-1] + _RED_ZONE_BYTES) // _ALIGNMENT) * _ALIGNMENT)
            ends.append(starts[-1] + size)
        total = ends[-1] + _RED_ZONE_BYTES
        base = self._driver.allocate(total, self._stream)
        try:
            zones = [(base + end, start - end) for end, start in zip(ends, [*starts, total], strict=True)]
            yield [base + start for start in starts], zones
        finally:
            self._driver.free(base, self._stream)

    @contextmanager
    def _times(self) -> Generator[list[int]]:
        """A list for events, which are destroyed whatever happens."""
        events = list[int]()
        try:
            yield events
        finally:
            for event in events:
                self._driver.destroy_event(event)

    def _write(self, address: int, array: Array) -> None:
        if array.nbytes:
            self._driver.copy_to_device(address, array.ctypes.data, array.nbytes, self._stream)

    def _read(self, address: int, size: int) -> Array:
        found = np.empty(size, np.uint8)
        if size:
            self._driver.copy_to_host(found.ctypes.data, address, size, self._stream)
            self._driver.synchronize(self._stream)
        return found
