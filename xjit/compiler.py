"""From a module to something that runs: passes, buffer assignment, emitters, LLVM, executable."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from xjit.affine import tile_array
from xjit.dump import CompilationDump
from xjit.emitters.access_analysis import MapCache
from xjit.emitters.cpu_module import EmittedModule, emit_cpu_module
from xjit.emitters.kernels.calls.registered_call import KIND as CUSTOM_CALL
from xjit.emitters.planners.module import schedule_text
from xjit.emitters.planners.plan import PlanContext
from xjit.emitters.thunk_steps import emit_thunk_steps
from xjit.emitters.time_estimate import may_run_for_ever
from xjit.flags import flags_from_environment
from xjit.hlo.collector_pause import collector_pause
from xjit.hlo.diagnostics import CompileError, InvalidArgument
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.places import find_place
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape
from xjit.llvm.partition import PartKind, PartSink, with_all_visible
from xjit.llvm.target import Target
from xjit.ops.replica_groups import check_one_device
from xjit.ops.verifier import verify_module
from xjit.passes import PASSES, PassDriver, PassSwitches, find_pass
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.calls_and_control.flatten_call_graph import check_call_tree
from xjit.passes.framework import analyses
from xjit.passes.framework.driver import refuse_if_required
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.pipelines import PipelineOptions, cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment, assign_buffers, physical_byte_size
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
from xjit.runtime.physical_layout import array_signature
from xjit.runtime.program import ArraySignature, CpuProgram, KernelInfo, LeafTree
from xjit.runtime.symbols import resolve_symbols
from xjit.runtime.thread_pool import default_num_threads
from xjit.runtime.thunk_interpreter import OnThunk, ThunkInterpreter
from xjit.thunks import program_to_string

TARGETS = ("cpu",)
PLANNED_TARGETS = ("cuda", "cuda-sim")
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of `xjit.compile`.

    `cpu_level` restricts the instruction set ("sse2", "sse4.2", "avx2", "avx512"; empty: the host's). `opt_level` is
    that of LLVM's code generator. `fusion` can be turned off to see every instruction as a kernel of its own. `profile`
    counts the cycles of every kernel call. `progress` is told each phase as it starts. Errors: InvalidArgument for an
    unknown level or pass. What XJIT_FLAGS says (`xjit.flags`) comes on top.
    """

    cpu_level: str = ""
    opt_level: int = 2
    fusion: bool = True
    disabled_passes: tuple[str, ...] = ()
    keep_intermediate_layouts: bool = False
    profile: bool = False
    progress: Progress | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.cpu_level:
            Target.for_features(self.cpu_level)
        if self.opt_level not in range(4):
            raise InvalidArgument(f"opt_level is {self.opt_level!r}, expected 0, 1, 2 or 3")
        if isinstance(self.disabled_passes, str):
            raise InvalidArgument(f"disabled_passes is the string '{self.disabled_passes}', expected a tuple of names")
        object.__setattr__(self, "disabled_passes", tuple(self.disabled_passes))
        for name in self.disabled_passes:
            refuse_if_required(find_pass(PASSES, name))


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
        The first use compiles the program again, with the kernels visible. Errors: as of a call.
        """
        return ConvertingCall(self.program, functools.partial(self._interpreter, on_thunk=on_thunk))(*arguments)

    @cached_property
    def _interpreter(self) -> ThunkInterpreter:
        emitted = self._emitted
        steps = emit_thunk_steps(emitted.unnested, emitted.llvm_module)
        texts = (*emitted.library_texts, with_all_visible(emitted.ir_text), steps.to_text())
        objects = compile_modules_to_objects(texts, self._codegen)
        loaded = load_object(objects, list(steps.functions), resolve_symbols(undefined_symbols(objects)))
        place = functools.partial(find_place, self._optimized_hlo)
        return ThunkInterpreter(self.program, emitted.thunks, loaded, self.constants_address, place)

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


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A module with its passes run and its buffers assigned: all that comes before code."""

    hlo: str
    optimized: HloModule
    assignment: BufferAssignment
    target: Target
    dump: CompilationDump | None


@collector_pause
def compile_module(module: HloModule, target: str, options: CompileOptions) -> Executable:
    """Compiles a module (which is left as it is) for a target."""
    seconds: dict[str, float] = {}
    phase = _Phases(options.progress if isinstance(options, CompileOptions) else None, seconds)
    prepared = _prepare(module, target, options, phase)
    optimized, assignment, cpu_target = prepared.optimized, prepared.assignment, prepared.target
    phase("emit")
    codegen = CodegenOptions(options.opt_level, cpu=cpu_target.cpu, features=cpu_target.features)
    with ProgramCompiler(codegen) as compiler:
        threads = default_num_threads()
        emitted = emit_cpu_module(assignment, cpu_target, _compile_parts(compiler), options.profile, threads)
        phase("generate code")  # what is left of it
        object_code = compiler.objects()
    phase("load")
    program = make_program(optimized, assignment, emitted, object_code, cpu_target, options.profile)
    executable = Executable(program, prepared.hlo, optimized, assignment, emitted, options, seconds)
    if module.instruction_count > LARGE_MODULE:
        _freeze_at_exit()
    phase("")
    if prepared.dump is not None:
        for suffix, stage in _DUMPED_STAGES.items():
            prepared.dump.write(suffix, executable.as_text(stage))
    return executable


@collector_pause
def plan_text(module: HloModule, target: str, options: CompileOptions) -> str:
    """Returns the stage "schedule" of a module: what its kernels will do. No code is made."""
    prepared = _prepare(module, target, options, _Phases(None, {}))
    return _schedule_text(prepared.assignment, prepared.target, options)


def _schedule_text(assignment: BufferAssignment, target: Target, options: CompileOptions) -> str:
    context = PlanContext(target, MapCache(), default_num_threads())
    return schedule_text(assignment, context, inline=not options.profile)


def _prepare(module: HloModule, target: str, options: CompileOptions, phase: Callable[[str], None]) -> _Prepared:
    """Verifies a module and optimizes a copy of it."""
    if not isinstance(options, CompileOptions):
        raise InvalidArgument(f"options is a {type(options).__name__}, expected xjit.CompileOptions(...)")
    if target not in TARGETS:
        if target in PLANNED_TARGETS:
            raise InvalidArgument(f"target '{target}' is not available yet: this version compiles for 'cpu'")
        raise InvalidArgument(f"unknown target '{target}': expected one of {', '.join(TARGETS)}")
    phase("verify")
    verify_module(module, allow_mixed_precision=False)
    check_one_device(module)
    check_call_tree(module)
    with_text = str(module)
    phase("optimize")
    flags = flags_from_environment()
    dump = CompilationDump(flags.dump_to, module, flags.dump_hlo_pass_re) if flags.dump_to else None
    if dump is not None:
        dump.write("before_optimizations.txt", with_text)
    optimized = module.clone("")
    optimized.clear_schedule()  # of a module that came scheduled: the pipeline changes the graph, and orders it anew
    cpu_target = Target.for_features(options.cpu_level) if options.cpu_level else Target.host()
    pipeline_options = PipelineOptions(fuse=options.fusion, keep_intermediate_layouts=options.keep_intermediate_layouts)
    disabled = (*options.disabled_passes, *(find_pass(PASSES, name).name for name in flags.disable_hlo_passes))
    hook = dump.on_pass if dump is not None else None
    checkers = (HloVerifier(),) if flags.verify_passes else ()
    PassDriver(PassSwitches.of(disabled), checkers, dump=hook).run(cpu_pipeline(pipeline_options), optimized)
    phase("assign buffers")
    assignment = assign_buffers(optimized)
    _check_memory(optimized, assignment, module.entry_computation.root_instruction)
    return _Prepared(with_text, optimized, assignment, cpu_target, dump)


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


def _check_memory(module: HloModule, assignment: BufferAssignment, root: HloInstruction) -> None:
    """Refuses a program that cannot run here, before anything of that size is allocated or written."""
    entry = module.entry_computation
    sizes = {
        "arguments": sum(_byte_size(p.shape) for p in entry.parameter_instructions),
        "results": _byte_size(entry.root_instruction.shape),
        "temporary values": assignment.arena_size,
    }
    if sum(sizes.values()) > MAX_PROGRAM_BYTES:
        parts = ", ".join(f"{size:,} of {what}" for what, size in sizes.items())
        raise CompileError(
            f"module '{module.name}' needs {sum(sizes.values()):,} bytes ({parts}); "
            f"this machine can give it {MAX_PROGRAM_BYTES:,}",
            root.span,
        )


def _byte_size(shape: Shape) -> int:
    return sum(physical_byte_size(leaf) for _, leaf in shape.leaves() if leaf.is_array)


def _physical_memory() -> int:
    """Bytes of memory of this machine; 2^40 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 40


MAX_PROGRAM_BYTES = _physical_memory()


class _Phases:
    """Times the phases of a compilation and reports them."""

    def __init__(self, progress: Progress | None, seconds: dict[str, float]) -> None:
        self._progress = progress
        self._seconds = seconds
        self._name = ""
        self._start = time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        if self._name:
            self._seconds[self._name] = now - self._start
        self._name, self._start = name, now
        if name and self._progress is not None:
            self._progress(name)


def make_program(
    module: HloModule,
    assignment: BufferAssignment,
    emitted: EmittedModule,
    object_code: tuple[bytes, ...],
    target: Target,
    profile: bool = False,
) -> CpuProgram:
    """Puts together what the runtime needs."""
    entry = module.entry_computation
    parameters: list[ArraySignature] = []
    parameter_tree = tuple(_signatures(p.shape, p.name, parameters) for p in entry.parameter_instructions)
    results: list[ArraySignature] = []
    result_tree = _signatures(entry.root_instruction.shape, "result", results)
    kernels = tuple(
        KernelInfo(thunk.kernel, thunk.kind, thunk.instruction, thunk.bytes_accessed, thunk.flops)
        for thunk in emitted.thunks.kernel_thunks
    )
    return CpuProgram(
        name=module.name,
        object_code=object_code,
        entry=emitted.entry,
        parameters=tuple(parameters),
        parameter_tree=parameter_tree,
        results=tuple(results),
        result_tree=result_tree,
        arena_size=assignment.arena_size,
        constants=tuple(physical_constant(literal) for literal in assignment.constants),
        external_symbols=tuple(sorted(undefined_symbols(object_code))),
        estimated_us=emitted.estimated_us,
        always_releases_gil=any(k.kind == CUSTOM_CALL for k in kernels) or may_run_for_ever(emitted.thunks),
        kernels=kernels,
        instructions=tuple(kernel.instruction for kernel in kernels),
        profile_counters=len(kernels) if profile else 0,
        aliases=tuple(sorted(assignment.aliases)),
        cpu=target.cpu,
        features=target.features,
    )


def physical_constant(literal: Literal) -> np.ndarray[Any, Any]:
    """Returns a literal's elements in memory order."""
    shape = literal.shape
    tiles = shape.layout.tile_dimensions if shape.layout else ()
    data = tile_array(literal.array, shape.minor_to_major, tiles)
    return np.pad(data, (0, physical_byte_size(shape) // data.itemsize - data.size))


def _signatures(shape: Shape, name: str, leaves: list[ArraySignature]) -> LeafTree:
    """Appends the signatures of a shape's leaves; returns the tree of their numbers (tokens are empty tuples)."""
    if shape.is_tuple:
        return tuple(_signatures(s, f"{name}{{{i}}}", leaves) for i, s in enumerate(shape.tuple_shapes))
    if not shape.is_array:
        return ()
    leaves.append(array_signature(shape, name))
    return len(leaves) - 1
