"""From a module to GPU kernels, and to something that runs them: a GPU, or the host in its place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from xjit.collector_pause import collector_pause
from xjit.compile_options import CompileOptions
from xjit.emitters.gpu.gpu_module import EmittedGpuModule, emit_gpu_module
from xjit.emitters.planners.gpu.radix_sort import radix_plan
from xjit.gpu_report import KernelReport, kernel_reports, report_text
from xjit.gpu_tuning import product_pickers
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.llvm.gpu_models import DEFAULT_GPU
from xjit.llvm.target import Target
from xjit.ops.evaluation.lapack import run_lapack
from xjit.optimized_module import (
    OptimizedModule,
    Phases,
    call_signature,
    check_compilable,
    device_counts,
    optimize_module,
    physical_constant,
    text_of,
)
from xjit.passes.framework.base import HloModulePass
from xjit.passes.pipelines import gpu_pipeline
from xjit.runtime.arrays.donation import required_donations
from xjit.runtime.calls.host_calls import Device
from xjit.runtime.calls.simulated_call import SimulatedCall
from xjit.runtime.collectives.sharded_gpu_call import ShardedGpuCall
from xjit.runtime.cuda import (
    CapturedCall,
    CudaDriver,
    CudaExecutable,
    DeviceArray,
    assemble_kernel,
    cuda_driver,
    has_cublaslt,
    kernel_image,
    profile_kernels,
    to_sass,
)
from xjit.runtime.executable import ConvertingCall, refused_on_one_device
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.machine_code.nvptx import optimize_nvptx, to_ptx
from xjit.runtime.memory_limit import refused_call
from xjit.runtime.program import KernelInfo
from xjit.targets import SIMULATED
from xjit.thunks import program_to_string

_PASSES = partial(gpu_pipeline, sorts_stably=lambda sort: radix_plan(sort) is not None)


class CompiledGpuModule:
    """A module compiled for a GPU: its kernels in every form, but nothing that runs them."""

    def __init__(
        self,
        optimized: OptimizedModule,
        emitted: EmittedGpuModule,
        target: Target,
        seconds: dict[str, float],
        cache_dir: str | None = None,
    ) -> None:
        self._optimized = optimized
        self._emitted = emitted
        self._target = target
        self._cache_dir = cache_dir
        self.compile_seconds = seconds

    @cached_property
    def program(self) -> GpuModule:
        """What the runtime needs."""
        assignment = self._optimized.assignment
        parameters, parameter_tree, results, result_tree = call_signature(self._optimized.module)
        thunks = self._emitted.program.thunks.kernel_thunks
        return GpuModule(
            self._optimized.module.name,
            self._target.cpu,
            self._emitted.program,
            parameters,
            parameter_tree,
            results,
            result_tree,
            self._emitted.arena_size,
            tuple(physical_constant(literal) for literal in assignment.constants),
            tuple(KernelInfo(t.kernel, t.kind, t.instruction, t.bytes_accessed, t.flops) for t in thunks),
            tuple(sorted(assignment.aliases)),
            *device_counts(self._optimized.module),
        )

    @property
    def optimized_module(self) -> HloModule:
        """The module that the kernels are of; not to be changed."""
        return self._optimized.module

    @property
    def required_donations(self) -> tuple[int, ...]:
        """The parameters that every call must donate, by number."""
        return required_donations(self.program)

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """The kernel calls, by their numbers."""
        return self.program.kernels

    def as_text(self, stage: str = "optimized-hlo") -> str:
        """Returns the module at a stage of compilation; InvalidArgument names the stages if there is no such one."""
        stages: dict[str, Callable[[], str]] = {
            "hlo": self._optimized.text,
            "optimized-hlo": lambda: str(self._optimized.module),
            "buffer-assignment": self._optimized.assignment.to_text,
            "thunks": self._thunks,
            "schedule": lambda: self._emitted.schedule_text,
            "llvm": lambda: self._emitted.ir_text,
            "llvm-opt": lambda: self._of_kernels(optimize_nvptx),
            "ptx": lambda: self._of_kernels(self._ptx),
            "sass": lambda: self._of_kernels(self._sass),
            "report": lambda: report_text(self.kernel_reports()),
        }
        if stage not in stages:
            raise InvalidArgument(f"unknown stage '{stage}': expected one of {', '.join(stages)}")
        return stages[stage]()

    def kernel_reports(self) -> tuple[KernelReport, ...]:
        """What each kernel takes of an SM, and how it uses memory. Registers are known where nvJitLink is installed."""
        return kernel_reports(self._emitted, self._target, self._cache_dir)

    def _ptx(self, ir_text: str, target: Target) -> str:
        return to_ptx(ir_text, target, self._cache_dir)

    def _sass(self, ir_text: str, target: Target) -> str:
        return to_sass(assemble_kernel(self._ptx(ir_text, target), target.cpu, self._cache_dir).cubin)

    def _thunks(self) -> str:
        kernels = self._emitted.program.kernels.values()
        launches = "".join(f"kernel @{kernel.name}: {kernel.launch}\n" for kernel in kernels)
        return program_to_string(self._emitted.program.thunks) + launches

    def _of_kernels(self, compiled: Callable[[str, Target], str]) -> str:
        kernels = self._emitted.program.kernels.values()
        return "\n".join(compiled(kernel.ir_text, self._target) for kernel in kernels)


class SimulatedExecutable(CompiledGpuModule):
    """A module whose kernels the host runs, thread by thread: slow, and right where a GPU would be.

    With `sanitize` every call checks all accesses.
    """

    def __init__(
        self,
        optimized: OptimizedModule,
        emitted: EmittedGpuModule,
        target: Target,
        seconds: dict[str, float],
        cache_dir: str | None = None,
        sanitize: bool = False,
    ) -> None:
        super().__init__(optimized, emitted, target, seconds, cache_dir)
        self._sanitize = sanitize

    def __call__(self, *arguments: Any, donate: int | Iterable[int] = (), out: Any = None) -> Any:
        """Takes and returns NumPy arrays, as an executable for CPUs does. Errors: as of `run` if it is to sanitize."""
        return self._call(*arguments, donate=donate, out=out)

    def run(self, *arguments: Any, sanitize: bool = False, reverse: bool = False) -> Any:
        """Runs with every access checked, or threads and blocks from the last to the first.

        Errors: SimulationError names the kernel and what is wrong.
        """
        call = SimulatedCall(self.program, run_lapack, sanitize=sanitize, reverse=reverse, cache_dir=self._cache_dir)
        return (self._refused or ConvertingCall(self.program, call))(*arguments)

    def run_at(self, parameters: Sequence[int], results: Sequence[int], device: Device | None = None) -> None:
        """Runs on memory at addresses, in the layouts of the program. `device`: this one, of several."""
        self._call_of(device).run_at(parameters, results)

    def execute_sharded(self, inputs_per_device: Sequence[Sequence[Any]]) -> list[Any]:
        """Runs a program of several devices: a list of arguments per device in, a list of results out."""

        def run_device(device: Device, inputs: Sequence[Any]) -> Any:
            return (refused_call(self.program) or ConvertingCall(self.program, self._call_of(device)))(*inputs)

        return ShardedGpuCall(self.program, run_device)(inputs_per_device)

    @cached_property
    def _call(self) -> Callable[..., Any]:
        call = self._call_of(None)
        return self._refused or ConvertingCall(self.program, call, call.run)

    def _call_of(self, device: Device | None) -> SimulatedCall:
        return SimulatedCall(
            self.program, run_lapack, sanitize=self._sanitize, cache_dir=self._cache_dir, device=device
        )

    @cached_property
    def _refused(self) -> Callable[..., Any] | None:
        return refused_on_one_device(self.program) or refused_call(self.program)


class DeviceExecutable(CompiledGpuModule):
    """A module on a GPU. `CudaExecutable` says what calls take and return."""

    def __init__(self, compiled: CompiledGpuModule, driver_of: Callable[[int], CudaDriver]) -> None:
        super().__init__(
            compiled._optimized, compiled._emitted, compiled._target, compiled.compile_seconds, compiled._cache_dir
        )
        self._loading = threading.Lock()
        self._images_for: dict[str, dict[str, bytes]] = {}  # by architecture, then by kernel
        self._loaded: dict[CudaDriver, CudaExecutable] = {}
        self._executables = [self.executable_on(driver_of(number)) for number in range(self.program.num_devices)]

    def executable_on(self, driver: CudaDriver) -> CudaExecutable:
        """Returns the program on one GPU, which loads it when it is asked for the first time."""
        with self._loading:
            if driver not in self._loaded:
                self._loaded[driver] = CudaExecutable(self.program, self._images(driver.architecture), driver)
            return self._loaded[driver]

    def _images(self, architecture: str) -> dict[str, bytes]:
        if architecture not in self._images_for:
            kernels = self._emitted.program.kernels
            texts = {name: self._ptx(kernel.ir_text, self._target) for name, kernel in kernels.items()}
            self._images_for[architecture] = {
                name: kernel_image(ptx, architecture, self._cache_dir) for name, ptx in texts.items()
            }
        return self._images_for[architecture]

    @property
    def _executable(self) -> CudaExecutable:
        if refuse := refused_on_one_device(self.program):
            refuse()
        return self._executables[0]

    def __call__(self, *arguments: Any, stream: Any = None, donate: int | Iterable[int] = ()) -> Any:
        """Takes NumPy arrays or arrays on the device; `stream` is where it runs. See `CudaExecutable`."""
        return self._executable(*arguments, stream=stream, donate=donate)

    def execute_sharded(self, inputs_per_device: Sequence[Sequence[Any]]) -> list[Any]:
        """Runs a program on as many GPUs as it has devices: arguments of each in, results of each out."""

        call = ShardedGpuCall(self.program, lambda d, inputs: self._executables[d.number](*inputs, device=d))
        return call(inputs_per_device)

    def to_device(self, *arguments: Any) -> tuple[DeviceArray, ...]:
        """Returns the arguments of a call as arrays on the device, one per leaf."""
        return self._executable.to_device(*arguments)

    def kernel_seconds(self, *arguments: Any) -> list[tuple[str, float]]:
        """Returns the instruction and the time on the device of each step of one call, measured there."""
        return [(thunk.instruction, seconds) for thunk, seconds in profile_kernels(self._executable, *arguments)]

    def capture(self, *arguments: Any) -> CapturedCall:
        """Returns one call on these arrays on the device as a CUDA graph. Errors: as of `CudaExecutable.capture`."""
        return self._executable.capture(*arguments)


GpuExecutable = SimulatedExecutable | DeviceExecutable


@collector_pause
def compile_for_gpu(
    module: HloModule,
    architecture: str,
    options: CompileOptions,
    is_private: bool = False,
    pickers: Sequence[HloModulePass] = (),
) -> SimulatedExecutable:
    """Compiles a module, which is left as it is, for a GPU such as "sm_90"; `is_private`: see `compile_module`.

    `pickers` choose algorithms of its calls of libraries. Errors: InvalidArgument for another one.
    """
    target = Target.for_gpu(architecture or DEFAULT_GPU)
    seconds: dict[str, float] = {}
    phase = Phases(options.progress, seconds)
    phase("verify")
    check_compilable(module)
    optimized = optimize_module(module, text_of(module, is_private), options, partial(_PASSES, pickers=pickers), phase)
    phase("emit")
    emitted = emit_gpu_module(optimized.assignment, target, options.deterministic, optimized.verify)
    phase("")
    compiled = SimulatedExecutable(optimized, emitted, target, seconds, options.cache_dir, options.sanitize)
    if optimized.dump is not None:
        for suffix, stage in _DUMPED_STAGES.items():
            optimized.dump.write(suffix, compiled.as_text(stage))
    return compiled


def load_for_gpu(
    module: HloModule, kind: str, architecture: str, options: CompileOptions, is_private: bool = False
) -> GpuExecutable:
    """Compiles a module for what is to run it; `is_private`: see `compile_module`.

    Errors: FailedPrecondition if that takes a GPU, and there is none, or a library that is not installed.
    """
    if kind == SIMULATED:
        return compile_for_gpu(module, architecture, options, is_private)
    try:
        driver = cuda_driver()
    except FailedPrecondition as error:
        hint = "`xjit opt --target cuda --stage ptx` prints the code; target 'cuda-sim' runs it on the host"
        raise FailedPrecondition(error.message, None, hint) from error
    options = replace(options, xla_gpu_enable_cublaslt=has_cublaslt(options.xla_gpu_enable_cublaslt))
    pickers = product_pickers(driver, options)
    compiled = compile_for_gpu(module, architecture or driver.architecture, options, is_private, pickers)
    return DeviceExecutable(compiled, cuda_driver)


_DUMPED_STAGES = {
    "after_optimizations.txt": "optimized-hlo",
    "buffer-assignment.txt": "buffer-assignment",
    "thunks.txt": "thunks",
    "schedule.txt": "schedule",
    "ll": "llvm",
    "ptx": "ptx",
}
