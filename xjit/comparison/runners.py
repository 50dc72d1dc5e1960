"""What runs a module for a comparison: xjit on the CPU, on a GPU or its simulator, XLA through jax."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xjit.compile_options import CompileOptions
from xjit.compiler import compile_for_cpu
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.runtime.program import KernelInfo
from xjit.tools.inputs import call_again
from xjit.tools.jax_reference import JaxProgram
from xjit.tools.leaf_comparison import leaves_of

if TYPE_CHECKING:
    from xjit.gpu_compiler import DeviceExecutable
    from xjit.runtime.cuda import DeviceArray

Array = np.ndarray[Any, Any]
PROFILED_CALLS = 3


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel call: what it is, its bytes and operations as its planner counted them, and its seconds."""

    kernel: str
    kind: str
    instruction: str
    bytes_accessed: int
    flops: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Runner:
    """A module ready to run on one target, with its inputs in place.

    `call` returns when the results are there. `outputs` are those leaves, `kernel_times` what each kernel takes, given
    the time of a call: empty where the target does not tell. What is not `timed` is compared in values only.
    """

    target: str
    device: str  # "cpu" or "cuda": whose ceilings apply
    call: Callable[[], object]
    outputs: Callable[[], Sequence[Array]]
    kernel_times: Callable[[float], Sequence[KernelTime]]
    timed: bool = True


def _no_kernels(seconds: float) -> Sequence[KernelTime]:
    return ()


def _cpu(module: HloModule, inputs: Sequence[Any]) -> Runner:
    executable = compile_for_cpu(module, CompileOptions(cache_dir=""))

    def run() -> Any:
        return call_again(executable, inputs)

    def kernel_times(seconds: float) -> Sequence[KernelTime]:
        profiled = compile_for_cpu(module, CompileOptions(profile=True))
        for _ in range(PROFILED_CALLS):
            call_again(profiled, inputs)
        cycles = profiled.profile_cycles()
        unit = seconds / max(1, sum(cycles))  # cycles are shares of the time of a call
        return [_kernel_time(kernel, n * unit) for kernel, n in zip(profiled.kernels, cycles, strict=True)]

    return Runner("cpu", "cpu", run, lambda: leaves_of(run()), kernel_times)


def _kernel_time(kernel: KernelInfo, seconds: float) -> KernelTime:
    flops, moved = kernel.flops, kernel.bytes_accessed
    return KernelTime(kernel.name, kernel.kind, kernel.instruction, moved, flops, seconds)


def _cuda(module: HloModule, inputs: Sequence[Any], cublaslt: bool | None = None) -> Runner:
    from xjit.gpu_compiler import load_for_gpu

    options = CompileOptions(xla_gpu_enable_cublaslt=cublaslt)
    executable = cast("DeviceExecutable", load_for_gpu(module, "cuda", "", options))
    arrays = executable.to_device(*inputs)

    def call() -> None:
        for leaf in _device_leaves(executable(*arrays)):
            leaf.block_until_ready()

    def kernel_times(seconds: float) -> Sequence[KernelTime]:
        rounds = [executable.kernel_seconds(*arrays) for _ in range(PROFILED_CALLS)]
        by_instruction = {kernel.instruction: kernel for kernel in executable.kernels}
        found: list[KernelTime] = []
        for steps in zip(*rounds, strict=False):
            name, own = steps[0][0], statistics.median(time for _, time in steps)
            kernel = by_instruction.get(name, KernelInfo(name, "copy", name))
            found.append(_kernel_time(kernel, own))
        return found

    def outputs() -> Sequence[Array]:
        return [leaf.copy_to_host() for leaf in _device_leaves(executable(*arrays))]

    return Runner("cuda", "cuda", call, outputs, kernel_times)


def own_kernels(module: HloModule, inputs: Sequence[Any]) -> Runner:
    """Compiles a module for "cuda" without libraries."""
    return _cuda(module, inputs, cublaslt=False)


def _device_leaves(value: Any) -> list[DeviceArray]:
    return [leaf for item in value for leaf in _device_leaves(item)] if isinstance(value, tuple) else [value]


def _cuda_sim(module: HloModule, inputs: Sequence[Any]) -> Runner:
    from xjit.gpu_compiler import load_for_gpu

    executable = load_for_gpu(module, "cuda-sim", "", CompileOptions())

    def outputs() -> Sequence[Array]:
        return leaves_of(call_again(executable, inputs))

    return Runner("cuda-sim", "host", lambda: None, outputs, _no_kernels, timed=False)


def _jax(platform: str) -> Callable[[HloModule, Sequence[Any]], Runner]:
    def make(module: HloModule, inputs: Sequence[Any]) -> Runner:
        program = JaxProgram(str(module), list(inputs), platform)
        return Runner(f"jax-{platform}", platform, program.call, program.outputs, _no_kernels)

    return make


MAKERS: Mapping[str, Callable[[HloModule, Sequence[Any]], Runner]] = {
    "cpu": _cpu,
    "cuda": _cuda,
    "cuda-sim": _cuda_sim,
    "jax-cpu": _jax("cpu"),
    "jax-cuda": _jax("cuda"),
}
"""By the name of the target."""


def make_runner(target: str, module: HloModule, inputs: Sequence[Any]) -> Runner:
    """Compiles a module for a target of `MAKERS`.

    Errors: InvalidArgument for another target; FailedPrecondition if this machine lacks it; those of the compilation.
    """
    maker = MAKERS.get(target)
    if maker is None:
        raise InvalidArgument(f"unknown target '{target}': expected some of {', '.join(MAKERS)}")
    return maker(module, inputs)
