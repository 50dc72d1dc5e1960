"""Runs one launch of a kernel on the host."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.gpu_sim.findings import SimulationError
from xjit.runtime.gpu_sim.host_kernel import FRAME_ALIGNMENT
from xjit.runtime.gpu_sim.library import CALL, library_addresses
from xjit.runtime.gpu_sim.read_findings import read_findings
from xjit.runtime.gpu_sim.records import FINDING, LAUNCH, MAX_THREADS, OBJECT, SHADOW, THREAD
from xjit.runtime.gpu_sim.shadow_record import MAX_SIMULATED_BLOCKS
from xjit.runtime.gpu_sim.simulated_kernel import SimulatedKernel, simulated_kernel
from xjit.thunks.gpu_kernel import GpuKernel, LaunchDimensions

_MAX_BLOCKS = (2**31 - 1, 65535, 65535)
_MAX_THREADS = (1024, 1024, 64)
"""Along x, y, z: what every GPU takes."""

_MAX_FINDINGS = 64
_SCRATCH_BYTES = 4096
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Memory that a kernel may access: `size` bytes from `address` on."""

    address: int
    size: int

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> MemoryRange:
        """The memory of a contiguous array."""
        if not array.flags.c_contiguous:
            raise InvalidArgument("a kernel takes contiguous arrays")
        return MemoryRange(array.ctypes.data, array.nbytes)


def simulate(
    kernel: GpuKernel,
    arguments: Sequence[MemoryRange],
    *,
    launch: LaunchDimensions | None = None,
    reverse: bool = False,
    sanitize: bool = False,
    cache_dir: str | None = None,
) -> None:
    """Runs a kernel on the host, in this thread, as a GPU would: all blocks, one after the other.

    Args:
        kernel: what to run.
        arguments: the memory of each pointer parameter, in order. They may overlap.
        launch: how many blocks and threads, if not `kernel.launch`.
        reverse: run blocks, warps and lanes from the last to the first. A right kernel gives the same.
        sanitize: check every access; wrong ones are left out, and the launch goes on.
        cache_dir: where its machine code is kept; by default where the environment says.

    Errors: SimulationError for what a GPU does not define; InvalidArgument for arguments or a launch that do not fit;
    CompileError if the kernel needs what the host has not. Not found: threads that wait for each other by spinning, as
    such a kernel never ends.
    """
    if launch is not None:
        kernel = dataclasses.replace(kernel, launch=launch)
    _check_launch(kernel)
    code = simulated_kernel(kernel, sanitize, cache_dir)
    _check_arguments(kernel, code, arguments)
    with code.lock:
        _Launch(kernel, code, arguments, reverse, sanitize).run()


class _Launch:
    """The memory of one launch."""

    def __init__(self, kernel: GpuKernel, code: SimulatedKernel, arguments: Sequence[MemoryRange], reverse: bool,
                 sanitize: bool) -> None:  # fmt: skip
        self._kernel, self._code = kernel, code
        dimensions = kernel.launch
        num_threads = dimensions.threads_per_block
        self._threads = np.zeros(num_threads * THREAD.size, np.uint8)
        self._arguments = np.array([*(a.address for a in arguments), *kernel.scalars], np.int64)
        self._findings = np.zeros(_MAX_FINDINGS * FINDING.size, np.uint8)
        self._scratch = _aligned(_SCRATCH_BYTES)
        self._released = np.zeros(dimensions.num_blocks if sanitize else 0, np.int64)
        self._shadows = _Shadows(arguments, sanitize)
        self._objects = np.frombuffer(self._object_table(arguments, sanitize), np.uint8)
        self._frames, stride = self._coroutine_frames(num_threads)
        extents = zip(("nctaid", "ntid"), (dimensions.blocks, dimensions.threads))
        self._record = ctypes.create_string_buffer(
            LAUNCH.pack(
                start=code.start,
                arguments=self._arguments.ctypes.data,
                **{f"{fact}.{axis}": n for fact, extent in extents for axis, n in zip("xyz", extent)},
                reverse=int(reverse),
                threads=self._threads.ctypes.data,
                frames=self._frames.ctypes.data,
                frame_stride=stride,
                objects=self._objects.ctypes.data,
                num_objects=len(self._objects) // OBJECT.size,
                released=self._released.ctypes.data,
                findings=self._findings.ctypes.data,
                max_findings=_MAX_FINDINGS,
                scratch=self._scratch.ctypes.data,
            ),
            LAUNCH.size,
        )

    def run(self) -> None:
        """Runs it. SimulationError if something was found."""
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)(library_addresses()[CALL])
        call(self._code.run, ctypes.addressof(self._record), self._code.host.flushes_subnormals)
        count = LAUNCH.unpack(self._record.raw)["num_findings"]
        if count:
            records = self._findings[: count * FINDING.size].tobytes()
            reverse = bool(LAUNCH.unpack(self._record.raw)["reverse"])
            found = read_findings(records, self._code.host, self._sizes, self._kernel.launch, reverse)
            raise SimulationError(self._kernel, found)

    def _object_table(self, arguments: Sequence[MemoryRange], sanitize: bool) -> bytes:
        """One OBJECT per parameter - a scalar has no bytes -, then one per global."""
        code, table, self._sizes = self._code, list[bytes](), list[int]()
        ranges = iter(arguments)
        for kind in code.host.parameters:
            memory = next(ranges) if kind.startswith("ptr") else MemoryRange(0, 0)
            self._sizes.append(memory.size)
            table.append(OBJECT.pack(base=memory.address, size=memory.size, shadow=self._shadows.address(memory)))
        for variable, address in zip(code.host.variables, code.variables):
            self._sizes.append(variable.size)
            shadow = 0 if variable.is_constant or not sanitize else self._shadows.add(variable.size)
            is_shared = int(variable.is_shared)
            table.append(OBJECT.pack(base=address, size=variable.size, shadow=shadow, is_shared=is_shared))
        return b"".join(table)

    def _coroutine_frames(self, num_threads: int) -> tuple[_Bytes, int]:
        """Memory for the frames of all threads of a block, and the bytes from one to the next."""
        if not self._code.host.suspends:
            return np.zeros(1, np.uint8), 0
        query = ctypes.create_string_buffer(THREAD.size)  # without a frame, it only tells the size
        start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(self._code.start)
        start(ctypes.addressof(query), self._arguments.ctypes.data)
        size = THREAD.unpack(query.raw)["frame_size"]
        stride = -(-size // FRAME_ALIGNMENT) * FRAME_ALIGNMENT
        return _aligned(num_threads * stride), stride


class _Shadows:
    """The shadow memory of one launch: arguments that overlap share it."""

    def __init__(self, arguments: Sequence[MemoryRange], sanitize: bool) -> None:
        self._arrays: list[_Bytes] = []
        self._regions: list[tuple[int, int, int]] = []  # begin, end, address of the shadow
        if not sanitize:
            return
        for memory in sorted(arguments, key=lambda memory: memory.address):
            end = memory.address + memory.size
            if self._regions and memory.address < self._regions[-1][1]:
                begin, known_end, _ = self._regions.pop()
                self._arrays.pop()
                end = max(end, known_end)
            else:
                begin = memory.address
            self._regions.append((begin, end, self.add(end - begin)))

    def add(self, size: int) -> int:
        """Allocates the shadow of so many bytes; returns its address."""
        self._arrays.append(np.zeros(max(size, 1) * SHADOW.size, np.uint8))
        return self._arrays[-1].ctypes.data

    def address(self, memory: MemoryRange) -> int:
        """Where the shadow of an argument begins; 0 without a sanitizer."""
        for begin, end, shadow in self._regions:
            if begin <= memory.address < end:
                return shadow + (memory.address - begin) * SHADOW.size
        return self._arrays[0].ctypes.data if self._arrays else 0  # of no bytes


def _check_launch(kernel: GpuKernel) -> None:
    launch = kernel.launch
    pairs = zip((*launch.blocks, *launch.threads), (*_MAX_BLOCKS, *_MAX_THREADS), strict=True)
    fits = all(0 < count <= most for count, most in pairs)
    if not fits or launch.threads_per_block > MAX_THREADS or launch.num_blocks > MAX_SIMULATED_BLOCKS:
        raise InvalidArgument(
            f"kernel '{kernel.name}' cannot be launched with {launch}: a block has 1 to {MAX_THREADS} threads, "
            f"at most {_MAX_THREADS} along x, y, z; a grid 1 to {_MAX_BLOCKS} blocks, and simulated at most "
            f"{MAX_SIMULATED_BLOCKS}"
        )


def _check_arguments(kernel: GpuKernel, code: SimulatedKernel, arguments: Sequence[MemoryRange]) -> None:
    host = code.host
    pointers = [n for n, kind in enumerate(host.parameters) if kind.startswith("ptr")]
    scalars = len(host.parameters) - len(pointers)
    if len(arguments) != len(pointers) or len(kernel.scalars) != scalars or pointers != list(range(len(pointers))):
        raise InvalidArgument(
            f"kernel '{kernel.name}' takes ({', '.join(host.parameters)}): {len(arguments)} buffers and "
            f"{len(kernel.scalars)} scalars do not fit, buffers first"
        )
    for number, memory in enumerate(arguments):
        if memory.address % host.alignments[number]:
            raise InvalidArgument(
                f"kernel '{kernel.name}' wants argument {number} aligned to {host.alignments[number]} bytes, "
                f"not at {memory.address:#x}"
            )


def _aligned(size: int) -> _Bytes:
    memory = np.zeros(size + FRAME_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % FRAME_ALIGNMENT
    return memory[start : start + size]
