"""A module compiled for a CPU: the program that runs, and all that its makers and readers ask about it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from xjit.compile_options import CompileOptions
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.cpu_module import EmittedModule, loop_target
from xjit.emitters.entry.thunk_steps import emit_thunk_steps
from xjit.emitters.planners.module import schedule_text
from xjit.emitters.planners.plan import PlanContext
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.places import find_place, kernel_sources
from xjit.llvm.partition import with_all_visible
from xjit.llvm.target import Target
from xjit.optimized_module import ModuleText
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework import analyses
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.runtime.calls.thunk_interpreter import OnThunk, ThunkInterpreter
from xjit.runtime.executable import ConvertingCall, CpuExecutable
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import CodegenOptions, compile_modules_to_objects, emit_assembly, optimize_ir
from xjit.runtime.machine_code.linker import load_object
from xjit.runtime.machine_code.symbols import resolve_symbols
from xjit.runtime.program import CpuProgram
from xjit.thunks import program_to_string


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """Bytes that a compiled module takes. Of the results, `alias_size` take none if their parameters are donated.

    Each thread that runs kernels takes `scratch_size` at most beside: blocks of operands and sums.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    constant_size_in_bytes: int
    generated_code_size_in_bytes: int
    scratch_size_in_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Intermediates:
    """What a compilation makes on its way to a program."""

    optimized: HloModule
    assignment: BufferAssignment
    emitted: EmittedModule


class Executable(CpuExecutable):
    """A compiled module: call it with the inputs; ask it for its intermediate forms.

    `intermediates` makes these, which may take a compilation: it is called when they are asked for, and once.
    """

    __slots__ = ("__dict__", "_hlo", "_intermediates", "compile_seconds", "is_from_cache", "options")

    def __init__(self, program: CpuProgram, hlo: ModuleText, intermediates: Callable[[], Intermediates],
                 options: CompileOptions, seconds: dict[str, float], is_from_cache: bool = False) -> None:  # fmt: skip
        once = functools.cache(intermediates)
        super().__init__(program, find_place=lambda name: find_place(once().optimized, name))
        self._hlo = hlo
        self._intermediates = once
        self.is_from_cache = is_from_cache
        self.options = options
        self.compile_seconds = seconds

    def intermediates(self) -> Intermediates:
        """Returns what the compilation made on its way."""
        return self._intermediates()

    @property
    def optimized_module(self) -> HloModule:
        """The module that the kernels are of; not to be changed."""
        return self._intermediates().optimized

    @property
    def _assignment(self) -> BufferAssignment:
        return self._intermediates().assignment

    @property
    def _emitted(self) -> EmittedModule:
        return self._intermediates().emitted

    @cached_property
    def _codegen(self) -> CodegenOptions:
        options = codegen_options(self.options, self.program.cpu, self.program.features)
        return replace(options, opt_level=0) if self._emitted.is_short else options

    @cached_property
    def _linked(self) -> set[str]:
        return {library.name for library in self._emitted.libraries}

    def as_text(self, stage: str = "optimized-hlo") -> str:
        """Returns the module at a stage of compilation; InvalidArgument names the stages if there is no such one."""
        stages: dict[str, Callable[[], str]] = {
            "hlo": self._hlo,
            "optimized-hlo": lambda: str(self.optimized_module),
            "buffer-assignment": lambda: self._assignment.to_text(),
            "thunks": lambda: program_to_string(self._emitted.thunks),
            "schedule": lambda: schedule_text_of(self._assignment, self._emitted.llvm_module.target, self.options),
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
        libraries = (library.make_text() for library in emitted.libraries)
        texts = (*libraries, with_all_visible(emitted.ir_text), steps.to_text())
        objects = compile_modules_to_objects(texts, self._codegen)
        loaded = load_object(objects, list(steps.functions), resolve_symbols(undefined_symbols(objects)))
        place = functools.partial(find_place, self.optimized_module)
        return ThunkInterpreter(self.program, emitted.thunks, loaded, self.entry.constants_address, place)

    @property
    def kernel_sources(self) -> tuple[str, ...]:
        """For each of `kernels`, where the program has it from: "from model.py:12 (jit(f)/dot)"; "" where not known."""
        return kernel_sources(self.optimized_module, [kernel.instruction for kernel in self.kernels])

    def cost_analysis(self) -> dict[str, float]:
        """Returns costs of the optimized module by XLA's names and rules (`HloCostAnalysis`), and an estimated time."""
        module = self.optimized_module
        cost = analyses.get(HloCostAnalysis, module).computation(module.entry_computation)
        return {
            "flops": cost.flops,
            "transcendentals": cost.transcendentals,
            "bytes accessed": cost.bytes_accessed,
            "optimal_seconds": self.program.estimated_us / 1e6,
        }

    def memory_analysis(self) -> MemoryAnalysis:
        """Returns the sizes of arguments, results, aliased results, temporary memory, constants, code and scratch."""
        program = self.program
        return MemoryAnalysis(
            sum(p.byte_size for p in program.parameters),
            sum(r.byte_size for r in program.results),
            self._assignment.alias_bytes,
            program.arena_size,
            sum(constant.nbytes for constant in program.constants),
            sum(map(len, program.object_code)),
            max((kernel.scratch_bytes for kernel in program.kernels), default=0),
        )


def schedule_text_of(assignment: BufferAssignment, target: Target, options: CompileOptions) -> str:
    """Returns what the kernels of a module do: the stage "schedule"."""
    context = PlanContext(loop_target(assignment.module, target, options.unoptimized_us), MapCache())
    return schedule_text(assignment, context, inline=not options.profile)


def codegen_options(options: CompileOptions, cpu: str, features: str) -> CodegenOptions:
    """Returns how to generate a program's code."""
    return CodegenOptions(options.opt_level, cpu=cpu, features=features, cache_dir=options.cache_dir)
