"""Execution as native code: one call of a program on one device, from buffers to buffers, without Python.

A failure of the program becomes the error of its results, as an asynchronous failure would: callers raise it where the
values are used. What is wrong with the request itself (a deleted argument) is the error of the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.jax_backend.c_api import FUNCTIONS
from xjit.jax_backend.native_buffers import DELETED_ERROR, READY_EVENT
from xjit.jax_backend.native_donation import CLAIMED, define_donation
from xjit.jax_backend.native_events import new_error_reference
from xjit.jax_backend.records import ARRAY, BUFFER, DEVICE, DONATED_WITHOUT_RESULT, EVENT, EXECUTABLE
from xjit.llvm import Module, Value
from xjit.llvm.execution_context import EXECUTION_CONTEXT, RuntimeStatus
from xjit.llvm.function import Function
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I8, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

COUNT_ERROR = "xjit_count_error"
"""The variable that holds the address of the error for a wrong number of arguments or devices."""

STATUS_ERROR = "xjit_status_error"
"""The variable of `ptr (*)(executable, i64 status, i64 instruction, i64 detail)`: the error for a program's failure."""


EXECUTE = "LoadedExecutable_Execute"


def define_execute(module: Module, ask: Function) -> None:
    """Defines `EXECUTE`. The module must have buffers. `ask` does it for programs on several devices."""
    for name in (COUNT_ERROR, STATUS_ERROR):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    define_donation(module, STATUS_ERROR)
    _define_new_event(module)
    _Execute(module, ask).emit()


def _define_new_event(module: Module) -> None:
    """`ptr xjit_event_failed(error)`: a ready event that takes the reference to its error."""
    builder = define(module, "xjit_event_failed", [(PTR, "error")], return_type=PTR)
    event = builder.call(module.declare("malloc", PTR, [I64]), [builder.i64(EVENT.size)], name="event")
    EVENT.store(builder, event, "vtable", zero(PTR))
    EVENT.store(builder, event, "references", builder.i64(1))
    EVENT.store(builder, event, "waiting", builder.inttoptr(builder.i64(1), PTR))
    EVENT.store(builder, event, "error", builder.function.args[0])
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
        self._options = self._asked("options")
        self._num_parameters = self._fixed("num_parameters")
        self._num_results = self._fixed("num_results")
        self._inputs = builder.alloca_many(PTR, self._num_parameters, align=16, name="inputs")
        self._outputs = builder.alloca_many(PTR, self._num_results, align=16, name="outputs")
        self._data = builder.alloca_many(PTR, self._num_results, align=16, name="data")
        self._donated = builder.alloca_many(I64, self._num_parameters, align=16, name="donated")
        self._context = builder.alloca(I8, EXECUTION_CONTEXT.size, align=16, name="context")
        self._event = builder.alloca(PTR, align=8, name="event")

    def _ask_for_several(self, ask: Function) -> None:
        """Python runs programs on several devices: it calls this function for each."""
        builder = self.builder
        several = builder.icmp_signed(">", self._fixed("num_devices"), builder.i64(1))
        with builder.when(several):
            builder.ret(builder.call(ask, [self._request], name="answer"))

    def emit(self) -> None:
        builder = self.builder
        self._check_counts()
        buffers = builder.load(PTR, self._asked("argument_lists"), align=8, name="buffers")
        results = builder.load(PTR, self._asked("output_lists"), align=8, name="results")
        self._hold_arguments(buffers)
        self._take_donations(buffers)
        ready = builder.load(PTR, Value(PTR, f"@{READY_EVENT}"), align=8, name="ready")
        builder.store(ready, self._event, align=8)
        self._inherit_errors(buffers)
        self._make_outputs(buffers)
        self._run()
        self._return_error(buffers)
        self._make_results(results)
        self._let_go(buffers)
        self._complete()
        builder.ret(zero(PTR))

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

    def _hold_arguments(self, buffers: Value) -> None:
        """Nobody may free or overwrite what this call reads."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            buffer = builder.load(PTR, builder.gep(PTR, buffers, i), align=8, name="buffer")
            held = builder.call(self._functions["xjit_buffer_hold"], [buffer], name="held")
            with builder.when(builder.not_(held)):
                self._unhold(buffers, i)
                builder.ret(builder.load(PTR, Value(PTR, f"@{DELETED_ERROR}"), align=8))
            leaf = ARRAY.load(builder, ARRAY.element(builder, self._fixed("parameters"), i), "leaf")
            with builder.when(builder.icmp_signed(">=", leaf, builder.i64(0))):
                builder.store(BUFFER.load(builder, buffer, "data"), builder.gep(PTR, self._inputs, leaf), align=8)

    def _take_donations(self, buffers: Value) -> None:
        """Deletes donated arguments. The memory of one that nobody else holds is taken: `donated` is 1 then, else 0."""
        builder = self.builder
        request = [self._executable, self._options, buffers, self._donated]
        error = builder.call(self._functions["xjit_claim_donations"], request, name="error")
        with builder.when(builder.not_(builder.is_null(error))):
            self._unhold(buffers, self._num_parameters)
            builder.ret(error)
        parameters = self._fixed("parameters")
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            taken = builder.gep(I64, self._donated, i)
            with builder.when(builder.icmp_signed("==", builder.load(I64, taken, align=8), builder.i64(CLAIMED))):
                to = ARRAY.load(builder, ARRAY.element(builder, parameters, i), "donated_to")
                self._take(builder.load(PTR, builder.gep(PTR, buffers, i), align=8), to, taken)

    def _take(self, buffer: Value, to: Value, taken: Value) -> None:
        builder = self.builder
        builder.store(builder.i64(0), taken, align=8)
        has_result = builder.icmp_signed("!=", to, builder.i64(DONATED_WITHOUT_RESULT))
        is_ours = builder.is_null(BUFFER.load(builder, buffer, "host_event"))
        with builder.when(builder.and_(has_result, is_ours)):
            holds = BUFFER.pointer(builder, buffer, "holds")
            _, alone = builder.cmpxchg(holds, builder.i64(2), builder.i64(0))
            with builder.when(alone):
                builder.store(builder.i64(1), taken, align=8)
        kept = builder.icmp_signed("==", builder.load(I64, taken, align=8), builder.i64(0))
        with builder.when(kept):
            builder.call(self._functions["xjit_buffer_drop_data"], [buffer])

    def _unhold(self, buffers: Value, count: Value) -> None:
        """Lets go of the first arguments."""
        builder = self.builder
        with builder.loop(builder.i64(0), count) as i:
            buffer = builder.load(PTR, builder.gep(PTR, buffers, i), align=8)
            builder.call(self._functions["xjit_buffer_unhold"], [buffer])

    def _inherit_errors(self, buffers: Value) -> None:
        """What is computed from a failed array has failed, too."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            buffer = builder.load(PTR, builder.gep(PTR, buffers, i), align=8, name="buffer")
            event = BUFFER.load(builder, buffer, "ready")
            with builder.when(builder.not_(builder.is_null(EVENT.load(builder, event, "error")))):
                builder.store(event, self._event, align=8)
        event = builder.load(PTR, self._event, align=8)
        builder.call(self._functions["xjit_event_retain"], [event])

    def _make_outputs(self, buffers: Value) -> None:
        """Memory for the results: that of a donated argument, or new. Without any, the call fails."""
        builder = self.builder
        arrays = self._fixed("results")
        with builder.loop(builder.i64(0), self._num_results) as i:
            array = ARRAY.element(builder, arrays, i)
            place = builder.gep(PTR, self._data, i)
            builder.store(zero(PTR), place, align=8)
            source = ARRAY.load(builder, array, "donated_from")
            with builder.when(builder.icmp_signed(">=", source, builder.i64(0))):
                taken = builder.load(I64, builder.gep(I64, self._donated, source), align=8)
                with builder.when(builder.icmp_signed("!=", taken, builder.i64(0))):
                    buffer = builder.load(PTR, builder.gep(PTR, buffers, source), align=8)
                    builder.store(BUFFER.load(builder, buffer, "data"), place, align=8)
            with builder.when(builder.is_null(builder.load(PTR, place, align=8))):
                num_bytes = ARRAY.load(builder, array, "num_bytes")
                data = self._allocate(builder.intrinsic("smax", I64, [num_bytes, builder.i64(1)]))
                builder.store(data, place, align=8)
                with builder.when(builder.is_null(data)):
                    self._fail(RuntimeStatus.RESOURCE_EXHAUSTED, num_bytes)
            leaf = ARRAY.load(builder, array, "leaf")
            with builder.when(builder.icmp_signed(">=", leaf, builder.i64(0))):
                builder.store(builder.load(PTR, place, align=8), builder.gep(PTR, self._outputs, leaf), align=8)

    def _allocate(self, num_bytes: Value) -> Value:
        allocate = self.builder.module.declare("xjit_scratch_alloc", PTR, [I64])
        return self.builder.call(allocate, [num_bytes], name="data")

    def _fail(self, status: RuntimeStatus | Value, detail: Value, instruction: Value | None = None) -> None:
        """Notes the first failure: asks Python for its error and puts it into the event of the results."""
        builder = self.builder
        event = builder.load(PTR, self._event, align=8)
        with builder.when(builder.is_null(EVENT.load(builder, event, "error"))):
            number = builder.sext(status, I64) if isinstance(status, Value) else builder.i64(status)
            place = builder.sext(instruction, I64) if instruction is not None else builder.i64(-1)
            function = builder.load(PTR, Value(PTR, f"@{STATUS_ERROR}"), align=8, name="function")
            error = builder.call_pointer(function, PTR, [self._executable, number, place, detail], name="error")
            failed = builder.call(self._functions["xjit_event_failed"], [error], name="failed")
            builder.store(failed, self._event, align=8)

    def _has_failed(self) -> Value:
        event = self.builder.load(PTR, self._event, align=8)
        return self.builder.not_(self.builder.is_null(EVENT.load(self.builder, event, "error")))

    def _run(self) -> None:
        builder = self.builder
        with builder.when(builder.not_(self._has_failed())):
            arena_size = self._fixed("arena_size")
            arena = self._allocate(builder.intrinsic("smax", I64, [arena_size, builder.i64(1)]))
            with builder.when(builder.is_null(arena)):
                self._fail(RuntimeStatus.RESOURCE_EXHAUSTED, arena_size)
            with builder.when(builder.not_(builder.is_null(arena))):
                self._call_entry(arena)
                builder.call(builder.module.declare("xjit_scratch_free", VOID, [PTR]), [arena])

    def _call_entry(self, arena: Value) -> None:
        builder = self.builder
        size = builder.i64(EXECUTION_CONTEXT.size)
        builder.memcpy(self._context, self._fixed("initial_context"), size, align=8)
        pointers = [self._fixed("entry"), self._context, self._inputs, self._outputs, arena, self._fixed("constants")]
        call_entry = builder.module.declare("xjit_call_entry", I32, [PTR] * 6 + [I64])
        status = builder.call(call_entry, [*pointers, builder.i64(0)], name="status")  # the caller let go of the GIL
        with builder.when(builder.icmp_signed("!=", status, const_int(I32, 0))):
            detail = EXECUTION_CONTEXT.load(builder, self._context, "detail")
            self._fail(status, detail, EXECUTION_CONTEXT.load(builder, self._context, "failed_instruction"))

    def _return_error(self, buffers: Value) -> None:
        """Of programs that say so, a failure is that of the call, which then has no results."""
        builder = self.builder
        returns = builder.icmp_signed("!=", self._fixed("returns_errors"), builder.i64(0))
        with builder.when(builder.and_(returns, self._has_failed())):
            with builder.loop(builder.i64(0), self._num_results) as i:
                data = builder.load(PTR, builder.gep(PTR, self._data, i), align=8)
                with builder.when(builder.not_(builder.is_null(data))):
                    builder.call(builder.module.declare("xjit_scratch_free", VOID, [PTR]), [data])
            self._let_go(buffers)
            event = builder.load(PTR, self._event, align=8)
            error = new_error_reference(builder, event)
            builder.call(self._functions["xjit_event_release"], [event])
            builder.ret(error)

    def _make_results(self, results: Value) -> None:
        builder = self.builder
        arrays = self._fixed("results")
        default = builder.load(PTR, self._fixed("devices"), align=8)
        asked = self._asked("execute_device")
        device = builder.select(builder.is_null(asked), default, asked)
        memories = DEVICE.load(builder, device, "memories")
        event = builder.load(PTR, self._event, align=8)
        with builder.loop(builder.i64(0), self._num_results) as i:
            builder.call(self._functions["xjit_event_retain"], [event])
            data = builder.load(PTR, builder.gep(PTR, self._data, i), align=8)
            array = ARRAY.element(builder, arrays, i)
            memory = builder.load(PTR, builder.gep(PTR, memories, ARRAY.load(builder, array, "memory")), align=8)
            given: Sequence[Value] = [array, data, device, memory, event, zero(PTR)]
            made = builder.call(self._functions["xjit_buffer_new"], given, name="made")
            builder.store(made, builder.gep(PTR, results, i), align=8)

    def _let_go(self, buffers: Value) -> None:
        """Of the arguments; the data of a donated one belongs to a result now."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            buffer = builder.load(PTR, builder.gep(PTR, buffers, i), align=8, name="buffer")
            taken = builder.load(I64, builder.gep(I64, self._donated, i), align=8)
            with builder.when(builder.icmp_signed("==", taken, builder.i64(0))):
                builder.call(self._functions["xjit_buffer_drop_data"], [buffer])
            builder.call(self._functions["xjit_buffer_drop_struct"], [buffer])

    def _complete(self) -> None:
        """Gives the reference to the event to the caller if it asked for one."""
        builder = self.builder
        events = self._asked("device_complete_events")
        event = builder.load(PTR, self._event, align=8)
        with builder.when(builder.is_null(events)):
            builder.call(self._functions["xjit_event_release"], [event])
            builder.ret(zero(PTR))
        builder.store(event, events, align=8)
