"""The simulator's own native code, compiled once per process: scheduler, exchanges, checker."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping

from xjit.llvm import Module
from xjit.llvm.module import Declaration
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I32, PTR, VOID
from xjit.runtime.gpu_sim.checker_ir import define_checker
from xjit.runtime.gpu_sim.exchange_ir import define_exchange
from xjit.runtime.gpu_sim.fields import equal, i32
from xjit.runtime.gpu_sim.report_ir import define_report
from xjit.runtime.gpu_sim.scheduler_ir import define_scheduler
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.jit import compile_optimized
from xjit.runtime.machine_code.linker import LoadedObject, load_object
from xjit.runtime.machine_code.symbols import resolve_symbols

RUN, CALL = "xjit_sim_run", "xjit_sim_call"
_FLUSH_SUBNORMALS = 1 << 15 | 1 << 6  # of MXCSR: flush-to-zero, denormals-are-zero


@functools.cache
def library_addresses() -> Mapping[str, int]:
    """The addresses of what kernels call and of `RUN`, by name."""
    return {name: _library().address(name) for name in _exports()}


@functools.cache
def _library() -> LoadedObject:
    """Loaded once, for ever."""
    code = compile_optimized(_module().to_text(), trusted=True)
    return load_object(code, _exports(), resolve_symbols(undefined_symbols([code])))


@functools.cache
def library_declarations() -> str:
    """The `declare` lines of what kernels call."""
    functions = [_module().functions[name] for name in _exports()]
    return "\n".join(
        Declaration(f.name, f.return_type, tuple(p.type for p in f.params), f.attributes).to_text() for f in functions
    )


def _exports() -> list[str]:
    return [name for name, function in _module().functions.items() if not function.linkage]


@functools.cache
def _module() -> Module:
    module = Module("gpu_sim")
    define_report(module)
    define_exchange(module)
    define_checker(module)
    define_scheduler(module)
    _define_call(module, platform.machine() == "x86_64")
    return module


def _define_call(module: Module, is_x86: bool) -> None:
    """`void xjit_sim_call(run, launch, i32 flushes)`: runs a launch, with subnormals flushed if asked to."""
    b = define(module, CALL, [(PTR, "run"), (PTR, "launch"), (I32, "flushes")], linkage="")
    run, launch, flushes = b.function.args
    word = b.alloca(I32, align=4, name="word")
    if is_x86:
        b.intrinsic("x86.sse.stmxcsr", VOID, [word], overloads=[])
        before = b.load(I32, word, 4)
        flushing = b.or_(before, i32(_FLUSH_SUBNORMALS))
        b.store(b.select(equal(b, flushes, 0), before, flushing), word, 4)
        b.intrinsic("x86.sse.ldmxcsr", VOID, [word], overloads=[])
        b.call_pointer(run, VOID, [launch])
        b.store(before, word, 4)
        b.intrinsic("x86.sse.ldmxcsr", VOID, [word], overloads=[])
    else:
        b.call_pointer(run, VOID, [launch])
    b.ret_void()
