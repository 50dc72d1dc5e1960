"""Execution as native code: one call of a program on one device, from buffers to buffers, without Python.

What is short, and has all its arguments, runs in the thread that calls it: that costs less than to wake another one.
Everything else goes to the queue of its device (`xjit.jax_backend.native_queues`), and the results are there at once,
with an event that says when they are ready.

A failure of the program becomes the error of its results: callers raise it where the values are used. What is wrong
with the request itself (a deleted argument), and a lack of memory before the program runs, is the error of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xjit.jax_backend.c_api import FUNCTIONS, ErrorCode
from xjit.jax_backend.native_buffers import READY_EVENT
from xjit.jax_backend.native_calls import allocate, buffer_of, out_of_memory, status_error
from xjit.jax_backend.native_donation import ARGUMENT_DELETED, CLAIMED, define_donation
from xjit.jax_backend.native_events import count, is_ready
from xjit.jax_backend.records import (
    ARRAY,
    BUFFER,
    CALL,
    DEVICE,
    DISPATCH_INLINE,
    DISPATCH_LONG,
    DONATED_WITHOUT_RESULT,
    ERROR,
    EVENT,
    EXECUTABLE,
    HOLD,
    QUEUED,
    READY,
)
from xjit.llvm import Module, Value
from xjit.llvm.function import Function
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I1, I8, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

COUNT_ERROR: Final = "xjit_count_error"
"""The variable that holds the address of the error for a wrong number of arguments or devices."""

IS_ASYNCHRONOUS: Final = "xjit_is_asynchronous"
"""The variable that is null if every call runs in the thread that makes it."""

EXECUTE: Final = "LoadedExecutable_Execute"


def define_execute(module: Module, ask: Function) -> None:
    """Defines `EXECUTE`. The module must have calls and queues. `ask` does it for programs on several devices."""
    for name in (COUNT_ERROR, IS_ASYNCHRONOUS):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    define_donation(module)
    _define_new_event(module)
    _Execute(module, ask).emit()


def _define_new_event(module: Module) -> None:
    """`ptr xjit_event_new(i64 waiting, error)`: an event with one reference, which takes that to its error."""
    builder = define(module, "xjit_event_new", [(I64, "waiting"), (PTR, "error")], return_type=PTR)
    waiting, error = builder.function.args
    event = builder.call(module.declare("malloc", PTR, [I64]), [builder.i64(EVENT.size)], name="event")
    EVENT.store(builder, event, "vtable", zero(PTR))
    EVENT.store(builder, event, "references", builder.i64(1))
    EVENT.store(builder, event, "waiting", builder.inttoptr(waiting, PTR))
    EVENT.store(builder, event, "error", error)
    EVENT.store(builder, event, "in_queue", builder.i64(0))
    builder.ret(event)


class _Execute:
    """Emits `ptr LoadedExecutable_Execute(args)`."""

    def __init__(self, module: Module, ask: Function) -> None:
        self._functions = module.functions
        self._arguments = FUNCTIONS[EXECUTE]
        self.builder = builder = define(module, EXECUTE, [(PTR, "args")], linkage="", return_type=PTR)
        (self._request,) = builder.function.args
        self._executable = self._asked("executable")
        self._ask_for_several(ask)
        self._num_parameters = self._fixed("num_parameters")
        self._num_results = self._fixed("num_results")

    def _ask_for_several(self, ask: Function) -> None:
        """Python runs programs on several devices: it calls this function for each."""
        builder = self.builder
        several = builder.icmp_signed(">", self._fixed("num_devices"), builder.i64(1))
        with builder.when(several):
            builder.ret(builder.call(ask, [self._request], name="answer"))

    def emit(self) -> None:
        builder = self.builder
        self._check_counts()
        self._buffers = builder.load(PTR, self._asked("argument_lists"), align=8, name="buffers")
        default = builder.load(PTR, self._fixed("devices"), align=8)
        asked = self._asked("execute_device")
        self._device = builder.select(builder.is_null(asked), default, asked)
        self._is_queued = self._decide()
        self._call = self._new_call()
        self._hold_arguments()
        self._take_donations()
        self._make_outputs()
        with builder.when(self._is_queued):
            self._enqueue()
        self._run_inline()

    def _asked(self, field: str) -> Value:
        return self._arguments.load(self.builder, self._request, field)

    def _fixed(self, field: str) -> Value:
        return EXECUTABLE.load(self.builder, self._executable, field)

    def _check_counts(self) -> None:
        builder = self.builder
        one_device = builder.icmp_signed("==", self._asked("num_devices"), builder.i64(1))
        fits = builder.icmp_signed("==", self._asked("num_args"), self._num_parameters)
        with builder.when(builder.not_(builder.and_(one_device, fits))):
            builder.ret(builder.load(PTR, Value(PTR, f"@{COUNT_ERROR}"), align=8))

    def _decide(self) -> Value:
        """Whether the call goes to a queue. If not, all its arguments are ready.

        A function that a program calls may call programs, but not wait for what the queue does after its own program.
        """
        builder = self.builder
        queued = builder.alloca(I1, align=1, name="queued")
        dispatch = self._fixed("dispatch")
        builder.store(const_int(I1, 0), queued, align=1)
        with builder.when(builder.icmp_signed("==", dispatch, builder.i64(DISPATCH_LONG))):
            is_nested = builder.call(self._functions["xjit_is_nested"], [], name="is_nested")
            builder.store(builder.not_(is_nested), queued, align=1)
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            found = builder.load(I1, queued, align=1)
            is_pending = builder.not_(is_ready(builder, self._ready_event(i)))
            builder.store(builder.or_(found, is_pending), queued, align=1)
        with builder.when(builder.load(I1, queued, align=1)):
            enabled = builder.not_(builder.is_null(builder.load(PTR, Value(PTR, f"@{IS_ASYNCHRONOUS}"), align=8)))
            may = builder.and_(enabled, builder.icmp_signed("!=", dispatch, builder.i64(DISPATCH_INLINE)))
            builder.store(may, queued, align=1)
            with builder.when(builder.not_(may)), builder.loop(builder.i64(0), self._num_parameters) as i:
                builder.call(self._functions["xjit_event_wait"], [self._ready_event(i)])
        return builder.load(I1, queued, align=1, name="is_queued")

    def _ready_event(self, i: Value) -> Value:
        buffer = self.builder.load(PTR, self.builder.gep(PTR, self._buffers, i), align=8, name="buffer")
        return BUFFER.load(self.builder, buffer, "ready")

    def _new_call(self) -> Value:
        """The record of the call: on the stack, or what the queue will free."""
        builder = self.builder
        place = builder.alloca(PTR, align=8, name="place")
        size = builder.call(self._functions["xjit_call_size"], [self._executable], name="size")
        builder.store(builder.alloca_many(I8, size, align=16, name="call"), place, align=8)
        with builder.when(self._is_queued):
            builder.store(builder.call(builder.module.declare("malloc", PTR, [I64]), [size]), place, align=8)
        call = builder.load(PTR, place, align=8, name="call")
        is_ordered = builder.icmp_signed("==", self._fixed("calls_functions"), builder.i64(0))
        self._in_order = builder.and_(self._is_queued, is_ordered)
        builder.call(self._functions["xjit_call_init"], [call, self._executable])
        size = builder.mul(self._num_parameters, builder.i64(8))
        builder.memcpy(CALL.load(builder, call, "arguments"), self._buffers, size, align=8)
        return call

    def _field(self, field: str, i: Value) -> Value:
        """The place of entry `i` of an array of the call."""
        return self.builder.gep(PTR, CALL.load(self.builder, self._call, field), i)

    def _hold_arguments(self) -> None:
        """Nobody may free or overwrite what this call reads."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            buffer = buffer_of(builder, self._call, "arguments", i)
            held = builder.call(self._functions["xjit_buffer_hold"], [buffer, builder.i64(HOLD)], name="held")
            with builder.when(builder.not_(held)):
                self._give_up(i)
                status = builder.i64(ARGUMENT_DELETED)
                builder.ret(status_error(builder, self._executable, status, i, builder.i64(0)))
            leaf = ARRAY.load(builder, ARRAY.element(builder, self._fixed("parameters"), i), "leaf")
            with builder.when(builder.icmp_signed(">=", leaf, builder.i64(0))):
                builder.store(BUFFER.load(builder, buffer, "data"), self._field("inputs", leaf), align=8)

    def _give_up(self, num_held: Value) -> None:
        """Lets go of the first arguments and of the record, of a call that does not take place."""
        builder = self.builder
        builder.call(self._functions["xjit_call_release_arguments"], [self._call, num_held])
        with builder.when(self._is_queued):
            builder.call(builder.module.declare("free", VOID, [PTR]), [self._call])

    def _take_donations(self) -> None:
        """Deletes donated arguments. Memory that nobody else needs is taken: `donated` is its address then, else 0."""
        builder = self.builder
        donated = CALL.load(builder, self._call, "donated")
        request = [self._executable, self._asked("options"), self._buffers, donated]
        error = builder.call(self._functions["xjit_claim_donations"], request, name="error")
        with builder.when(builder.not_(builder.is_null(error))):
            self._give_up(self._num_parameters)
            builder.ret(error)
        parameters = self._fixed("parameters")
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            taken = builder.gep(I64, donated, i)
            with builder.when(builder.icmp_signed("==", builder.load(I64, taken, align=8), builder.i64(CLAIMED))):
                to = ARRAY.load(builder, ARRAY.element(builder, parameters, i), "donated_to")
                self._take(buffer_of(builder, self._call, "arguments", i), to, taken)

    def _take(self, buffer: Value, to: Value, taken: Value) -> None:
        builder = self.builder
        builder.store(zero(PTR), taken, align=8)
        has_result = builder.icmp_signed("!=", to, builder.i64(DONATED_WITHOUT_RESULT))
        with builder.when(has_result):
            data = builder.call(self._functions["xjit_buffer_take"], [buffer, self._in_order], name="taken")
            builder.store(data, taken, align=8)
        with builder.when(builder.not_(has_result)):
            builder.call(self._functions["xjit_buffer_drop_data"], [buffer, builder.i64(HOLD)])

    def _make_outputs(self) -> None:
        """Memory for the results: that of a donated argument, or new. Without any, the call fails."""
        builder = self.builder
        arrays = self._fixed("results")
        with builder.loop(builder.i64(0), self._num_results) as i:
            array, place = ARRAY.element(builder, arrays, i), self._field("data", i)
            builder.store(zero(PTR), place, align=8)
            source = ARRAY.load(builder, array, "donated_from")
            with builder.when(builder.icmp_signed(">=", source, builder.i64(0))):
                builder.store(builder.load(PTR, self._field("donated", source), align=8), place, align=8)
            with builder.when(builder.is_null(builder.load(PTR, place, align=8))):
                builder.store(allocate(builder, ARRAY.load(builder, array, "num_bytes")), place, align=8)
        with builder.loop(builder.i64(0), self._num_results) as i:
            array = ARRAY.element(builder, arrays, i)
            data = builder.load(PTR, self._field("data", i), align=8)
            with builder.when(builder.is_null(data)):
                self._fail(out_of_memory(builder, self._executable, ARRAY.load(builder, array, "num_bytes")))
            leaf = ARRAY.load(builder, array, "leaf")
            with builder.when(builder.icmp_signed(">=", leaf, builder.i64(0))):
                builder.store(data, self._field("outputs", leaf), align=8)

    def _fail(self, error: Value) -> None:
        """Ends a call without results. What it has taken goes back to the arguments: their last holder frees it."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._num_results) as i:
            place = self._field("data", i)
            source = ARRAY.load(builder, ARRAY.element(builder, self._fixed("results"), i), "donated_from")
            with builder.when(builder.icmp_signed(">=", source, builder.i64(0))):
                taken = builder.load(PTR, self._field("donated", source), align=8, name="taken")
                with builder.when(builder.not_(builder.is_null(taken))):
                    BUFFER.store(builder, buffer_of(builder, self._call, "arguments", source), "data", taken)
                    builder.store(zero(PTR), place, align=8)
            data = builder.load(PTR, place, align=8)
            builder.call(builder.module.declare("xjit_scratch_free", VOID, [PTR]), [data])
        self._give_up(self._num_parameters)
        builder.ret(error)

    def _enqueue(self) -> None:
        builder = self.builder
        event = builder.call(self._functions["xjit_event_new"], [builder.i64(0), zero(PTR)], name="event")
        CALL.store(builder, self._call, "event", event)
        self._make_results(event)
        with builder.loop(builder.i64(0), self._num_results) as i:
            result = buffer_of(builder, self._call, "results", i)
            builder.call(self._functions["xjit_buffer_hold"], [result, builder.i64(QUEUED)])
        count(builder, EXECUTABLE.pointer(builder, self._executable, "num_pending"), 1)
        self._complete(event)
        apart = builder.icmp_signed("!=", self._fixed("calls_functions"), builder.i64(0))
        with builder.when(apart):
            builder.call(self._functions["xjit_job_run_apart"], [self._call])
        with builder.when(builder.not_(apart)):
            builder.call(self._functions["xjit_queue_put"], [DEVICE.load(builder, self._device, "queue"), self._call])
        builder.ret(zero(PTR))

    def _run_inline(self) -> None:
        builder = self.builder
        ready = builder.load(PTR, Value(PTR, f"@{READY_EVENT}"), align=8, name="ready")
        event = builder.alloca(PTR, align=8, name="event")
        error = builder.alloca(PTR, align=8, name="error")
        builder.store(builder.call(self._functions["xjit_event_retain"], [ready]), event, align=8)
        builder.store(builder.call(self._functions["xjit_call_failed_input"], [self._call]), error, align=8)
        with builder.when(builder.is_null(builder.load(PTR, error, align=8))):
            builder.store(builder.call(self._functions["xjit_call_run"], [self._call]), error, align=8)
            self._fail_if_out_of_memory(builder.load(PTR, error, align=8))
        failure = builder.load(PTR, error, align=8, name="failure")
        with builder.when(builder.not_(builder.is_null(failure))):
            with builder.when(builder.icmp_signed("!=", self._fixed("returns_errors"), builder.i64(0))):
                self._fail(failure)
            failed = builder.call(self._functions["xjit_event_new"], [builder.i64(READY), failure], name="failed")
            builder.call(self._functions["xjit_event_release"], [ready])
            builder.store(failed, event, align=8)
        found = builder.load(PTR, event, align=8)
        self._make_results(found)
        self._give_up(self._num_parameters)
        self._complete(found)
        builder.call(self._functions["xjit_event_release"], [found])
        builder.ret(zero(PTR))

    def _fail_if_out_of_memory(self, error: Value) -> None:
        builder = self.builder
        with builder.when(builder.not_(builder.is_null(error))):
            code = ERROR.load(builder, error, "code")
            with builder.when(builder.icmp_signed("==", code, builder.i64(ErrorCode.RESOURCE_EXHAUSTED))):
                self._fail(error)

    def _make_results(self, event: Value) -> None:
        """Buffers for the results, ready with an event."""
        builder = self.builder
        arrays = self._fixed("results")
        results = builder.load(PTR, self._asked("output_lists"), align=8, name="results")
        memories = DEVICE.load(builder, self._device, "memories")
        with builder.loop(builder.i64(0), self._num_results) as i:
            builder.call(self._functions["xjit_event_retain"], [event])
            data = builder.load(PTR, self._field("data", i), align=8)
            array = ARRAY.element(builder, arrays, i)
            memory = builder.load(PTR, builder.gep(PTR, memories, ARRAY.load(builder, array, "memory")), align=8)
            given: Sequence[Value] = [array, data, self._device, memory, event, zero(PTR)]
            made = builder.call(self._functions["xjit_buffer_new"], given, name="made")
            builder.store(made, self._field("results", i), align=8)
            builder.store(made, builder.gep(PTR, results, i), align=8)

    def _complete(self, event: Value) -> None:
        """Gives the caller the event if it asked for one."""
        builder = self.builder
        events = self._asked("device_complete_events")
        with builder.when(builder.not_(builder.is_null(events))):
            builder.store(builder.call(self._functions["xjit_event_retain"], [event]), events, align=8)
