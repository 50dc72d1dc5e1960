"""Hand-written GPU kernels (`tests/runtime/gpu_sim/kernels/*.ll`), and how tests run them on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xjit.runtime.gpu_sim import Finding, MemoryRange, SimulationError, simulate
from xjit.thunks import GpuKernel, LaunchDimensions

KERNELS = Path(__file__).parents[1] / "runtime" / "gpu_sim" / "kernels"
Extents = int | tuple[int, ...]


def kernel(name: str, blocks: Extents, threads: Extents, *scalars: int, shared: int = 0) -> GpuKernel:
    """The kernel of a file, with its launch."""
    return kernel_of((KERNELS / f"{name}.ll").read_text(), name, blocks, threads, *scalars, shared=shared)


def kernel_of(text: str, name: str, blocks: Extents, threads: Extents, *scalars: int, shared: int = 0) -> GpuKernel:
    """A kernel of some text."""
    return GpuKernel(name, text, LaunchDimensions(_extent(blocks), _extent(threads), shared), f"{name}.1", scalars)


def run(what: GpuKernel, *arrays: np.ndarray, reverse: bool = False, sanitize: bool = False) -> None:
    """Runs it on arrays, which it changes."""
    simulate(what, [MemoryRange.of(array) for array in arrays], reverse=reverse, sanitize=sanitize)


def findings(what: GpuKernel, *arrays: np.ndarray, reverse: bool = False) -> tuple[Finding, ...]:
    """What the sanitizer finds."""
    try:
        run(what, *arrays, reverse=reverse, sanitize=True)
    except SimulationError as error:
        return error.findings
    return ()


def aligned(array: np.ndarray, alignment: int = 256) -> np.ndarray:
    """A copy of an array at an address that a GPU's memory has."""
    memory = np.empty(array.nbytes + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    result = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def _extent(numbers: Extents) -> tuple[int, int, int]:
    given = (numbers,) if isinstance(numbers, int) else numbers
    return (*given, 1, 1, 1)[:3]
