"""What JAX can ask this package for: a backend's name, and what its programs are compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xjit.targets import REAL, SIMULATED


@dataclass(frozen=True, slots=True)
class Platform:
    """A backend: its name in `JAX_PLATFORMS`, its target, and how its devices print, short and long."""

    name: str
    target: str
    device_kind: str
    device_class: str

    @property
    def is_gpu(self) -> bool:
        """Whether its programs are a GPU's, simulated or not."""
        return self.target in (REAL, SIMULATED)

    @property
    def has_own_memory(self) -> bool:
        """Whether arrays are where the host cannot read them."""
        return self.target == REAL


CPU: Final = Platform("xjit", "cpu", "cpu", "CpuDevice")

PLATFORMS: Final = {
    platform.name: platform
    for platform in (
        CPU,
        Platform("xjit_cuda", REAL, "cuda", "CudaDevice"),
        Platform("xjit_cuda_sim", SIMULATED, "cuda-sim", "SimulatedCudaDevice"),
    )
}
"""All, by name; `xjit_jax_plugin` tells JAX of them."""
