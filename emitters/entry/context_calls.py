"""Calls of the runtime that take the execution context: memory that may be refused, failures, the end of a loop.

Kernels are shared by equal instructions, so they report failures of no instruction; the native entry, which knows whose
call it was, adds the number (`emit_return_on_failure`). The context is the first argument of the builder's function.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.llvm.builder import IRBuilder
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.llvm.inline_control_flow import return_if
from xjit.llvm.types import I32, I64, PTR, VOID
from xjit.llvm.values import Value, const_int, zero

NO_INSTRUCTION = -1
"""`failed_instruction` of a failure whose place is not known (yet)."""


def emit_scratch_alloc(builder: IRBuilder, num_bytes: Value, on_failure: Callable[[], None] | None = None) -> Value:
    """Allocates a block of the warm pool for a kernel, to be freed with `xjit_scratch_free`.

    If there is no memory, that is reported, and the kernel returns, after what `on_failure` emits.
    """
    builder.function.may_fail = True
    allocate = builder.module.declare("xjit_context_alloc", PTR, [PTR, I64, I32])
    instruction = const_int(I32, NO_INSTRUCTION)
    block = builder.call(allocate, [builder.function.args[0], num_bytes, instruction])
    return_if(builder, builder.icmp_unsigned("==", block, zero(PTR)), on_failure)
    return block


def emit_fail(builder: IRBuilder, status: RuntimeStatus, detail: Value) -> None:
    """Reports a failure of the current call; `detail` (i64) says more. The first one is kept."""
    builder.function.may_fail = True
    fail = builder.module.declare("xjit_fail", VOID, [PTR, I32, I32, I64])
    where = const_int(I32, NO_INSTRUCTION)
    builder.call(fail, [builder.function.args[0], const_int(I32, status), where, detail])


def emit_return_on_failure(builder: IRBuilder, number: int | None = None) -> None:
    """Returns if the call has failed. The failure is that of kernel call `number`, unless it says whose it is."""
    builder.function.may_fail = True
    context = builder.function.args[0]

    def name_instruction() -> Value | None:
        if number is not None:
            place = EXECUTION_CONTEXT.load(builder, context, "failed_instruction")
            unknown = builder.icmp_signed("==", place, const_int(I32, NO_INSTRUCTION))
            named = builder.select(unknown, const_int(I32, number), place)
            EXECUTION_CONTEXT.store(builder, context, "failed_instruction", named)
        return status_result(builder)

    status = EXECUTION_CONTEXT.load(builder, context, "status")
    failed = builder.icmp_unsigned("!=", status, const_int(I32, RuntimeStatus.OK))
    return_if(builder, failed, name_instruction)


def emit_return_on_cancel(builder: IRBuilder) -> None:
    """Returns if the call is to end: it has failed, somebody cancels it, or a signal handler of Python raised."""
    builder.function.may_fail = True
    context = builder.function.args[0]
    check = builder.module.declare("xjit_check_cancel", I32, [PTR])
    ends = builder.icmp_unsigned("!=", builder.call(check, [context]), const_int(I32, 0))
    return_if(builder, ends, lambda: _report_cancel(builder, context))


def status_result(builder: IRBuilder) -> Value | None:
    """What the builder's function returns in the end: the native entry has the status as its result."""
    if builder.function.return_type is VOID:
        return None
    return EXECUTION_CONTEXT.load(builder, builder.function.args[0], "status")


def _report_cancel(builder: IRBuilder, context: Value) -> Value | None:
    fail = builder.module.declare("xjit_fail", VOID, [PTR, I32, I32, I64])  # nothing, if something has failed before
    cancelled, where = const_int(I32, RuntimeStatus.CANCELLED), const_int(I32, NO_INSTRUCTION)
    builder.call(fail, [context, cancelled, where, const_int(I64, 0)])
    return status_result(builder)
