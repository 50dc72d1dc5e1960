"""From a module to something that runs: passes, buffer assignment, emitters, LLVM, executable."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, ForwardRef

from xjit.collector_pause import collector_pause
from xjit.compile_options import CompileOptions
from xjit.cpu_executable import Executable, Intermediates, codegen_options, schedule_text_of
from xjit.emitters.cpu_module import EmittedModule, emit_cpu_module
from xjit.emitters.entry.time_estimate import may_run_for_ever
from xjit.emitters.kernels.calls.registered_call import KIND as CUSTOM_CALL
from xjit.emitters.kernels.collectives.collective import KIND as COLLECTIVE
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.llvm.library import Library
from xjit.llvm.partition import UNOPTIMIZED_PARTS, PartKind, PartSink
from xjit.llvm.target import Target
from xjit.ops.verifier import verify_executable
from xjit.optimized_module import (
    ModuleText,
    Phases,
    call_signature,
    check_compilable,
    device_counts,
    optimize_module,
    physical_constant,
    text_of,
)
from xjit.passes.dynamic.static_interface import dynamic_leaves, is_dynamic, with_static_interface
from xjit.passes.pipelines import cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.program_cache import cached_program, keep_program, program_key
from xjit.runtime.calls.dynamic_call import DynamicCall
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import ProgramCompiler
from xjit.runtime.native.loader import libraries_to_load
from xjit.runtime.program import CpuProgram, KernelInfo
from xjit.targets import SIMULATED, TARGETS, split_gpu_target
from xjit.text.parser import parse_hlo

if TYPE_CHECKING:
    from xjit.gpu_compiler import GpuExecutable as GpuExecutable
else:  # `typing.get_type_hints` imports it: a sixth of all modules
    GpuExecutable = ForwardRef('__import__("xjit.gpu_compiler", fromlist=["GpuExecutable"]).GpuExecutable')

_MAY_CALL_PYTHON = (CUSTOM_CALL, COLLECTIVE)

_DUMPED_STAGES = {
    "after_optimizations.txt": "optimized-hlo",
    "buffer-assignment.txt": "buffer-assignment",
    "thunks.txt": "thunks",
    "schedule.txt": "schedule",
    "ll": "llvm",
    "s": "asm",
}


def compile_module(
    module: HloModule, target: str, options: CompileOptions, is_private: bool = False
) -> Executable | GpuExecutable:
    """Compiles a module (which is left as it is) for a target: "cpu", or "cuda-sim:sm_90".

    A module that nobody changes any more `is_private`: it is kept, and printed only if its text is asked for.
    Errors: InvalidArgument for another target; FailedPrecondition if it cannot run here.
    """
    gpu = _checked_gpu(target, options)
    if gpu is None:
        return compile_for_cpu(module, options, is_private)
    from xjit.gpu_compiler import load_for_gpu  # a sixth of all modules, for GPUs alone

    return load_for_gpu(module, *gpu, options, is_private)


def stage_text(module: HloModule, target: str, options: CompileOptions, stage: str) -> str:
    """Returns a stage of a module's compilation. That of a GPU's code takes none."""
    gpu = _checked_gpu(target, options)
    if gpu is not None:
        from xjit.gpu_compiler import compile_for_gpu

        return compile_for_gpu(module, gpu[1], options).as_text(stage)
    if stage == "schedule":
        return plan_text(module, options)
    return compile_for_cpu(module, options).as_text(stage)


def _checked_gpu(target: str, options: CompileOptions) -> tuple[str, str] | None:
    """Returns the parts of a GPU's target, None for the CPU. Errors: InvalidArgument if options are not for it."""
    if not isinstance(options, CompileOptions):
        raise InvalidArgument(f"options is a {type(options).__name__}, expected xjit.CompileOptions(...)")
    gpu = split_gpu_target(target)
    if target != "cpu" and gpu is None:
        raise InvalidArgument(f"unknown target '{target}': expected one of {', '.join(TARGETS)}")
    if options.sanitize and (gpu is None or gpu[0] != SIMULATED):
        raise InvalidArgument(f"target '{target}' cannot sanitize: only '{SIMULATED}' checks accesses")
    if options.xla_gpu_enable_cublaslt and gpu is None:
        raise InvalidArgument(f"xla_gpu_enable_cublaslt: target '{target}' is no GPU")
    return gpu


@collector_pause
def compile_for_cpu(module: HloModule, options: CompileOptions, is_private: bool = False) -> Executable:
    """Compiles a module for this machine's CPU, or one of `options.cpu_level`; `is_private`: see compile_module."""
    if not is_dynamic(module):
        return _compile_static(module, options, is_private)
    verify_executable(module)
    executable = _compile_static(with_static_interface(module), options, is_private=True)
    entry = module.entry_computation
    parameters = dynamic_leaves([p.shape for p in entry.parameter_instructions])
    results = dynamic_leaves([entry.root_instruction.shape])
    if parameters or results:
        executable.__call__ = DynamicCall(executable.__call__, executable.program, parameters, results)
    return executable


def _compile_static(module: HloModule, options: CompileOptions, is_private: bool) -> Executable:
    seconds: dict[str, float] = {}
    phase = Phases(options.progress, seconds)
    phase("verify")
    check_compilable(module)
    text = text_of(module, is_private)
    key = program_key(text, options, _cpu_target(options))
    program = cached_program(key, options)
    if program is None:
        executable = _compile_anew(module, text, options, seconds, phase)
        keep_program(key, options, executable.program)
    else:
        phase("load")
        again = functools.partial(_intermediates_again, module, text, options)
        executable = Executable(program, text, again, options, seconds, is_from_cache=True)
    phase("")
    return executable


def _intermediates_again(module: HloModule, text: ModuleText, options: CompileOptions) -> Intermediates:
    """Compiles what came from the cache, for those who ask how it was made."""
    unchanged = module if str(module) == text() else parse_hlo(text())
    return _compile_anew(unchanged, text, options, {}, Phases(None, {})).intermediates()


def _compile_anew(
    module: HloModule, text: ModuleText, options: CompileOptions, seconds: dict[str, float], phase: Phases
) -> Executable:
    prepared = optimize_module(module, text, options, cpu_pipeline, phase)
    optimized, assignment, cpu_target = prepared.module, prepared.assignment, _cpu_target(options)
    phase("emit")
    codegen = codegen_options(options, cpu_target.cpu, cpu_target.features)
    with ProgramCompiler(codegen) as compiler:
        for library in libraries_to_load():
            compiler.prepare_library(library)
        sink = _compile_parts(compiler)
        emitted = emit_cpu_module(
            assignment, cpu_target, sink, compiler.add_library, options.profile, prepared.verify, options.unoptimized_us
        )
        phase("generate code")  # what is left of it
        object_code = compiler.objects()
    phase("load")
    program = make_program(optimized, assignment, emitted, object_code, cpu_target, options.profile)
    made = Intermediates(optimized, assignment, emitted)
    executable = Executable(program, text, lambda: made, options, seconds)
    if prepared.dump is not None:
        for suffix, stage in _DUMPED_STAGES.items():
            prepared.dump.write(suffix, executable.as_text(stage))
    return executable


@collector_pause
def optimized_for_cpu(module: HloModule, options: CompileOptions) -> HloModule:
    """Returns a module after the passes of the CPU, scheduled. No code is made."""
    check_compilable(module)
    return optimize_module(module, module.to_string, options, cpu_pipeline, Phases(None, {})).module


@collector_pause
def plan_text(module: HloModule, options: CompileOptions) -> str:
    """Returns the stage "schedule" of a module: what its kernels will do. No code is made."""
    check_compilable(module)
    prepared = optimize_module(module, module.to_string, options, cpu_pipeline, Phases(None, {}))
    return schedule_text_of(prepared.assignment, _cpu_target(options), options)


@collector_pause
def libraries_of(module: HloModule, options: CompileOptions) -> tuple[Library, ...]:
    """Returns the libraries that a module's code calls on a CPU. No code is generated."""
    check_compilable(module)
    prepared = optimize_module(module, module.to_string, options, cpu_pipeline, Phases(None, {}))
    emitted = emit_cpu_module(prepared.assignment, _cpu_target(options), lambda *_: None, lambda _: None)
    return emitted.libraries


def _cpu_target(options: CompileOptions) -> Target:
    target = Target.for_features(options.cpu_level) if options.cpu_level else Target.host()
    return target if options.bf16_planes else replace(target, bf16_planes=False)


def _compile_parts(compiler: ProgramCompiler) -> PartSink:
    def sink(text: str, kind: PartKind) -> None:
        level = 0 if kind in UNOPTIMIZED_PARTS else None
        compiler.add(text, opt_level=level, is_last=kind in (PartKind.WHOLE, PartKind.WHOLE_COLD))

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
    replicas, partitions = device_counts(module)
    kernels = tuple(
        KernelInfo(thunk.kernel, thunk.kind, thunk.instruction, thunk.bytes_accessed, thunk.flops, thunk.scratch_bytes)
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
