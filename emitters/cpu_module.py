"""An HLO module with its buffer assignment -> the text of LLVM modules, and what the runtime must know about it.

There is one module for what is compiled here; when it is big, it is handed out in parts while it is emitted, so that
code generation can go on at the same time, in several threads. And there is one for each library (GEMMs, stages of
FFTs), whose text is the same in every program, so that the runtime compiles it once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from xjit.dataclass import dataclass
from xjit.emitters.entry.native_entry import NativeEntryEmitter
from xjit.emitters.entry.time_estimate import estimate_ns
from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.kernels.table import emit_kernels
from xjit.emitters.unnested import IrEmitterUnnested, UnnestedModule
from xjit.hlo.ir.module import HloModule
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.llvm.partition import LibrarySink, PartSink, PartWriter
from xjit.llvm.target import Target
from xjit.llvm.types import FLOAT
from xjit.passes.analysis.unoptimized_time import takes_less
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment
from xjit.thunks import ThunkProgram

ENTRY_SYMBOL = "xjit_entry"
NS_PER_US = 1000.0


@dataclass(frozen=True, slots=True)
class EmittedModule:
    """Thunks and LLVM IR of a whole module. `estimated_us` is one thread's time.

    It calls functions of `libraries`. Code that `is_short` is not worth optimizing.
    """

    llvm_module: Module
    libraries: tuple[Library, ...]
    entry: str
    unnested: UnnestedModule
    estimated_us: float
    is_short: bool = False

    @property
    def thunks(self) -> ThunkProgram:
        """What the module runs."""
        return self.unnested.program

    @property
    def ir_text(self) -> str:
        """The module in one piece, without libraries: to be read."""
        return self.llvm_module.to_text()


def is_short(module: HloModule, target: Target, unoptimized_us: float) -> bool:
    """Whether a scheduled module is among those that are not to be optimized: see CompileOptions."""
    return takes_less(module, unoptimized_us * NS_PER_US, target.vector_width(FLOAT))


def loop_target(module: HloModule, target: Target, unoptimized_us: float) -> Target:
    """Returns what a module's kernels are written for: without vectors, where it is short without them, too."""
    return replace(target, scalar_loops=takes_less(module, unoptimized_us * NS_PER_US))


def emit_cpu_module(
    assignment: BufferAssignment,
    target: Target,
    sink: PartSink,
    library_sink: LibrarySink,
    profile: bool = False,
    verify: bool = False,
    unoptimized_us: float = 0.0,
) -> EmittedModule:
    """Emits every kernel of a scheduled, buffer-assigned module, and the native entry that runs its thunks.

    `sink` gets the texts to compile, which together define what `ir_text` does, `library_sink` the libraries. With
    `profile`, every kernel call adds its cycles to its counter among the context's `profile_counters`, and nothing is
    code in line. `verify`: see IrEmitterUnnested. `unoptimized_us`: see CompileOptions.

    Errors: Unsupported names the instruction that has no emitter.
    """
    llvm_module = Module(assignment.module.name, target)
    parts = PartWriter(llvm_module, sink, library_sink)
    context = KernelContext(llvm_module, loop_target(assignment.module, target, unoptimized_us))
    emit = partial(emit_kernels, context)
    unnested = IrEmitterUnnested(emit, assignment, parts.advance, inline=not profile, verify=verify).emit()
    NativeEntryEmitter(context, unnested, parts, profile).emit(ENTRY_SYMBOL)
    estimated_us = estimate_ns(unnested.program) / NS_PER_US
    short = context.target.scalar_loops or is_short(assignment.module, target, unoptimized_us)
    parts.finish(short)
    libraries = tuple(llvm_module.libraries.values())
    return EmittedModule(llvm_module, libraries, ENTRY_SYMBOL, unnested, estimated_us, short)
