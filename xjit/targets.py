"""What a module can be compiled for, by name."""

from __future__ import annotations

SIMULATED, REAL = "cuda-sim", "cuda"
GPU_TARGETS = (SIMULATED, REAL)
TARGETS = ("cpu", *GPU_TARGETS)


def split_gpu_target(target: str) -> tuple[str, str] | None:
    """Returns the kind ("cuda" or "cuda-sim") and the architecture ("" for none) of a target such as "cuda:sm_90".

    None if it is no GPU.
    """
    kind, _, architecture = target.partition(":")
    return (kind, architecture) if kind in GPU_TARGETS else None
