"""Buffers as native code: their counts, their end, and copies of row-major arrays.

A buffer's data lives while anything holds it: the owner until the buffer is deleted or destroyed, external references
(a NumPy view), calls that read or make it. The struct lives a little longer, until the last of those has let go.

* `i1 xjit_buffer_hold(buffer, i64 hold)`: one more hold, `HOLD` or `QUEUED`, unless the buffer is deleted.
* `void xjit_buffer_unhold(buffer, i64 hold)`, `i1 xjit_buffer_disown(buffer)` (delete).
* `void xjit_buffer_queue(buffer)`: a `HOLD` becomes `QUEUED`. Only a job that has its place in the queue may do this.
* `ptr xjit_buffer_take(buffer, i1 in_order)`: the data of a buffer that the caller disowned and holds; null if others
  need it. With `in_order` the caller goes to the queue.
* `ptr xjit_buffer_new(array, data, device, memory, ready, host_event)`: takes the references it is given.
"""

from __future__ import annotations

from xjit.jax_backend.c_api import FUNCTIONS
from xjit.jax_backend.native.events import count
from xjit.jax_backend.records import ARRAY, BUFFER, DEVICE, HOLD, QUEUED
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

READY_EVENT = "xjit_ready_event"
"""The variable that holds the address of an event that is always ready, without an error."""


def define_buffers(module: Module) -> None:
    """Defines them. The module must have errors, events and the memory of devices."""
    for name in (READY_EVENT, DELETED_ERROR, NOT_ON_HOST_ERROR):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    _define_release(module)
    _define_drop_data(module)
    _define_hold(module)
    _define_unhold(module)
    _define_disown(module)
    _define_queue(module)
    _define_take(module)
    _define_new(module)
    _define_entries(module)


def _define_release(module: Module) -> None:
    """Drops a reference to the struct."""
    builder = define(module, "xjit_buffer_drop_struct", [(PTR, "buffer")])
    (buffer,) = builder.function.args
    before = count(builder, BUFFER.pointer(builder, buffer, "references"), -1)
    with builder.when(builder.icmp_signed("==", before, builder.i64(1))):
        builder.call(module.functions["xjit_event_release"], [BUFFER.load(builder, buffer, "ready")])
        builder.call(module.declare("free", VOID, [PTR]), [buffer])
    builder.ret_void()


def _define_drop_data(module: Module) -> None:
    """Drops a hold of the data, and frees it or gives it back to the caller's program with the last."""
    builder = define(module, "xjit_buffer_drop_data", [(PTR, "buffer"), (I64, "hold")])
    buffer, hold = builder.function.args
    before = builder.atomicrmw("sub", BUFFER.pointer(builder, buffer, "holds"), hold, "acq_rel", "before")
    with builder.when(builder.icmp_signed("==", before, hold)):
        event = BUFFER.load(builder, buffer, "host_event")
        with builder.when(builder.is_null(event)):
            place = [BUFFER.load(builder, buffer, field) for field in ("device", "data")]
            builder.call(module.functions["xjit_data_free"], place)
            builder.ret_void()
        builder.call(module.functions["xjit_event_set"], [event])
        builder.call(module.functions["xjit_event_release"], [event])
    builder.ret_void()


def _define_hold(module: Module) -> None:
    """Looks whether the buffer is deleted when it has the hold: one that is taken meanwhile is deleted before."""
    builder = define(module, "xjit_buffer_hold", [(PTR, "buffer"), (I64, "hold")], linkage="", return_type=I1)
    buffer, hold = builder.function.args
    holds = BUFFER.pointer(builder, buffer, "holds")
    with builder.repeat() as loop:
        found = builder.load_atomic(I64, holds, align=8)
        with builder.when(builder.icmp_signed("==", found, builder.i64(0))):
            builder.ret(const_int(I1, 0))
        _, is_swapped = builder.cmpxchg(holds, found, builder.add(found, hold))
        loop.leave_if(is_swapped)
    deleted = BUFFER.load_atomic(builder, buffer, "is_deleted", "acquire")
    with builder.when(builder.icmp_signed("!=", deleted, const_int(I32, 0))):
        builder.call(module.functions["xjit_buffer_drop_data"], [buffer, hold])
        builder.ret(const_int(I1, 0))
    count(builder, BUFFER.pointer(builder, buffer, "references"), 1)
    builder.ret(const_int(I1, 1))


def _define_unhold(module: Module) -> None:
    builder = define(module, "xjit_buffer_unhold", [(PTR, "buffer"), (I64, "hold")], linkage="")
    builder.call(module.functions["xjit_buffer_drop_data"], builder.function.args)
    builder.call(module.functions["xjit_buffer_drop_struct"], builder.function.args[:1])
    builder.ret_void()


def _define_queue(module: Module) -> None:
    builder = define(module, "xjit_buffer_queue", [(PTR, "buffer")])
    holds = BUFFER.pointer(builder, builder.function.args[0], "holds")
    builder.atomicrmw("add", holds, builder.i64(QUEUED - HOLD), "acq_rel")
    builder.ret_void()


def _define_take(module: Module) -> None:
    """The owner's hold ends. A caller that goes to the queue may take what those read who are there.

    Memory of the caller's program is never taken.
    """
    builder = define(module, "xjit_buffer_take", [(PTR, "buffer"), (I1, "in_order")], return_type=PTR)
    buffer, in_order = builder.function.args
    holds = BUFFER.pointer(builder, buffer, "holds")
    matters = builder.select(in_order, builder.i64(QUEUED - 1), builder.i64(-1))
    alone = builder.i64(2 * HOLD)
    with builder.when(builder.is_null(BUFFER.load(builder, buffer, "host_event"))), builder.repeat() as loop:
        found = builder.load_atomic(I64, holds, align=8)
        loop.leave_if(builder.icmp_signed("!=", builder.and_(found, matters), alone))
        _, is_swapped = builder.cmpxchg(holds, found, builder.sub(found, builder.i64(HOLD)))
        with builder.when(is_swapped):
            data = BUFFER.load(builder, buffer, "data")
            BUFFER.store(builder, buffer, "data", zero(PTR))
            builder.ret(data)
    builder.call(module.functions["xjit_buffer_drop_data"], [buffer, builder.i64(HOLD)])
    builder.ret(zero(PTR))


def _define_disown(module: Module) -> None:
    """`i1`: whether the buffer was not deleted before. The owner's hold is the caller's now."""
    builder = define(module, "xjit_buffer_disown", [(PTR, "buffer")], return_type=I1)
    (buffer,) = builder.function.args
    place = BUFFER.pointer(builder, buffer, "is_deleted")
    before = builder.atomicrmw("xchg", place, const_int(I32, 1), "acq_rel")
    builder.ret(builder.icmp_signed("==", before, const_int(I32, 0)))


def _define_new(module: Module) -> None:
    names = ("array", "data", "device", "memory", "ready", "host_event")
    builder = define(module, "xjit_buffer_new", [(PTR, name) for name in names], linkage="", return_type=PTR)
    array, data, device, memory, ready, host_event = builder.function.args
    rank = ARRAY.load(builder, array, "rank")
    row = builder.mul(rank, builder.i64(8))
    size = builder.add(builder.i64(BUFFER.size), builder.mul(row, builder.i64(2)))
    made = builder.call(module.declare("malloc", PTR, [I64]), [size], name="made")
    with builder.when(builder.is_null(made)):
        builder.ret(made)
    builder.memset(made, const_int(I8, 0), builder.i64(BUFFER.size), align=8)
    dimensions = builder.offset(made, builder.i64(BUFFER.size))
    order = builder.offset(dimensions, row)
    builder.memcpy(dimensions, ARRAY.load(builder, array, "dimensions"), row, align=8)
    given = ARRAY.load(builder, array, "minor_to_major")
    with builder.when(builder.not_(builder.is_null(given))):
        builder.memcpy(order, given, row, align=8)
    with builder.when(builder.is_null(given)), builder.loop(builder.i64(0), rank) as i:
        major = builder.sub(builder.sub(rank, builder.i64(1)), i)
        builder.store(major, builder.gep(I64, order, i), align=8)
    one = builder.i64(1)
    values = {
        "references": one, "holds": one, "data": data, "num_bytes": ARRAY.load(builder, array, "num_bytes"),
        "type": builder.trunc(ARRAY.load(builder, array, "type"), I32), "rank": rank, "dimensions": dimensions,
        "minor_to_major": order, "tiles": ARRAY.load(builder, array, "tiles"),
        "device": device, "memory": memory, "ready": ready, "host_event": host_event,
        "is_on_host": DEVICE.load(builder, device, "is_host"),
    }  # fmt: skip
    for field, value in values.items():
        BUFFER.store(builder, made, field, value)
    builder.ret(made)


def _entry(module: Module, name: str) -> tuple[StructuredBuilder, Value, Value]:
    """The builder of an API function on a buffer, its struct, and the buffer."""
    builder = define(module, name, [(PTR, "args")], linkage="", return_type=PTR)
    (request,) = builder.function.args
    arguments = FUNCTIONS[name]
    return builder, request, arguments.load(builder, request, "buffer")


def _define_entries(module: Module) -> None:
    functions = module.functions
    builder, _, buffer = _entry(module, "Buffer_Delete")
    _delete(builder, buffer)
    builder.ret(zero(PTR))

    builder, _, buffer = _entry(module, "Buffer_Destroy")
    _delete(builder, buffer)
    builder.call(functions["xjit_buffer_drop_struct"], [buffer])
    builder.ret(zero(PTR))

    builder, request, buffer = _entry(module, "Buffer_ReadyEvent")
    event = builder.call(functions["xjit_event_retain"], [BUFFER.load(builder, buffer, "ready")], name="event")
    FUNCTIONS["Buffer_ReadyEvent"].store(builder, request, "event", event)
    builder.ret(zero(PTR))

    builder, _, buffer = _entry(module, "Buffer_IncreaseExternalReferenceCount")
    is_on_host = BUFFER.load(builder, buffer, "is_on_host")
    with builder.when(builder.icmp_signed("==", is_on_host, const_int(I32, 0))):
        builder.ret(builder.load(PTR, Value(PTR, f"@{NOT_ON_HOST_ERROR}"), align=8))
    held = builder.call(functions["xjit_buffer_hold"], [buffer, builder.i64(HOLD)], name="held")
    with builder.when(builder.not_(held)):
        builder.ret(builder.load(PTR, Value(PTR, f"@{DELETED_ERROR}"), align=8))
    count(builder, BUFFER.pointer(builder, buffer, "external_references"), 1)
    builder.ret(zero(PTR))

    builder, _, buffer = _entry(module, "Buffer_DecreaseExternalReferenceCount")
    count(builder, BUFFER.pointer(builder, buffer, "external_references"), -1)
    builder.call(functions["xjit_buffer_unhold"], [buffer, builder.i64(HOLD)])
    builder.ret(zero(PTR))

    for name, field in (
        ("Buffer_UnsafePointer", "buffer_pointer"),
        ("Buffer_OpaqueDeviceMemoryDataPointer", "device_memory_ptr"),
    ):
        _define_address(module, name, field)


def _define_address(module: Module, name: str, field: str) -> None:
    builder, request, buffer = _entry(module, name)
    with builder.when(builder.icmp_signed("!=", BUFFER.load(builder, buffer, "is_deleted"), const_int(I32, 0))):
        builder.ret(builder.load(PTR, Value(PTR, f"@{DELETED_ERROR}"), align=8))
    arguments, data = FUNCTIONS[name], BUFFER.load(builder, buffer, "data")
    arguments.store(builder, request, field, data if arguments.type_of(field) is PTR else builder.ptrtoint(data, I64))
    builder.ret(zero(PTR))


DELETED_ERROR = "xjit_deleted_error"
"""The variable that holds the address of the error for buffers that were deleted or donated."""

NOT_ON_HOST_ERROR = "xjit_not_on_host_error"
"""The variable that holds the address of the error for views of memory that is a device's."""


def _delete(builder: StructuredBuilder, buffer: Value) -> None:
    functions = builder.module.functions
    with builder.when(builder.call(functions["xjit_buffer_disown"], [buffer], name="was_owned")):
        builder.call(functions["xjit_buffer_drop_data"], [buffer, builder.i64(HOLD)])
