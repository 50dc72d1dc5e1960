"""Execution as native code: calls of programs, from buffers to buffers, without Python.

What is short, and has all its arguments, runs in the thread that calls it: that costs less than to wake another one.
Everything else goes to the queue of its device (`xjit.jax_backend.native.queues`), and the results are there at once,
with an event that says when they are ready. A program of several devices is a call for each, of the part that has the
device's numbers; if they meet while they run, they are a group (`xjit.jax_backend.native.groups`).

A failure of the program becomes the error of its results: callers raise it where the values are used. What is wrong
with the request itself (a deleted argument), and a lack of memory before the program runs, is the error of the call.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.c_api import FUNCTIONS, ErrorCode
from xjit.jax_backend.native.buffers import READY_EVENT
from xjit.jax_backend.native.calls import CALL_RUN, buffer_of
from xjit.jax_backend.native.events import EXHAUSTED_ERROR, EXHAUSTED_EVENT, count, is_ready
from xjit.jax_backend.records import (
    BUFFER,
    CALL,
    DEVICE,
    DISPATCH_LONG,
    ERROR,
    EXECUTABLE,
    QUEUED,
    READY,
    RETURNED_ALL,
    RETURNED_NONE,
)
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

COUNT_ERROR: Final = "xjit_count_error"
"""The variable that holds the address of the error for a wrong number of arguments or devices."""

IS_ASYNCHRONOUS: Final = "xjit_is_asynchronous"
"""The variable that is null if a call returns when its results are ready."""

EXECUTE: Final = "LoadedExecutable_Execute"


def define_execute(module: Module) -> None:
    """Defines `EXECUTE`, and what it consists of. The module must have queues, and calls with their preparation."""
    for name in (COUNT_ERROR, IS_ASYNCHRONOUS):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    _define_must_queue(module)
    _define_answer(module)
    _define_enqueue(module)
    _Inline(module).emit()


def define_execute_on_one(module: Module) -> None:
    """Defines `EXECUTE`; several devices are left to `xjit_execute_on_several`."""
    _OneDevice(module).emit()


def answer_error(builder: StructuredBuilder, name: str) -> None:
    """Emits the return of a static error."""
    builder.ret(builder.load(PTR, Value(PTR, f"@{name}"), align=8))


def is_asynchronous(builder: StructuredBuilder) -> Value:
    """Emits the question whether calls return before their results are ready."""
    return builder.not_(builder.is_null(builder.load(PTR, Value(PTR, f"@{IS_ASYNCHRONOUS}"), align=8)))


def _define_must_queue(module: Module) -> None:
    """`i1 xjit_must_queue(executable, buffers)`: whether a call goes to a queue. If not, all arguments are ready.

    A function that a program calls may call programs, but not wait for what the queue does after its own program.
    """
    functions = module.functions
    builder = define(module, "xjit_must_queue", [(PTR, "executable"), (PTR, "buffers")], return_type=I1)
    executable, buffers = builder.function.args
    queued = builder.alloca(I1, align=1, name="queued")
    builder.store(const_int(I1, 0), queued, align=1)
    dispatch = EXECUTABLE.load(builder, executable, "dispatch")
    with builder.when(builder.icmp_signed("==", dispatch, builder.i64(DISPATCH_LONG))):
        is_nested = builder.call(functions["xjit_is_nested"], [], name="is_nested")
        builder.store(builder.not_(is_nested), queued, align=1)
    num_parameters = EXECUTABLE.load(builder, executable, "num_parameters")
    with builder.loop(builder.i64(0), num_parameters) as i:
        found = builder.load(I1, queued, align=1)
        is_pending = builder.not_(is_ready(builder, _ready_event(builder, buffers, i)))
        builder.store(builder.or_(found, is_pending), queued, align=1)
    found = builder.load(I1, queued, align=1, name="found")
    with builder.when(builder.or_(builder.not_(found), is_asynchronous(builder))):
        builder.ret(found)
    with builder.loop(builder.i64(0), num_parameters) as i:
        builder.call(functions["xjit_event_wait"], [_ready_event(builder, buffers, i)])
    builder.ret(const_int(I1, 0))


def _ready_event(builder: StructuredBuilder, buffers: Value, i: Value) -> Value:
    buffer = builder.load(PTR, builder.gep(PTR, buffers, i), align=8, name="buffer")
    return BUFFER.load(builder, buffer, "ready")


def _define_answer(module: Module) -> None:
    """`void xjit_call_answer(call, outputs, complete)`: gives the caller results and, unless null, the event."""
    retain = module.functions["xjit_event_retain"]
    builder = define(module, "xjit_call_answer", [(PTR, "call"), (PTR, "outputs"), (PTR, "complete")])
    call, outputs, complete = builder.function.args
    event = CALL.load(builder, call, "event")
    executable = CALL.load(builder, call, "executable")
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_results")) as i:
        result = buffer_of(builder, call, "results", i)
        BUFFER.store(builder, result, "ready", builder.call(retain, [event], name="ready"))
        builder.store(result, builder.gep(PTR, outputs, i), align=8)
    with builder.when(builder.not_(builder.is_null(complete))):
        builder.store(builder.call(retain, [event], name="done"), complete, align=8)
    builder.ret_void()


def _define_enqueue(module: Module) -> None:
    """`void xjit_call_enqueue(call, outputs, complete)`: of a prepared call; `xjit_call_put(call)` has it done."""
    functions = module.functions
    builder = define(module, "xjit_call_enqueue", [(PTR, "call"), (PTR, "outputs"), (PTR, "complete")])
    call = builder.function.args[0]
    executable = CALL.load(builder, call, "executable")
    builder.call(functions["xjit_call_answer"], builder.function.args)
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_results")) as i:
        result = buffer_of(builder, call, "results", i)
        builder.call(functions["xjit_buffer_hold"], [result, builder.i64(QUEUED)])
    count(builder, EXECUTABLE.pointer(builder, executable, "num_pending"), 1)
    builder.ret_void()

    builder = define(module, "xjit_call_put", [(PTR, "call")])
    (call,) = builder.function.args
    executable = CALL.load(builder, call, "executable")
    calls_functions = EXECUTABLE.load(builder, executable, "calls_functions")
    with builder.when(builder.icmp_signed("!=", calls_functions, builder.i64(0))):
        jobs = builder.alloca(PTR, align=8, name="jobs")
        builder.store(call, jobs, align=8)
        builder.call(functions["xjit_jobs_run_apart"], [jobs, builder.i64(1)])
        builder.ret_void()
    queue = DEVICE.load(builder, CALL.load(builder, call, "device"), "queue")
    builder.call(functions["xjit_queue_put"], [queue, call])
    builder.ret_void()


class _Inline:
    """Emits `ptr xjit_call_run_inline(call, outputs, complete)`: a prepared call, in this thread.

    The record stays the caller's. Returns null, or the error of a call that has no results.
    """

    def __init__(self, module: Module) -> None:
        self._functions = module.functions
        params = [(PTR, "call"), (PTR, "outputs"), (PTR, "complete")]
        self.builder: StructuredBuilder = define(module, "xjit_call_run_inline", params, return_type=PTR)
        self._call, self._outputs, self._complete = self.builder.function.args
        self._executable = CALL.load(self.builder, self._call, "executable")

    def emit(self) -> None:
        builder, functions = self.builder, self._functions
        error = builder.alloca(PTR, align=8, name="error")
        builder.store(builder.call(functions["xjit_call_failed_input"], [self._call]), error, align=8)
        with builder.when(builder.is_null(builder.load(PTR, error, align=8))):
            builder.store(builder.call(functions[CALL_RUN], [self._call]), error, align=8)
            self._return_if_exhausted(builder.load(PTR, error, align=8))
        failure = builder.load(PTR, error, align=8, name="failure")
        with builder.when(builder.not_(builder.is_null(failure))):
            with builder.when(self._returns(RETURNED_ALL)):
                self._return(failure)
            self._fail(failure)
        builder.call(functions["xjit_call_answer"], [self._call, self._outputs, self._complete])
        num_parameters = EXECUTABLE.load(builder, self._executable, "num_parameters")
        builder.call(functions["xjit_call_release_arguments"], [self._call, num_parameters])
        builder.call(functions["xjit_event_release"], [CALL.load(builder, self._call, "event")])
        builder.ret(zero(PTR))

    def _returns(self, kind: int) -> Value:
        found = EXECUTABLE.load(self.builder, self._executable, "returned_errors")
        return self.builder.icmp_signed("==", found, self.builder.i64(kind))

    def _return_if_exhausted(self, error: Value) -> None:
        builder = self.builder
        with builder.when(builder.not_(builder.or_(builder.is_null(error), self._returns(RETURNED_NONE)))):
            code = ERROR.load(builder, error, "code")
            with builder.when(builder.icmp_signed("==", code, builder.i64(ErrorCode.RESOURCE_EXHAUSTED))):
                self._return(error)

    def _return(self, error: Value) -> None:
        self.builder.call(self._functions["xjit_call_abandon"], [self._call])
        self.builder.ret(error)

    def _fail(self, error: Value) -> None:
        """The event that is ready becomes one with an error."""
        builder, release = self.builder, self._functions["xjit_event_release"]
        made = builder.call(self._functions["xjit_event_new"], [builder.i64(READY), error], name="made")
        CALL.store(builder, self._call, "event", made)
        with builder.when(builder.is_null(made)):
            builder.call(self._functions["xjit_error_release"], [error])
            exhausted = builder.load(PTR, Value(PTR, f"@{EXHAUSTED_EVENT}"), align=8, name="exhausted")
            CALL.store(builder, self._call, "event", builder.call(self._functions["xjit_event_retain"], [exhausted]))
        builder.call(release, [builder.load(PTR, Value(PTR, f"@{READY_EVENT}"), align=8, name="ready")])


class _OneDevice:
    """Emits `ptr LoadedExecutable_Execute(args)`."""

    def __init__(self, module: Module) -> None:
        self._functions = module.functions
        self._arguments = FUNCTIONS[EXECUTE]
        self.builder: StructuredBuilder = define(module, EXECUTE, [(PTR, "args")], linkage="", return_type=PTR)
        (self._request,) = self.builder.function.args
        self._executable = self._asked("executable")

    def emit(self) -> None:
        builder, functions = self.builder, self._functions
        self._check_counts()
        with builder.when(builder.icmp_signed(">", self._fixed("num_devices"), builder.i64(1))):
            builder.ret(builder.call(functions["xjit_execute_on_several"], [self._request], name="answer"))
        buffers, outputs = (
            builder.load(PTR, self._asked(name), align=8, name=name) for name in ("argument_lists", "output_lists")
        )
        default, asked = builder.load(PTR, self._fixed("devices"), align=8), self._asked("execute_device")
        device = builder.select(builder.is_null(asked), default, asked)
        is_queued = builder.call(functions["xjit_must_queue"], [self._executable, buffers], name="is_queued")
        call = self._new_call(is_queued, device, buffers)
        error = builder.call(functions["xjit_call_prepare"], [call, self._asked("options"), is_queued], name="error")
        with builder.when(builder.not_(builder.is_null(error))):
            with builder.when(is_queued):
                builder.call(builder.module.declare("free", VOID, [PTR]), [call])
            builder.ret(error)
        complete = self._asked("device_complete_events")
        with builder.when(builder.not_(is_queued)):
            builder.ret(builder.call(functions["xjit_call_run_inline"], [call, outputs, complete], name="failure"))
        builder.call(functions["xjit_call_enqueue"], [call, outputs, complete])
        builder.call(functions["xjit_call_put"], [call])
        builder.ret(zero(PTR))

    def _asked(self, field: str) -> Value:
        return self._arguments.load(self.builder, self._request, field)

    def _fixed(self, field: str) -> Value:
        return EXECUTABLE.load(self.builder, self._executable, field)

    def _check_counts(self) -> None:
        builder = self.builder
        all_devices = builder.icmp_signed("==", self._asked("num_devices"), self._fixed("num_devices"))
        fits = builder.icmp_signed("==", self._asked("num_args"), self._fixed("num_parameters"))
        with builder.when(builder.not_(builder.and_(all_devices, fits))):
            answer_error(builder, COUNT_ERROR)

    def _new_call(self, is_queued: Value, device: Value, buffers: Value) -> Value:
        """The record of the call: on the stack, or what the queue will free."""
        builder = self.builder
        place = builder.alloca(PTR, align=8, name="place")
        size = builder.call(self._functions["xjit_call_size"], [self._executable], name="size")
        builder.store(builder.alloca_many(I8, size, align=16, name="call"), place, align=8)
        with builder.when(is_queued):
            made = builder.call(builder.module.declare("malloc", PTR, [I64]), [size], name="made")
            with builder.when(builder.is_null(made)):
                answer_error(builder, EXHAUSTED_ERROR)
            builder.store(made, place, align=8)
        call = builder.load(PTR, place, align=8, name="call")
        builder.call(self._functions["xjit_call_init"], [call, self._executable, device, buffers])
        return call
