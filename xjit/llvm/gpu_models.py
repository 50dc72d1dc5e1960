"""What each NVIDIA architecture offers, as one table.

The limits are those of NVIDIA's table of technical specifications per compute capability. The PTX version is the
lowest one that has the architecture: any newer driver reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

WARP_SIZE = 32
SECTOR_BYTES = 32  # what a memory transaction moves at least
KIB = 1024
FIRST_WITH_COPIES = 80
"""The compute capability from which on threads can have memory copied to shared memory while they go on."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """The limits of one architecture: threads, blocks, 32-bit registers and bytes of shared memory, per SM and block.

    `static_shared_bytes` is what a kernel can declare; up to `max_shared_bytes` are to be had at launch.
    """

    name: str  # "sm_90"
    ptx_version: str  # "7.8"
    threads_per_sm: int
    blocks_per_sm: int
    shared_bytes_per_sm: int
    max_shared_bytes: int
    registers_per_sm: int = 64 * KIB
    static_shared_bytes: int = 48 * KIB
    warp_size: int = WARP_SIZE

    @property
    def compute_capability(self) -> int:
        """As a number: 90 for sm_90."""
        return int(self.name.removeprefix("sm_"))

    def occupancy(self, threads: int, shared_bytes: int, registers: int = 0) -> float:
        """Returns which part of an SM's threads can be resident with such blocks. `registers` are per thread."""
        limits = [self.blocks_per_sm, self.threads_per_sm // threads]
        if shared_bytes:
            limits.append(self.shared_bytes_per_sm // shared_bytes)
        if registers:
            limits.append(self.registers_per_sm // (registers * threads))
        return min(limits) * threads / self.threads_per_sm


def _model(name: str, ptx: str, threads: int, blocks: int, shared: int, largest: int) -> GpuModel:
    return GpuModel(name, ptx, threads, blocks, shared * KIB, largest * KIB)


_MODELS = (
    #       name    PTX   threads blocks shared KiB per SM, per block
    _model("sm_75", "6.3", 1024, 16, 64, 64),
    _model("sm_80", "7.0", 2048, 32, 164, 163),
    _model("sm_86", "7.1", 1536, 16, 100, 99),
    _model("sm_87", "7.4", 1536, 16, 164, 163),
    _model("sm_89", "7.8", 1536, 24, 100, 99),
    _model("sm_90", "7.8", 2048, 32, 228, 227),
    _model("sm_100", "8.6", 2048, 32, 228, 227),
    _model("sm_103", "8.8", 2048, 32, 228, 227),
    _model("sm_110", "9.0", 1536, 24, 228, 227),
    _model("sm_120", "8.7", 1536, 24, 100, 99),
    _model("sm_121", "8.8", 1536, 24, 100, 99),
)
GPU_MODELS: Mapping[str, GpuModel] = MappingProxyType({model.name: model for model in _MODELS})
"""By LLVM's name of the architecture, oldest first."""

DEFAULT_GPU = "sm_90"
