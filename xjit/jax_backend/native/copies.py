"""Copies of buffers as native code: at once, or once the source is ready.

* `void xjit_copy_start(source, target, event)`: copies all bytes and sets the event, whose reference it takes. What is
  copied from a failed array has failed, too. The caller must not have the GIL.
"""

from __future__ import annotations

from xjit.jax_backend.native.buffers import DELETED_ERROR
from xjit.jax_backend.native.events import EXHAUSTED_ERROR, is_ready, new_error_reference
from xjit.jax_backend.records import BUFFER, COPY, DEVICE, EVENT, HOLD, QUEUED
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR, VOID

COPY_START = "xjit_copy_start"


def define_copies(module: Module) -> None:
    """Defines them. The module must have buffers and queues."""
    _define_work(module)
    _define_awaited(module)
    _define_queued(module)
    _define_start(module)


def _define_work(module: Module) -> None:
    functions = module.functions
    builder = define(module, "xjit_copy_work", [(PTR, "job")])
    (job,) = builder.function.args
    source, target, event = (COPY.load(builder, job, field) for field in ("source", "target", "event"))
    before = BUFFER.load(builder, source, "ready")
    builder.call(functions["xjit_event_wait"], [before])
    error = new_error_reference(builder, before)
    EVENT.store(builder, event, "error", error)
    with builder.when(builder.is_null(error)):
        devices = [BUFFER.load(builder, buffer, "device") for buffer in (source, target)]
        places = [COPY.load(builder, job, "data"), BUFFER.load(builder, target, "data")]
        given = [devices[0], places[0], devices[1], places[1], BUFFER.load(builder, source, "num_bytes")]
        EVENT.store(builder, event, "error", builder.call(functions["xjit_data_copy"], given, name="error"))
    builder.call(functions["xjit_buffer_unhold"], [source, COPY.load(builder, job, "hold")])
    builder.call(functions["xjit_buffer_unhold"], [target, builder.i64(HOLD)])
    builder.call(functions["xjit_event_set"], [event])
    builder.call(functions["xjit_event_release"], [event])
    builder.call(module.declare("free", VOID, [PTR]), [job])
    builder.ret_void()


def _define_awaited(module: Module) -> None:
    builder = define(module, "xjit_copy_awaited", [(PTR, "job")], return_type=PTR)
    ready = BUFFER.load(builder, COPY.load(builder, builder.function.args[0], "source"), "ready")
    builder.ret(builder.call(module.functions["xjit_event_awaited"], [ready], name="event"))


def _define_queued(module: Module) -> None:
    """Later jobs in the queue may overwrite the source: they begin when the copy is done."""
    builder = define(module, "xjit_copy_queued", [(PTR, "job")])
    (job,) = builder.function.args
    COPY.store(builder, job, "hold", builder.i64(QUEUED))
    EVENT.store_atomic(builder, COPY.load(builder, job, "event"), "in_queue", builder.i64(1), "release")
    builder.call(module.functions["xjit_buffer_queue"], [COPY.load(builder, job, "source")])
    builder.ret_void()


def _define_start(module: Module) -> None:
    functions = module.functions
    builder = define(module, COPY_START, [(PTR, "source"), (PTR, "target"), (PTR, "event")], linkage="")
    source, target, event = builder.function.args
    hold = builder.i64(HOLD)
    job = builder.call(module.declare("malloc", PTR, [I64]), [builder.i64(COPY.size)], name="job")
    with builder.when(builder.is_null(job)):
        _fail(builder, event, EXHAUSTED_ERROR)
        builder.ret_void()
    held = builder.call(functions["xjit_buffer_hold"], [source, hold], name="held")
    with builder.when(builder.not_(held)):
        _fail(builder, event, DELETED_ERROR)
        builder.call(module.declare("free", VOID, [PTR]), [job])
        builder.ret_void()
    builder.call(functions["xjit_buffer_hold"], [target, hold])
    does = {"run": "work", "queued": "queued", "awaited": "awaited"}
    functions_of_job = {field: Value(PTR, f"@xjit_copy_{name}") for field, name in does.items()}
    data = BUFFER.load(builder, source, "data")
    fields = {**functions_of_job, "hold": hold, "source": source, "data": data, "target": target, "event": event}
    for field, value in fields.items():
        COPY.store(builder, job, field, value)
    with builder.when(is_ready(builder, BUFFER.load(builder, source, "ready"))):
        builder.call(functions["xjit_copy_work"], [job])
        builder.ret_void()
    queue = DEVICE.load(builder, BUFFER.load(builder, source, "device"), "queue")
    builder.call(functions["xjit_queue_put"], [queue, job])
    builder.ret_void()


def _fail(builder: StructuredBuilder, event: Value, error: str) -> None:
    """Sets the event with a static error."""
    EVENT.store(builder, event, "error", builder.load(PTR, Value(PTR, f"@{error}"), align=8))
    for name in ("xjit_event_set", "xjit_event_release"):
        builder.call(builder.module.functions[name], [event])
