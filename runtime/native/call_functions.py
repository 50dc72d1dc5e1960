"""How every entry is called, and small things around it: subnormals, the pause of a spin loop, rounding to bfloat16.

XLA's CPU code flushes subnormals, as inputs (DAZ) and results (FTZ). The bits live in a register of the thread, so
they are set around each native call and restored after it; pool workers set them once. A caller may have set them for
threads that come to Python, whose numbers must keep subnormals: they are cleared there.
"""

from __future__ import annotations

from typing import Final

from xjit.llvm import Module
from xjit.llvm.execution_context import EXECUTION_CONTEXT
from xjit.llvm.structured_builder import define
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, I16, I32, I64, PTR, VOID
from xjit.llvm.values import const_int

FLUSH_SUBNORMALS: Final = "xjit_flush_subnormals"
KEEP_SUBNORMALS: Final = "xjit_keep_subnormals"
RESTORE_SUBNORMALS: Final = "xjit_restore_subnormals"

_FLUSH_BITS: Final = 1 << 15 | 1 << 6  # of MXCSR: flush-to-zero, denormals-are-zero


def define_call_functions(module: Module, machine: str) -> None:
    """Defines them for `platform.machine()`. Subnormals are flushed on x86 only."""
    is_x86 = machine == "x86_64"
    _define_pause(module, is_x86)
    _define_mode(module, FLUSH_SUBNORMALS, is_x86, flushes=True)
    _define_mode(module, KEEP_SUBNORMALS, is_x86, flushes=False)
    _define_restore_subnormals(module, is_x86)
    _define_call_entry(module)
    _define_round_float(module)
    _define_round_double(module)


def _define_pause(module: Module, is_x86: bool) -> None:
    builder = define(module, "xjit_pause", [], linkage="")
    if is_x86:
        builder.intrinsic("x86.sse2.pause", VOID, [], overloads=[])
    builder.ret_void()


def _define_mode(module: Module, name: str, is_x86: bool, flushes: bool) -> None:
    """`i32 name()`: sets the bits or clears them, and returns what to restore."""
    builder = define(module, name, [], linkage="", return_type=I32)
    if not is_x86:
        builder.ret(const_int(I32, 0))
        return
    word = builder.alloca(I32, align=4, name="word")
    builder.intrinsic("x86.sse.stmxcsr", VOID, [word], overloads=[])
    old = builder.load(I32, word, align=4, name="old")
    bits = const_int(I32, _FLUSH_BITS)
    builder.store(builder.or_(old, bits) if flushes else builder.and_(old, builder.not_(bits)), word, align=4)
    builder.intrinsic("x86.sse.ldmxcsr", VOID, [word], overloads=[])
    builder.ret(old)


def _define_restore_subnormals(module: Module, is_x86: bool) -> None:
    builder = define(module, RESTORE_SUBNORMALS, [(I32, "old")], linkage="")
    if is_x86:
        word = builder.alloca(I32, align=4, name="word")
        builder.store(builder.function.args[0], word, align=4)
        builder.intrinsic("x86.sse.ldmxcsr", VOID, [word], overloads=[])
    builder.ret_void()


def _define_call_entry(module: Module) -> None:
    """`i32 xjit_call_entry(entry, context, parameters, results, arena, constants, i64 release_gil)`: the status.

    Holds the GIL before and after, and lets go of it in between if asked to.
    """
    names = ("entry", "context", "parameters", "results", "arena", "constants")
    params = [*((PTR, name) for name in names), (I64, "release_gil")]
    builder = define(module, "xjit_call_entry", params, linkage="", return_type=I32)
    entry, *arguments, release_gil = builder.function.args
    releases = builder.icmp_signed("!=", release_gil, const_int(I64, 0))
    thread = builder.alloca(PTR, align=8, name="thread")
    with builder.when(releases):
        builder.store(builder.call(module.declare("PyEval_SaveThread", PTR, []), []), thread, align=8)
    saved = builder.call(module.functions[FLUSH_SUBNORMALS], [])
    returned = builder.call_pointer(entry, I32, arguments, name="returned")
    builder.call(module.functions[RESTORE_SUBNORMALS], [saved])
    with builder.when(releases):
        restore = module.declare("PyEval_RestoreThread", VOID, [PTR])
        builder.call(restore, [builder.load(PTR, thread, align=8)])
    noted = EXECUTION_CONTEXT.load(builder, arguments[0], "status")
    builder.ret(builder.select(builder.icmp_signed("!=", returned, const_int(I32, 0)), returned, noted))


def _define_round_float(module: Module) -> None:
    """Rounds to nearest even in integers; a NaN keeps its sign and becomes quiet."""
    builder = define(module, "__truncsfbf2", [(FLOAT, "x")], linkage="", return_type=BFLOAT)
    (x,) = builder.function.args
    bits = builder.bitcast(x, I32)
    high = builder.lshr(bits, const_int(I32, 16))
    bias = builder.add(builder.and_(high, const_int(I32, 1)), const_int(I32, 0x7FFF))
    rounded = builder.lshr(builder.add(bits, bias), const_int(I32, 16))
    quiet = builder.or_(high, const_int(I32, 0x40))
    chosen = builder.select(builder.fcmp_unordered("uno", x, x), quiet, rounded)
    builder.ret(builder.bitcast(builder.trunc(chosen, I16), BFLOAT))


def _define_round_double(module: Module) -> None:
    """First collects the bits that single precision drops in its last bit: then the second rounding is correct."""
    builder = define(module, "__truncdfbf2", [(DOUBLE, "x")], linkage="", return_type=BFLOAT)
    (x,) = builder.function.args
    near = builder.fptrunc(x, FLOAT)
    back = builder.fpext(near, DOUBLE)
    bits = builder.bitcast(near, I32)
    is_above = builder.fcmp_ordered(">", builder.fabs(back), builder.fabs(x))
    toward_zero = builder.select(is_above, builder.sub(bits, const_int(I32, 1)), bits)
    odd = builder.or_(toward_zero, const_int(I32, 1))
    chosen = builder.select(builder.fcmp_unordered("==", back, x), bits, odd)
    builder.ret(builder.call(module.functions["__truncsfbf2"], [builder.bitcast(chosen, FLOAT)]))
