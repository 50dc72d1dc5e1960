"""What a call needs before it takes place, as native code: it gets all of that, or fails and leaves all as it was.

* `ptr xjit_call_prepare(call, options, i1 is_queued)`: holds the arguments, takes donated ones, and makes the results
  and the event. Returns null, or the error of a call that does not take place; the record stays the caller's.
* `void xjit_call_abandon(call)`: gives all of it back. Donated arguments stay deleted, as in XLA.
"""

from __future__ import annotations

from xjit.jax_backend.native.buffers import READY_EVENT
from xjit.jax_backend.native.calls import buffer_of, out_of_memory, status_error
from xjit.jax_backend.native.donation import ARGUMENT_DELETED, CLAIMED
from xjit.jax_backend.native.events import EXHAUSTED_ERROR
from xjit.jax_backend.records import ARRAY, BUFFER, CALL, DEVICE, DONATED_WITHOUT_RESULT, EXECUTABLE, HOLD
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR, VOID
from xjit.llvm.values import const_int, zero


def define_preparation(module: Module) -> None:
    """Defines both. The module must have calls and donations."""
    _define_abandon(module)
    _Prepare(module).emit()


def _define_abandon(module: Module) -> None:
    """What was taken goes back to the arguments: their last holder frees it."""
    functions, free = module.functions, module.declare("free", VOID, [PTR])
    builder = define(module, "xjit_call_abandon", [(PTR, "call")])
    (call,) = builder.function.args
    executable = CALL.load(builder, call, "executable")
    with builder.loop(builder.i64(0), EXECUTABLE.load(builder, executable, "num_results")) as i:
        builder.call(free, [buffer_of(builder, call, "results", i)])
        place = builder.gep(PTR, CALL.load(builder, call, "data"), i)
        array = ARRAY.element(builder, EXECUTABLE.load(builder, executable, "results"), i)
        source = ARRAY.load(builder, array, "donated_from")
        with builder.when(builder.icmp_signed(">=", source, builder.i64(0))):
            taken = buffer_of(builder, call, "donated", source)
            with builder.when(builder.not_(builder.is_null(taken))):
                BUFFER.store(builder, buffer_of(builder, call, "arguments", source), "data", taken)
                builder.store(zero(PTR), place, align=8)
        data = builder.load(PTR, place, align=8)
        builder.call(functions["xjit_data_free"], [CALL.load(builder, call, "device"), data])
    num_parameters = EXECUTABLE.load(builder, executable, "num_parameters")
    builder.call(functions["xjit_call_release_arguments"], [call, num_parameters])
    event = CALL.load(builder, call, "event")
    with builder.when(builder.not_(builder.is_null(event))):
        builder.call(functions["xjit_event_release"], [event])
    builder.ret_void()


class _Prepare:
    """Emits `xjit_call_prepare`."""

    def __init__(self, module: Module) -> None:
        self._functions = module.functions
        params = [(PTR, "call"), (PTR, "options"), (I1, "is_queued")]
        self.builder: StructuredBuilder = define(module, "xjit_call_prepare", params, return_type=PTR)
        self._call, self._options, self._is_queued = self.builder.function.args
        self._executable = CALL.load(self.builder, self._call, "executable")
        self._num_parameters = self._fixed("num_parameters")
        self._num_results = self._fixed("num_results")

    def emit(self) -> None:
        builder = self.builder
        self._hold_arguments()
        self._take_donations()
        for field in ("data", "results"):
            words = builder.mul(self._num_results, builder.i64(8))
            builder.memset(CALL.load(builder, self._call, field), const_int(I8, 0), words, align=8)
        CALL.store(builder, self._call, "event", zero(PTR))
        self._make_data()
        self._make_event()
        self._make_results()
        builder.ret(zero(PTR))

    def _fixed(self, field: str) -> Value:
        return EXECUTABLE.load(self.builder, self._executable, field)

    def _field(self, field: str, i: Value) -> Value:
        """The place of entry `i` of an array of the call."""
        return self.builder.gep(PTR, CALL.load(self.builder, self._call, field), i)

    def _return(self, error: str) -> None:
        self.builder.ret(self.builder.load(PTR, Value(PTR, f"@{error}"), align=8))

    def _release(self, num_held: Value) -> None:
        self.builder.call(self._functions["xjit_call_release_arguments"], [self._call, num_held])

    def _abandon(self) -> None:
        self.builder.call(self._functions["xjit_call_abandon"], [self._call])

    def _hold_arguments(self) -> None:
        """Nobody may free or overwrite what this call reads."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            buffer = buffer_of(builder, self._call, "arguments", i)
            held = builder.call(self._functions["xjit_buffer_hold"], [buffer, builder.i64(HOLD)], name="held")
            with builder.when(builder.not_(held)):
                self._release(i)
                builder.ret(status_error(builder, self._executable, builder.i64(ARGUMENT_DELETED), i, builder.i64(0)))
            leaf = ARRAY.load(builder, ARRAY.element(builder, self._fixed("parameters"), i), "leaf")
            with builder.when(builder.icmp_signed(">=", leaf, builder.i64(0))):
                builder.store(BUFFER.load(builder, buffer, "data"), self._field("inputs", leaf), align=8)

    def _take_donations(self) -> None:
        """Deletes donated arguments. Memory that nobody else needs is taken: `donated` is its address then, else 0."""
        builder = self.builder
        donated, arguments = (CALL.load(builder, self._call, field) for field in ("donated", "arguments"))
        request = [self._executable, self._options, arguments, donated]
        error = builder.call(self._functions["xjit_claim_donations"], request, name="error")
        with builder.when(builder.not_(builder.is_null(error))):
            self._release(self._num_parameters)
            builder.ret(error)
        parameters = self._fixed("parameters")
        is_ordered = builder.icmp_signed("==", self._fixed("calls_functions"), builder.i64(0))
        in_order = builder.and_(self._is_queued, is_ordered)
        with builder.loop(builder.i64(0), self._num_parameters) as i:
            taken = builder.gep(I64, donated, i)
            with builder.when(builder.icmp_signed("==", builder.load(I64, taken, align=8), builder.i64(CLAIMED))):
                to = ARRAY.load(builder, ARRAY.element(builder, parameters, i), "donated_to")
                self._take(buffer_of(builder, self._call, "arguments", i), to, taken, in_order)

    def _take(self, buffer: Value, to: Value, taken: Value, in_order: Value) -> None:
        builder = self.builder
        builder.store(zero(PTR), taken, align=8)
        has_result = builder.icmp_signed("!=", to, builder.i64(DONATED_WITHOUT_RESULT))
        with builder.when(has_result):
            data = builder.call(self._functions["xjit_buffer_take"], [buffer, in_order], name="taken")
            builder.store(data, taken, align=8)
        with builder.when(builder.not_(has_result)):
            builder.call(self._functions["xjit_buffer_drop_data"], [buffer, builder.i64(HOLD)])

    def _make_data(self) -> None:
        """Memory for the results: that of a donated argument, or new. Without any, the call fails."""
        builder = self.builder
        arrays = self._fixed("results")
        with builder.loop(builder.i64(0), self._num_results) as i:
            array, place = ARRAY.element(builder, arrays, i), self._field("data", i)
            source = ARRAY.load(builder, array, "donated_from")
            with builder.when(builder.icmp_signed(">=", source, builder.i64(0))):
                builder.store(builder.load(PTR, self._field("donated", source), align=8), place, align=8)
            with builder.when(builder.is_null(builder.load(PTR, place, align=8))):
                wanted = [CALL.load(builder, self._call, "device"), ARRAY.load(builder, array, "num_bytes")]
                builder.store(builder.call(self._functions["xjit_data_new"], wanted, name="data"), place, align=8)
        with builder.loop(builder.i64(0), self._num_results) as i:
            array = ARRAY.element(builder, arrays, i)
            data = builder.load(PTR, self._field("data", i), align=8)
            with builder.when(builder.is_null(data)):
                self._abandon()
                builder.ret(out_of_memory(builder, self._executable, ARRAY.load(builder, array, "num_bytes")))
            leaf = ARRAY.load(builder, array, "leaf")
            with builder.when(builder.icmp_signed(">=", leaf, builder.i64(0))):
                builder.store(data, self._field("outputs", leaf), align=8)

    def _make_event(self) -> None:
        """That of the results: a new one, or the one that is always ready."""
        builder = self.builder
        with builder.when(builder.not_(self._is_queued)):
            ready = builder.load(PTR, Value(PTR, f"@{READY_EVENT}"), align=8, name="ready")
            builder.call(self._functions["xjit_event_retain"], [ready])
            CALL.store(builder, self._call, "event", ready)
        with builder.when(self._is_queued):
            made = builder.call(self._functions["xjit_event_new"], [builder.i64(0), zero(PTR)], name="made")
            CALL.store(builder, self._call, "event", made)
            with builder.when(builder.is_null(made)):
                self._abandon()
                self._return(EXHAUSTED_ERROR)

    def _make_results(self) -> None:
        """Buffers for the results, whose events are still to be set."""
        builder = self.builder
        arrays, device = self._fixed("results"), CALL.load(builder, self._call, "device")
        memories = DEVICE.load(builder, device, "memories")
        with builder.loop(builder.i64(0), self._num_results) as i:
            data = builder.load(PTR, self._field("data", i), align=8)
            array = ARRAY.element(builder, arrays, i)
            memory = builder.load(PTR, builder.gep(PTR, memories, ARRAY.load(builder, array, "memory")), align=8)
            given = [array, data, device, memory, zero(PTR), zero(PTR)]
            made = builder.call(self._functions["xjit_buffer_new"], given, name="made")
            builder.store(made, self._field("results", i), align=8)
            with builder.when(builder.is_null(made)):
                self._abandon()
                self._return(EXHAUSTED_ERROR)
