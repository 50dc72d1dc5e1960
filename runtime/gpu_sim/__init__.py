"""GPU kernels executed on the host: the same IR, thread by thread, with barriers, shuffles, atomics and a sanitizer."""

from xjit.runtime.gpu_sim.findings import Finding, FindingKind, SimulationError
from xjit.runtime.gpu_sim.launch import MemoryRange, simulate
from xjit.runtime.gpu_sim.simulated_kernel import SimulatedKernel, simulated_kernel

__all__ = [
    "Finding",
    "FindingKind",
    "MemoryRange",
    "SimulatedKernel",
    "SimulationError",
    "simulate",
    "simulated_kernel",
]
