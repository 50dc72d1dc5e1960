"""Calls of programs on several devices as native code: a call of each part, all of them or none.

* `ptr xjit_execute_on_several(request)`: the request of `LoadedExecutable_Execute`.

Parts that do not meet run or wait on their own, as programs of one device do. Those that do are a group: it goes to the
queues in any case, as the devices need threads of their own.
"""

from __future__ import annotations

from xjit.jax_backend.c_api import FUNCTIONS
from xjit.jax_backend.native.events import EXHAUSTED_ERROR
from xjit.jax_backend.native.execute import EXECUTE, answer_error, is_asynchronous
from xjit.jax_backend.native.groups import OPEN_GROUP, call_of
from xjit.jax_backend.native.questions import UNANSWERED, UNANSWERED_ERROR, ask
from xjit.jax_backend.records import CALL, DEVICE, DISPATCH_TOGETHER, EXECUTABLE, GROUP
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I64, PTR, VOID
from xjit.llvm.values import zero


def define_sharded_execute(module: Module) -> None:
    """Defines it. The module must have groups, and the parts of `EXECUTE`."""
    _define_prepare(module)
    _Execute(module).emit()


def _define_prepare(module: Module) -> None:
    """`ptr xjit_group_prepare(group, executable, options, argument_lists, i1 is_queued)`: all calls of a new group.

    Returns null; or an error, and the group has ended.
    """
    functions = module.functions
    names = ("group", "executable", "options", "argument_lists")
    parameters = [*((PTR, name) for name in names), (I1, "is_queued")]
    builder = define(module, "xjit_group_prepare", parameters, return_type=PTR)
    group, executable, options, argument_lists, is_queued = builder.function.args
    with builder.loop(builder.i64(0), GROUP.load(builder, group, "count")) as i:
        part = EXECUTABLE.element(builder, EXECUTABLE.load(builder, executable, "parts"), i)
        size = builder.call(functions["xjit_call_size"], [part], name="size")
        call = builder.call(module.declare("malloc", PTR, [I64]), [size], name="call")
        with builder.when(builder.is_null(call)):
            builder.call(functions["xjit_group_abandon"], [group, i])
            answer_error(builder, EXHAUSTED_ERROR)
        builder.store(call, builder.gep(PTR, GROUP.load(builder, group, "calls"), i), align=8)
        device = builder.load(PTR, EXECUTABLE.load(builder, part, "devices"), align=8, name="device")
        buffers = builder.load(PTR, builder.gep(PTR, argument_lists, i), align=8, name="buffers")
        builder.call(functions["xjit_call_init"], [call, part, device, buffers])
        error = builder.call(functions["xjit_call_prepare"], [call, options, is_queued], name="error")
        with builder.when(builder.not_(builder.is_null(error))):
            builder.call(module.declare("free", VOID, [PTR]), [call])
            builder.call(functions["xjit_group_abandon"], [group, i])
            builder.ret(error)
    builder.ret(zero(PTR))


class _Execute:
    """Emits `xjit_execute_on_several`."""

    def __init__(self, module: Module) -> None:
        self._functions = module.functions
        self._free = module.declare("free", VOID, [PTR])
        self._arguments = FUNCTIONS[EXECUTE]
        self.builder: StructuredBuilder = define(module, "xjit_execute_on_several", [(PTR, "request")], return_type=PTR)
        (self._request,) = self.builder.function.args
        self._executable = self._asked("executable")
        self._parts = EXECUTABLE.load(self.builder, self._executable, "parts")
        self._count = EXECUTABLE.load(self.builder, self._executable, "num_devices")

    def emit(self) -> None:
        builder = self.builder
        dispatch = EXECUTABLE.load(builder, self._executable, "dispatch")
        self._meet = builder.icmp_signed("==", dispatch, builder.i64(DISPATCH_TOGETHER))
        with builder.when(self._meet):
            self._start_workers()
        is_queued = self._must_queue()
        group = builder.call(self._functions["xjit_group_new"], [self._executable], name="group")
        with builder.when(builder.is_null(group)):
            answer_error(builder, EXHAUSTED_ERROR)
        asked = [self._asked(name) for name in ("options", "argument_lists")]
        request = [group, self._executable, *asked, is_queued]
        error = builder.call(self._functions["xjit_group_prepare"], request, name="error")
        with builder.when(builder.not_(builder.is_null(error))):
            builder.ret(error)
        with builder.when(self._meet):
            self._enqueue_together(group)
        with builder.when(is_queued):
            self._enqueue(group)
            with builder.loop(builder.i64(0), self._count) as i:
                builder.call(self._functions["xjit_call_put"], [call_of(builder, group, i)])
            self._end(group)
        self._run_inline(group)

    def _asked(self, field: str) -> Value:
        return self._arguments.load(self.builder, self._request, field)

    def _end(self, group: Value) -> None:
        self.builder.call(self._free, [group])
        self.builder.ret(zero(PTR))

    def _part(self, i: Value) -> Value:
        return EXECUTABLE.element(self.builder, self._parts, i)

    def _start_workers(self) -> None:
        builder = self.builder
        calls_functions = EXECUTABLE.load(builder, self._executable, "calls_functions")
        with (
            builder.when(builder.icmp_signed("==", calls_functions, builder.i64(0))),
            builder.loop(builder.i64(0), self._count) as i,
        ):
            devices = EXECUTABLE.load(builder, self._executable, "devices")
            device = builder.load(PTR, builder.gep(PTR, devices, i), align=8, name="device")
            queue = DEVICE.load(builder, device, "queue")
            has_worker = builder.call(self._functions["xjit_queue_start"], [queue], name="has_worker")
            with builder.when(builder.not_(has_worker)):
                answer_error(builder, EXHAUSTED_ERROR)

    def _must_queue(self) -> Value:
        """Whether any part must; of those that meet all do."""
        builder = self.builder
        queued = builder.alloca(I1, align=1, name="queued")
        builder.store(self._meet, queued, align=1)
        lists = self._asked("argument_lists")
        with builder.when(builder.not_(self._meet)), builder.loop(builder.i64(0), self._count) as i:
            buffers = builder.load(PTR, builder.gep(PTR, lists, i), align=8, name="buffers")
            must = builder.call(self._functions["xjit_must_queue"], [self._part(i), buffers], name="must")
            builder.store(builder.or_(must, builder.load(I1, queued, align=1)), queued, align=1)
        return builder.load(I1, queued, align=1, name="is_queued")

    def _places(self, i: Value) -> tuple[Value, Value]:
        """Where the results and the event of a part go; null for an event that nobody asks for."""
        builder = self.builder
        outputs = builder.load(PTR, builder.gep(PTR, self._asked("output_lists"), i), align=8, name="outputs")
        events = self._asked("device_complete_events")
        return outputs, builder.select(builder.is_null(events), zero(PTR), builder.gep(PTR, events, i))

    def _enqueue(self, group: Value) -> None:
        builder = self.builder
        with builder.loop(builder.i64(0), self._count) as i:
            given = [call_of(builder, group, i), *self._places(i)]
            builder.call(self._functions["xjit_call_enqueue"], given)

    def _enqueue_together(self, group: Value) -> None:
        builder, functions = self.builder, self._functions
        number = ask(builder, OPEN_GROUP, self._executable, self._count)
        with builder.when(builder.icmp_signed("==", number, builder.i64(UNANSWERED))):
            builder.call(functions["xjit_group_abandon"], [group, self._count])
            answer_error(builder, UNANSWERED_ERROR)
        events = builder.alloca_many(PTR, self._count, align=8, name="events")
        with builder.loop(builder.i64(0), self._count) as i:
            call = call_of(builder, group, i)
            CALL.store(builder, call, "group", number)
            event = builder.call(functions["xjit_event_retain"], [CALL.load(builder, call, "event")], name="event")
            builder.store(event, builder.gep(PTR, events, i), align=8)
        self._enqueue(group)
        builder.call(functions["xjit_group_put"], [group])
        is_waiting = builder.not_(is_asynchronous(builder))
        with builder.loop(builder.i64(0), self._count) as i:
            event = builder.load(PTR, builder.gep(PTR, events, i), align=8, name="event")
            with builder.when(is_waiting):
                builder.call(functions["xjit_event_wait"], [event])
            builder.call(functions["xjit_event_release"], [event])
        builder.ret(zero(PTR))

    def _run_inline(self, group: Value) -> None:
        """Parts return no errors of their own."""
        builder = self.builder
        with builder.loop(builder.i64(0), self._count) as i:
            call = call_of(builder, group, i)
            builder.call(self._functions["xjit_call_run_inline"], [call, *self._places(i)])
            builder.call(self._free, [call])
        self._end(group)
