"""A module compiled for a GPU, as data: what meets between compile time and whatever runs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.runtime.program import ArraySignature, KernelInfo, LeafTree
from xjit.thunks.gpu_kernel import GpuProgram
from xjit.thunks.result_alias import ResultAlias


@dataclass(frozen=True, slots=True)
class GpuModule:
    """Thunks and kernels, and what a call must know. The fields beside `architecture` and `program` are CpuProgram's.

    A kernel's parameters are the operands of its thunk, then its results.
    """

    name: str
    architecture: str
    program: GpuProgram
    parameters: tuple[ArraySignature, ...]
    parameter_tree: tuple[LeafTree, ...]
    results: tuple[ArraySignature, ...]
    result_tree: LeafTree
    arena_size: int = 0
    constants: tuple[np.ndarray[Any, Any], ...] = ()
    kernels: tuple[KernelInfo, ...] = ()
    aliases: tuple[ResultAlias, ...] = ()
    num_replicas: int = 1
    num_partitions: int = 1

    @property
    def num_devices(self) -> int:
        """The devices that one call runs on."""
        return self.num_replicas * self.num_partitions
