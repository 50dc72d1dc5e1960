"""What generated code calls with its execution context: to report a failure, to get memory, to ask if it is to end.

* `void xjit_fail(ptr context, i32 status, i32 instruction, i64 detail)`: the first failure of a call is kept, from any
  thread; loops end at their next back edge.
* `ptr xjit_context_alloc(ptr context, i64 bytes, i32 instruction)`: a block of the warm pool, 64-byte aligned, to be
  freed with `xjit_scratch_free`. If there is no memory: null, and the failure is reported.
* `i32 xjit_check_cancel(ptr context)`: not 0 if the call is to end, which every loop of unknown length asks at its
  back edges. Also runs Python's signal handlers, every 50 ms and on Python's main thread, so that Ctrl-C ends a call:
  the exception of a handler waits in the context until the call has ended. It takes 5 to 20 ns, so loops whose body
  takes less than a microsecond should ask every 64th time only.
"""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR, VOID, array
from xjit.llvm.values import const_int, zero

SYMBOLS = ("xjit_fail", "xjit_context_alloc", "xjit_check_cancel")
"""The functions above."""

MAIN_THREAD = "xjit_main_thread"
"""The i64 variable that holds `pthread_self()` of Python's main thread, where signal handlers run."""

SIGNAL_INTERVAL_NS = 50_000_000
_CLOCK = 6  # Linux: CLOCK_MONOTONIC_COARSE, ticks of some milliseconds; macOS: CLOCK_MONOTONIC


def define_context_functions(module: Module) -> None:
    """Defines them. The module must also get `xjit_scratch_alloc`."""
    _define_fail(module)
    _define_context_alloc(module)
    module.add_global(MAIN_THREAD, I64, zero(I64), align=8, linkage="")
    _define_check_signals(module)
    _define_check_cancel(module)


def _define_fail(module: Module) -> None:
    params = [(PTR, "context"), (I32, "status"), (I32, "instruction"), (I64, "detail")]
    builder = define(module, "xjit_fail", params, linkage="")
    context, status, instruction, detail = builder.function.args
    place = EXECUTION_CONTEXT.pointer(builder, context, "status")
    _, is_first = builder.cmpxchg(place, const_int(I32, RuntimeStatus.OK), status)
    with builder.when(is_first):
        EXECUTION_CONTEXT.store(builder, context, "failed_instruction", instruction)
        EXECUTION_CONTEXT.store(builder, context, "detail", detail)
    cancel = EXECUTION_CONTEXT.pointer(builder, context, "cancel")
    builder.store_atomic(const_int(I32, 1), cancel, align=4, ordering="monotonic")
    builder.ret_void()


def _define_context_alloc(module: Module) -> None:
    params = [(PTR, "context"), (I64, "bytes"), (I32, "instruction")]
    builder = define(module, "xjit_context_alloc", params, linkage="", return_type=PTR)
    context, num_bytes, instruction = builder.function.args
    block = builder.call(module.declare("xjit_scratch_alloc", PTR, [I64]), [num_bytes], name="block")
    with builder.when(builder.icmp_signed("==", block, zero(PTR))):
        status = const_int(I32, RuntimeStatus.RESOURCE_EXHAUSTED)
        builder.call(module.functions["xjit_fail"], [context, status, instruction, num_bytes])
    builder.ret(block)


def _define_check_signals(module: Module) -> None:
    """`void xjit_check_signals(context)`: runs Python's handlers; what they raise cancels the call and is kept."""
    builder = define(module, "xjit_check_signals", [(PTR, "context")])
    (context,) = builder.function.args
    state = builder.call(module.declare("PyGILState_Ensure", I32, []), [], name="state")
    failed = builder.call(module.declare("PyErr_CheckSignals", I32, []), [], name="failed")
    with builder.when(builder.icmp_signed("!=", failed, const_int(I32, 0))):
        fields = ("exception_type", "exception_value", "exception_traceback")
        fetch = module.declare("PyErr_Fetch", VOID, [PTR, PTR, PTR])
        builder.call(fetch, [EXECUTION_CONTEXT.pointer(builder, context, field) for field in fields])
        cancelled, nowhere = const_int(I32, RuntimeStatus.CANCELLED), const_int(I32, -1)
        builder.call(module.functions["xjit_fail"], [context, cancelled, nowhere, const_int(I64, 0)])
    builder.call(module.declare("PyGILState_Release", VOID, [I32]), [state])
    builder.ret_void()


def _define_check_cancel(module: Module) -> None:
    builder = define(module, "xjit_check_cancel", [(PTR, "context")], linkage="", return_type=I32)
    (context,) = builder.function.args
    place = EXECUTION_CONTEXT.pointer(builder, context, "cancel")
    cancel = builder.load_atomic(I32, place, align=4, ordering="monotonic", name="cancel")
    with builder.when(builder.icmp_signed("!=", cancel, const_int(I32, 0))):
        builder.ret(cancel)
    now = _nanoseconds(builder)
    checked = EXECUTION_CONTEXT.pointer(builder, context, "last_check_ns")
    last = builder.load_atomic(I64, checked, align=8, ordering="monotonic", name="last")
    with builder.when(builder.icmp_signed("==", last, const_int(I64, 0))):
        builder.store_atomic(now, checked, align=8, ordering="monotonic")
        builder.ret(const_int(I32, 0))
    with builder.when(builder.icmp_signed("<", builder.sub(now, last), const_int(I64, SIGNAL_INTERVAL_NS))):
        builder.ret(const_int(I32, 0))
    main = builder.load(I64, Value(PTR, f"@{MAIN_THREAD}"), align=8, name="main")
    here = builder.call(module.declare("pthread_self", I64, []), [], name="here")
    with builder.when(builder.icmp_signed("!=", here, main)):
        builder.ret(const_int(I32, 0))
    builder.store_atomic(now, checked, align=8, ordering="monotonic")
    builder.call(module.functions["xjit_check_signals"], [context])
    builder.ret(EXECUTION_CONTEXT.load(builder, context, "cancel"))


def _nanoseconds(builder: StructuredBuilder) -> Value:
    """The time of a clock that is cheap to read and never goes back."""
    time = builder.alloca(array(I64, 2), align=8, name="time")  # struct timespec
    clock_gettime = builder.module.declare("clock_gettime", I32, [I32, PTR])
    builder.call(clock_gettime, [const_int(I32, _CLOCK), time])
    seconds, nanoseconds = builder.load_i64(time, 0), builder.load_i64(time, 1)
    return builder.add(builder.mul(seconds, const_int(I64, 1_000_000_000)), nanoseconds)
