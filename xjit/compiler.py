"""From a module to something that runs: passes, buffer assignment, emitters, LLVM, executable."""

from __future__ import annotations

import atexit
import functools
import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xjit.compile_options import CompileOptions
from xjit.emitters.access_analysis import MapCache
from xjit.emitters.cpu_module import EmittedModule, emit_cpu_module
from xjit.emitters.kernels.calls.registered_call import KIND as CUSTOM_CALL
from xjit.emitters.kernels.collectives.collective import KIND as COLLECTIVE
from xjit.emitters.planners.module import schedule_text
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.thunk_steps import emit_thunk_steps
from xjit.emitters.time_estimate import may_run_for_ever
from xjit.gpu_compiler import (
    GPU_TARGETS,
    SIMULATED,
    GpuExecutable,
    compile_for_gpu,
    load_for_gpu,
    split_gpu_target,
)
from xjit.hlo.collector_pause import collector_pause
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.places import find_place, kernel_sources
from xjit.llvm.partition import PartKind, PartSink, with_all_visible
from xjit.llvm.target import Target
from xjit.ops.replica_groups import device_count
from xjit.optimized_module import Phases, call_signature, optimize_module, physical_constant
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework import analyses
from xjit.passes.pipelines import cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.runtime.elf import undefined_symbols
from xjit.runtime.executable import ConvertingCall, CpuExecutable
from xjit.runtime.ir_check import defined_symbols
from xjit.runtime.jit import (
    CodegenOptions,
    ProgramCompiler,
    compile_modules_to_objects,
    emit_assembly,
    load_object,
    optimize_ir,
)
from xjit.runtime.program import CpuProgram, KernelInfo
from xjit.runtime.symbols import resolve_symbols
from xjit.runtime.thread_pool import default_num_threads
from xjit.runtime.thunk_interpreter import OnThunk, ThunkInterpreter
from xjit.thunks import program_to_string

TARGETS = ("cpu", *GPU_TARGETS)


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """Bytes that a compiled module takes. Of the results, `alias_size` take none if their parameters are donated."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    constant_size_in_bytes: int
    generated_code_size_in_bytes: int


class Executable(CpuExecutable):
    """A compiled module: call it with the inputs; ask it for its intermediate forms."""

    __slots__ = ("__dict__", "_assignment", "_emitted", "_hlo", "_optimized_hlo", "compile_seconds", "options")

    def __init__(self, program: CpuProgram, hlo: str, optimized: HloModule, assignment: BufferAssignment,
                 emitted: EmittedModule, options: CompileOptions, seconds: dict[str, float]) -> None:  # fmt: skip
        super().__init__(program, find_place=functools.partial(find_place, optimized))
        self._hlo = hlo
        self._optimized_hlo = optimized
        self._assignment = assignment
        self._emitted = emitted
        self.options = options
        self.compile_seconds = seconds

    @cached_property
    def _codegen(self) -> CodegenOptions:
        return CodegenOptions(self.options.opt_level, cpu=self.program.cpu, features=self.program.features)

    @cached_property
    def _linked(self) -> set[str]:
        return set[str]().union(*map(defined_symbols, self._emitted.library_texts))

    @property
    def optimized_module(self) -> HloModule:
        """The module that the kernels are of; not to be changed."""
        return self._optimized_hlo

    def as_text(self, stage: str = "optimized-hlo") -> str:
        """Returns the module at a stage of compilation; InvalidArgument names the stages if there is no such one."""
        stages: dict[str, Callable[[], str]] = {
            "hlo": lambda: self._hlo,
            "optimized-hlo": lambda: str(self._optimized_hlo),
            "buffer-assignment": self._assignment.to_text,
            "thunks": lambda: program_to_string(self._emitted.thunks),
            "schedule": lambda: _schedule_text(self._assignment, self._emitted.llvm_module.target, self.options),
            "llvm": lambda: self._emitted.ir_text,
            "llvm-opt": lambda: optimize_ir(self._emitted.ir_text, self._codegen, linked_symbols=self._linked),
            "asm": lambda: emit_assembly(self._emitted.ir_text, self._codegen, self._linked),
        }
        if stage not in stages:
            raise InvalidArgument(f"unknown stage '{stage}': expected one of {', '.join(stages)}")
        return stages[stage]()

    def run_thunks(self, *arguments: Any, on_thunk: OnThunk | None = None) -> Any:
        """Runs as a call does, but thunk by thunk from Python: slow, in one thread, with bitwise the same results.

        `on_thunk` is called after each step with a `ThunkStep`: what ran, for how long, which arrays it read and wrote.
        The first use compiles the program again, with the kernels visible. Errors: as of a call, and
        InvalidArgument for a program of several devices.
        """
        if self.program.num_devices > 1:
            raise InvalidArgument(f"program {self.name!r} runs on {self.program.num_devices} devices, not step by step")
        return ConvertingCall(self.program, functools.partial(self._interpreter, on_thunk=on_thunk))(*arguments)

    @cached_property
    def _interpreter(self) -> ThunkInterpreter:
        emitted = self._emitted
        steps = emit_thunk_steps(emitted.unnested, emitted.llvm_module)
        texts = (*emitted.library_texts, with_all_visible(emitted.ir_text), steps.to_text())
        objects = compile_modules_to_objects(texts, self._codegen)
        loaded = load_object(objects, list(steps.functions), resolve_symbols(undefined_symbols(objects)))
        place = functools.partial(find_place, self._optimized_hlo)
        return ThunkInterpreter(self.program, emitted.thunks, loaded, self.entry.constants_address, place)

    @property
    def kernel_sources(self) -> tuple[str, ...]:
        """For each of `kernels`, where the program has it from: "from model.py:12 (jit(f)/dot)"; "" where not known."""
        return kernel_sources(self._optimized_hlo, [kernel.instruction for kernel in self.kernels])

    def cost_analysis(self) -> dict[str, float]:
        """Returns costs of the optimized module by XLA's names and rules (`HloCostAnalysis`), and an estimated time."""
        cost = analyses.get(HloCostAnalysis, self._optimized_hlo).computation(self._optimized_hlo.entry_computation)
        return {
            "flops": cost.flops,
            "transcendentals": cost.transcendentals,
            "bytes accessed": cost.bytes_accessed,
            "optimal_seconds": self._emitted.estimated_us / 1e6,
        }

    def memory_analysis(self) -> MemoryAnalysis:
        """Returns the sizes of arguments, results, aliased results, temporary memory, constants and code, in bytes."""
        program = self.program
        code = program.object_code if isinstance(program.object_code, bytes) else b"".join(program.object_code)
        return MemoryAnalysis(
            sum(p.byte_size for p in program.parameters),
            sum(r.byte_size for r in program.results),
            self._assignment.alias_bytes,
            program.arena_size,
            sum(len(c) if isinstance(c, bytes) else c.nbytes for c in program.constants),
            len(code),
        )


_MAY_CALL_PYTHON = (CUSTOM_CALL, COLLECTIVE)

LARGE_MODULE = 10_000
"""Instructions. The exit of a process that holds a module of 30,000 took 2.2 s, and 0.14 s with `gc.freeze`."""

_DUMPED_STAGES = {
    "after_optimizations.txt": "optimized-hlo",
    "buffer-assignment.txt": "buffer-assignment",
    "thunks.txt": "thunks",
    "schedule.txt": "schedule",
    "ll": "llvm",
    "s": "asm",
}


def compile_module(module: HloModule, target: str, options: CompileOptions) -> Executable | GpuExecutable:
    """Compiles a module (which is left as it is) for a target: "cpu", or "cuda-sim:sm_90".

    Errors: InvalidArgument for another target; FailedPrecondition if it cannot run here.
    """
    _check(target, options)
    gpu = split_gpu_target(target)
    return compile_for_cpu(module, options) if gpu is None else load_for_gpu(module, *gpu, options)


def stage_text(module: HloModule, target: str, options: CompileOptions, stage: str) -> str:
    """Returns a stage of a module's compilation. That of a GPU's code takes none."""
    _check(target, options)
    gpu = split_gpu_target(target)
    if gpu is not None:
        return compile_for_gpu(module, gpu[1], options).as_text(stage)
    if stage == "schedule":
        return plan_text(module, options)
    return compile_for_cpu(module, options).as_text(stage)


def _check(target: str, options: CompileOptions) -> None:
    if not isinstance(options, CompileOptions):
        raise InvalidArgument(f"options is a {type(options).__name__}, expected xjit.CompileOptions(...)")
    if target != "cpu" and split_gpu_target(target) is None:
        raise InvalidArgument(f"unknown target '{target}': expected one of {', '.join(TARGETS)}")
    if options.sanitize and (split_gpu_target(target) or ("",))[0] != SIMULATED:
        raise InvalidArgument(f"target '{target}' cannot sanitize: only '{SIMULATED}' checks accesses")


@collector_pause
def compile_for_cpu(module: HloModule, options: CompileOptions) -> Executable:
    """Compiles a module for this machine's CPU, or one of `options.cpu_level`."""
    seconds: dict[str, float] = {}
    phase = Phases(options.progress, seconds)
    prepared = optimize_module(module, options, cpu_pipeline, phase, several_devices=True)
    optimized, assignment, cpu_target = prepared.module, prepared.assignment, _cpu_target(options)
    phase("emit")
    codegen = CodegenOptions(options.opt_level, cpu=cpu_target.cpu, features=cpu_target.features)
    with ProgramCompiler(codegen) as compiler:
        threads = default_num_threads()
        sink = _compile_parts(compiler)
        emitted = emit_cpu_module(assignment, cpu_target, sink, options.profile, threads, prepared.verify)
        phase("generate code")  # what is left of it
        object_code = compiler.objects()
    phase("load")
    program = make_program(optimized, assignment, emitted, object_code, cpu_target, options.profile)
    executable = Executable(program, prepared.text, optimized, assignment, emitted, options, seconds)
    if module.instruction_count > LARGE_MODULE:
        _freeze_at_exit()
    phase("")
    if prepared.dump is not None:
        for suffix, stage in _DUMPED_STAGES.items():
            prepared.dump.write(suffix, executable.as_text(stage))
    return executable


@collector_pause
def plan_text(module: HloModule, options: CompileOptions) -> str:
    """Returns the stage "schedule" of a module: what its kernels will do. No code is made."""
    prepared = optimize_module(module, options, cpu_pipeline, Phases(None, {}), several_devices=True)
    return _schedule_text(prepared.assignment, _cpu_target(options), options)


def _schedule_text(assignment: BufferAssignment, target: Target, options: CompileOptions) -> str:
    context = PlanContext(target, MapCache(), default_num_threads())
    return schedule_text(assignment, context, inline=not options.profile)


def _cpu_target(options: CompileOptions) -> Target:
    return Target.for_features(options.cpu_level) if options.cpu_level else Target.host()


@functools.cache
def _freeze_at_exit() -> None:
    """Spares the end of the process the collections that walk over large graphs: seconds, which free nothing."""
    atexit.register(gc.freeze)


def _compile_parts(compiler: ProgramCompiler) -> PartSink:
    def sink(text: str, kind: PartKind) -> None:
        level = 0 if kind is PartKind.COLD else None
        is_library, is_last = kind is PartKind.LIBRARY, kind is PartKind.WHOLE
        compiler.add(text, is_library=is_library, opt_level=level, is_last=is_last)

    return sink


def make_program(
    module: HloModule,
    assignment: BufferAssignment,
    emitted: EmittedModule,
    object_code: tuple[bytes, ...],
    target: Target,
    profile: bool = False,
) -> CpuProgram:
    """Puts together what the runtime needs."""
    parameters, parameter_tree, results, result_tree = call_signature(module)
    config = module.config
    replicas, partitions = (config.replica_count, config.num_partitions) if device_count(module) > 1 else (1, 1)
    kernels = tuple(
        KernelInfo(thunk.kernel, thunk.kind, thunk.instruction, thunk.bytes_accessed, thunk.flops)
        for thunk in emitted.thunks.kernel_thunks
    )
    return CpuProgram(
        name=module.name,
        object_code=object_code,
        entry=emitted.entry,
        parameters=parameters,
        parameter_tree=parameter_tree,
        results=results,
        result_tree=result_tree,
        arena_size=assignment.arena_size,
        constants=tuple(physical_constant(literal) for literal in assignment.constants),
        external_symbols=tuple(sorted(undefined_symbols(object_code))),
        estimated_us=emitted.estimated_us,
        always_releases_gil=any(k.kind in _MAY_CALL_PYTHON for k in kernels) or may_run_for_ever(emitted.thunks),
        kernels=kernels,
        instructions=tuple(kernel.instruction for kernel in kernels),
        profile_counters=len(kernels) if profile else 0,
        aliases=tuple(sorted(assignment.aliases)),
        cpu=target.cpu,
        features=target.features,
        num_replicas=replicas,
        num_partitions=partitions,
    )
