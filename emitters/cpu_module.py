"""An HLO module with its buffer assignment -> the text of LLVM modules, and what the runtime must know about it.

There is one module for what is compiled here; when it is big, it is handed out in parts while it is emitted, so that
code generation can go on at the same time, in several threads. And there is one for each library (the GEMMs), whose
text is the same in every program, so that the runtime compiles it once.
"""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.kernels.kernel import KernelContext
from xjit.emitters.time_estimate import estimate_ns
from xjit.emitters.unnested import LaunchedKernel, UnnestedState, emit_entry
from xjit.hlo.ir.module import HloModule
from xjit.llvm.module import Module
from xjit.llvm.partition import PartSink, PartWriter
from xjit.llvm.target import Target
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment

ENTRY_SYMBOL = "xjit_entry"
NS_PER_US = 1000.0


@dataclass(frozen=True, slots=True)
class EmittedModule:
    """LLVM IR of a whole module. `launched` are its kernel calls in order, `estimated_us` one thread's time.

    It calls functions of `library_texts`.
    """

    llvm_module: Module
    library_texts: tuple[str, ...]
    entry: str
    launched: tuple[LaunchedKernel, ...]
    estimated_us: float

    @property
    def ir_text(self) -> str:
        """The module in one piece, without libraries: to be read."""
        return self.llvm_module.to_text()


def emit_cpu_module(
    module: HloModule,
    assignment: BufferAssignment,
    target: Target,
    sink: PartSink,
    profile: bool = False,
    num_threads: int = 1,
) -> EmittedModule:
    """Emits every kernel and every unnested computation of a scheduled, buffer-assigned module.

    `sink` gets the texts to compile, which together define what `ir_text` does, and the libraries. With `profile`,
    every kernel call adds its cycles to its counter among the context's `profile_counters`. `num_threads`: see
    KernelContext.

    Errors: Unsupported names the instruction that has no emitter.
    """
    llvm_module = Module(module.name, target)
    parts = PartWriter(llvm_module, sink)
    state = UnnestedState(KernelContext(llvm_module, target, num_threads), assignment, parts, profile=profile)
    emit_entry(state, module.entry_computation, ENTRY_SYMBOL)
    estimate = estimate_ns(module, state.launched) / NS_PER_US
    parts.finish()
    libraries = tuple(llvm_module.libraries.values())
    return EmittedModule(llvm_module, libraries, ENTRY_SYMBOL, tuple(state.launched), estimate)
