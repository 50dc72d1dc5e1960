"""Kernels for GPUs as data: LLVM IR of one thread, and how many threads run it.

Role: what planners and emitters hand to whatever runs kernels - a driver, or the host in place of a GPU.

The text is a module that is its own: it defines `define ptx_kernel void @name(...)`, what that calls, and its shared
memory, `internal addrspace(3)` globals. Facts of a thread and what threads do together are NVVM's intrinsics
(`llvm.nvvm.read.ptx.sreg.tid.x`, `llvm.nvvm.barrier.cta.sync.aligned.all`, `llvm.nvvm.shfl.sync.bfly.f32`, ...). The
parameters are one `ptr addrspace(1)` for each operand, then for each result, then one i32 or i64 for each scalar.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xjit.dataclass import dataclass
from xjit.thunks.thunk import ThunkProgram

Extent = tuple[int, int, int]
"""How many, along x, y and z."""


@dataclass(frozen=True, slots=True)
class LaunchDimensions:
    """Blocks of the grid and threads of each block, along x, y, z; bytes of shared memory beside the static one."""

    blocks: Extent
    threads: Extent
    dynamic_shared_bytes: int = 0

    @property
    def num_blocks(self) -> int:
        """Blocks of the whole grid."""
        return prod(self.blocks)

    @property
    def threads_per_block(self) -> int:
        """Threads of one block."""
        return prod(self.threads)

    def __str__(self) -> str:
        shared = f", {self.dynamic_shared_bytes} bytes of shared memory" if self.dynamic_shared_bytes else ""
        return f"{_extent(self.blocks)} blocks of {_extent(self.threads)} threads{shared}"


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """One kernel and its launch. `instruction` is the HLO instruction it was first made for; equal ones share it."""

    name: str
    ir_text: str
    launch: LaunchDimensions
    instruction: str
    scalars: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """What a module runs on a GPU: thunks, whose `KernelThunk`s name kernels of this table by `GpuKernel.name`."""

    thunks: ThunkProgram
    kernels: Mapping[str, GpuKernel]


def _extent(extent: Extent) -> str:
    return "x".join(map(str, extent)) if extent[1:] != (1, 1) else str(extent[0])
