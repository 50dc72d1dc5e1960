"""Calls of programs as native code: the record of a call, its run by a thread that has all it needs, and its end.

* `i64 xjit_call_size(executable)`, `void xjit_call_init(call, executable, device, buffers)`: the record.
* `ptr xjit_call_failed_input(call)`: a reference to the error of an argument, or null: what is computed from a failed
  array has failed, too.
* `ptr xjit_call_run(call)`: runs the program; a reference to its error, or null. Of a group Python has it run.
* `void xjit_call_release_arguments(call, i64 count)`: lets go of the first arguments.
* `ptr xjit_call_awaited(call)`, `void xjit_call_queued(call)`, `void xjit_call_work(call)`: for a queue; the last does
  all of the others.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.native.events import count, new_error_reference
from xjit.jax_backend.native.questions import ask_for_error
from xjit.jax_backend.records import BUFFER, CALL, EVENT, EXECUTABLE, HOLD, QUEUED
from xjit.llvm import Module, Value
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

STATUS_ERROR: Final = "xjit_status_error"
"""The variable of `void (*)(executable, i64 status, i64 instruction, i64 detail, answer)`: the error for a failure."""

CALL_RUN: Final = "xjit_call_run"

RUN_MEMBER: Final = "xjit_run_member"
"""The variable of `void (*)(call, error, answer)`: Python calls `xjit_call_run` for a call of a group, and answers
as that does. If there is an error (of an argument) it does not, and ends the group's other calls; the reference is
passed on.
"""

RUN_PROGRAM: Final = "xjit_run_program"
"""The variable of `void (*)(call, answer)`: Python runs a program that has no entry of native code."""

_PER_PARAMETER: Final = ("arguments", "donated", "inputs")
_PER_RESULT: Final = ("data", "outputs", "results")


def define_calls(module: Module) -> None:
    """Defines them. The module must have buffers."""
    for name in (STATUS_ERROR, RUN_MEMBER, RUN_PROGRAM):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    _define_size(module)
    _define_init(module)
    _define_failed_input(module)
    _define_run(module)
    _define_release_arguments(module)
    _define_awaited(module)
    _define_queued(module)
    _define_work(module)


def status_error(builder: StructuredBuilder, executable: Value, status: Value, place: Value, detail: Value) -> Value:
    """Emits the question to Python for the error of a status, an i64."""
    return ask_for_error(builder, STATUS_ERROR, [executable, status, place, detail])


def out_of_memory(builder: StructuredBuilder, executable: Value, num_bytes: Value) -> Value:
    """Emits the error of a call that got no memory of a size."""
    status = builder.i64(RuntimeStatus.RESOURCE_EXHAUSTED)
    return status_error(builder, executable, status, builder.i64(-1), num_bytes)


def buffer_of(builder: StructuredBuilder, call: Value, field: str, i: Value) -> Value:
    """An argument or result of a call."""
    return builder.load(PTR, builder.gep(PTR, CALL.load(builder, call, field), i), align=8, name="buffer")


def _define_size(module: Module) -> None:
    builder = define(module, "xjit_call_size", [(PTR, "executable")], return_type=I64)
    (executable,) = builder.function.args
    parameters = builder.mul(EXECUTABLE.load(builder, executable, "num_parameters"), builder.i64(len(_PER_PARAMETER)))
    results = builder.mul(EXECUTABLE.load(builder, executable, "num_results"), builder.i64(len(_PER_RESULT)))
    words = builder.add(parameters, results)
    builder.ret(builder.add(builder.mul(words, builder.i64(8)), builder.i64(CALL.size)))


def _define_init(module: Module) -> None:
    builder = define(module, "xjit_call_init", [(PTR, name) for name in ("call", "executable", "device", "buffers")])
    call, executable, device, buffers = builder.function.args
    for field, value in {
        "executable": executable, "device": device, "group": builder.i64(0), "hold": builder.i64(HOLD)
    }.items():  # fmt: skip
        CALL.store(builder, call, field, value)
    for field, function in (("run", "work"), ("queued", "queued"), ("awaited", "awaited")):
        CALL.store(builder, call, field, Value(PTR, f"@xjit_call_{function}"))
    place = builder.offset(call, builder.i64(CALL.size))
    for fields, number in ((_PER_PARAMETER, "num_parameters"), (_PER_RESULT, "num_results")):
        size = builder.mul(EXECUTABLE.load(builder, executable, number), builder.i64(8))
        for field in fields:
            CALL.store(builder, call, field, place)
            place = builder.offset(place, size)
    size = builder.mul(EXECUTABLE.load(builder, executable, "num_parameters"), builder.i64(8))
    builder.memcpy(CALL.load(builder, call, "arguments"), buffers, size, align=8)
    builder.ret_void()


def _define_failed_input(module: Module) -> None:
    builder = define(module, "xjit_call_failed_input", [(PTR, "call")], return_type=PTR)
    (call,) = builder.function.args
    executable = CALL.load(builder, call, "executable")
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_parameters")) as i:
        event = BUFFER.load(builder, buffer_of(builder, call, "arguments", i), "ready")
        with builder.when(builder.not_(builder.is_null(EVENT.load(builder, event, "error")))):
            builder.ret(new_error_reference(builder, event))
    builder.ret(zero(PTR))


def _define_run(module: Module) -> None:
    builder = define(module, CALL_RUN, [(PTR, "call")], linkage="", return_type=PTR)
    (call,) = builder.function.args
    context = builder.alloca(I8, EXECUTION_CONTEXT.size, align=16, name="context")
    executable = CALL.load(builder, call, "executable")
    entry, constants = (EXECUTABLE.load(builder, executable, field) for field in ("entry", "constants"))
    with builder.when(builder.is_null(entry)):
        builder.ret(ask_for_error(builder, RUN_PROGRAM, [call]))
    arena_size = EXECUTABLE.load(builder, executable, "arena_size")
    wanted = builder.intrinsic("smax", I64, [arena_size, builder.i64(1)])
    arena = builder.call(module.declare("xjit_scratch_alloc", PTR, [I64]), [wanted], name="arena")
    with builder.when(builder.is_null(arena)):
        builder.ret(out_of_memory(builder, executable, arena_size))
    initial = EXECUTABLE.load(builder, executable, "initial_context")
    builder.memcpy(context, initial, builder.i64(EXECUTION_CONTEXT.size), align=8)
    group = CALL.load(builder, call, "group")
    with builder.when(builder.icmp_signed("!=", group, builder.i64(0))):
        for field in ("communicator", "run_id"):
            EXECUTION_CONTEXT.store(builder, context, field, group)
    inputs, outputs = (CALL.load(builder, call, field) for field in ("inputs", "outputs"))
    call_entry = module.declare("xjit_call_entry", I32, [PTR] * 6 + [I64])
    pointers = [entry, context, inputs, outputs, arena, constants]
    status = builder.call(call_entry, [*pointers, builder.i64(0)], name="status")  # this thread has no GIL
    builder.call(module.declare("xjit_scratch_free", VOID, [PTR]), [arena])
    with builder.when(builder.icmp_signed("==", status, const_int(I32, 0))):
        builder.ret(zero(PTR))
    place = builder.sext(EXECUTION_CONTEXT.load(builder, context, "failed_instruction"), I64)
    detail = EXECUTION_CONTEXT.load(builder, context, "detail")
    builder.ret(status_error(builder, executable, builder.sext(status, I64), place, detail))


def _define_release_arguments(module: Module) -> None:
    builder = define(module, "xjit_call_release_arguments", [(PTR, "call"), (I64, "count")])
    call, number = builder.function.args
    hold = CALL.load(builder, call, "hold")
    with builder.loop(builder.i64(0), number) as i:
        builder.call(module.functions["xjit_buffer_unhold"], [buffer_of(builder, call, "arguments", i), hold])
    builder.ret_void()


def _define_awaited(module: Module) -> None:
    builder = define(module, "xjit_call_awaited", [(PTR, "call")], return_type=PTR)
    (call,) = builder.function.args
    executable = CALL.load(builder, call, "executable")
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_parameters")) as i:
        ready = BUFFER.load(builder, buffer_of(builder, call, "arguments", i), "ready")
        event = builder.call(module.functions["xjit_event_awaited"], [ready], name="event")
        with builder.when(builder.not_(builder.is_null(event))):
            builder.ret(event)
    builder.ret(zero(PTR))


def _define_queued(module: Module) -> None:
    """Later calls in the queue may overwrite what this one reads: they begin when it is done."""
    builder = define(module, "xjit_call_queued", [(PTR, "call")])
    (call,) = builder.function.args
    CALL.store(builder, call, "hold", builder.i64(QUEUED))
    EVENT.store_atomic(builder, CALL.load(builder, call, "event"), "in_queue", builder.i64(1), "release")
    executable = CALL.load(builder, call, "executable")
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_parameters")) as i:
        builder.call(module.functions["xjit_buffer_queue"], [buffer_of(builder, call, "arguments", i)])
    builder.ret_void()


def _define_work(module: Module) -> None:
    """Nothing is held any more when the results are ready, so that who waited for them may take memory."""
    functions = module.functions
    builder = define(module, "xjit_call_work", [(PTR, "call")])
    (call,) = builder.function.args
    executable, event = CALL.load(builder, call, "executable"), CALL.load(builder, call, "event")
    num_parameters = EXECUTABLE.load(builder, executable, "num_parameters")
    with builder.loop(builder.i64(0), num_parameters) as i:
        argument = buffer_of(builder, call, "arguments", i)
        builder.call(functions["xjit_event_wait"], [BUFFER.load(builder, argument, "ready")])
    error = builder.call(functions["xjit_call_failed_input"], [call], name="error")
    EVENT.store(builder, event, "error", error)
    is_member = builder.icmp_signed("!=", CALL.load(builder, call, "group"), builder.i64(0))
    with builder.when(is_member):
        EVENT.store(builder, event, "error", ask_for_error(builder, RUN_MEMBER, [call, error]))
    with builder.when(builder.not_(builder.or_(is_member, builder.not_(builder.is_null(error))))):
        EVENT.store(builder, event, "error", builder.call(functions[CALL_RUN], [call], name="error"))
    builder.call(functions["xjit_call_release_arguments"], [call, num_parameters])
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_results")) as i:
        result = buffer_of(builder, call, "results", i)
        builder.call(functions["xjit_buffer_unhold"], [result, builder.i64(QUEUED)])
    count(builder, EXECUTABLE.pointer(builder, executable, "num_pending"), -1)
    builder.call(functions["xjit_event_set"], [event])
    builder.call(functions["xjit_event_release"], [event])
    builder.call(module.declare("free", VOID, [PTR]), [call])
    builder.ret_void()
