"""Errors and events as native code: callers hold locks while they ask, so nothing here may wait for Python.

* `void xjit_error_release(error)`: drops a reference.
* `ptr xjit_event_new(i64 waiting, error)`: with one reference; takes that to its error. Null if there is no memory.
* `void xjit_event_release(event)`, `ptr xjit_event_retain(event)`.
* `ptr xjit_event_awaited(event)`: itself if it is not ready and no job in a queue makes it so, else null.
* `void xjit_event_set(event)`: makes it ready and calls what waits. `void xjit_event_wait(event)`: sleeps until it is.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.c_api import FUNCTIONS
from xjit.jax_backend.records import CALLBACK, ERROR, EVENT, READY
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

_SEMAPHORE_SIZE = 64
"""At least the bytes of a `sem_t`."""


EXHAUSTED_ERROR: Final = "xjit_exhausted_error"
"""The variable that holds the address of the error for what got no memory."""

EXHAUSTED_EVENT: Final = "xjit_exhausted_event"
"""The variable that holds the address of an event that is always ready, with that error."""

_PAUSE_US: Final = 100
"""How long a thread sleeps that waits for an event without memory to be called back."""


def define_errors(module: Module) -> None:
    """Defines what PJRT asks of errors."""
    for name in (EXHAUSTED_ERROR, EXHAUSTED_EVENT):
        module.add_global(name, PTR, zero(PTR), align=8, linkage="")
    _define_release(module, "xjit_error_release", ERROR.offsets["references"], None)
    args = FUNCTIONS["Error_Destroy"]
    builder = define(module, "Error_Destroy", [(PTR, "args")], linkage="")
    error = args.load(builder, builder.function.args[0], "error")
    with builder.when(builder.not_(builder.is_null(error))):
        builder.call(module.functions["xjit_error_release"], [error])
    builder.ret_void()

    args = FUNCTIONS["Error_Message"]
    builder = define(module, "Error_Message", [(PTR, "args")], linkage="")
    (request,) = builder.function.args
    error = args.load(builder, request, "error")
    for field in ("message", "message_size"):
        args.store(builder, request, field, ERROR.load(builder, error, field))
    builder.ret_void()

    args = FUNCTIONS["Error_GetCode"]
    builder = define(module, "Error_GetCode", [(PTR, "args")], linkage="", return_type=PTR)
    (request,) = builder.function.args
    code = ERROR.load(builder, args.load(builder, request, "error"), "code")
    args.store(builder, request, "code", builder.trunc(code, I32))
    builder.ret(zero(PTR))


def define_events(module: Module) -> None:
    """Defines events. The module must have `define_errors`."""
    _define_release(module, "xjit_event_release", EVENT.offsets["references"], "error")
    _define_new(module)
    _define_retain(module)
    _define_set(module)
    _define_destroy(module)
    _define_is_ready(module)
    _define_error(module)
    _define_listen(module)
    _define_wait(module)
    _define_awaited(module)
    _define_await(module)
    _define_on_ready(module)


def count(builder: StructuredBuilder, place: Value, by: int) -> Value:
    """Changes a count; the number before."""
    return builder.atomicrmw("add", place, const_int(I64, by), "acq_rel", "count")


def _define_release(module: Module, name: str, offset: int, error_field: str | None) -> None:
    """Drops a reference and frees with the last; an event drops that of its error."""
    builder = define(module, name, [(PTR, "object")])
    (found,) = builder.function.args
    before = count(builder, builder.offset(found, builder.i64(offset)), -1)
    with builder.when(builder.icmp_signed("==", before, builder.i64(1))):
        if error_field is not None:
            error = EVENT.load(builder, found, error_field)
            with builder.when(builder.not_(builder.is_null(error))):
                builder.call(module.functions["xjit_error_release"], [error])
        builder.call(module.declare("free", VOID, [PTR]), [found])
    builder.ret_void()


def _define_new(module: Module) -> None:
    builder = define(module, "xjit_event_new", [(I64, "waiting"), (PTR, "error")], return_type=PTR)
    waiting, error = builder.function.args
    event = builder.call(module.declare("malloc", PTR, [I64]), [builder.i64(EVENT.size)], name="event")
    with builder.when(builder.is_null(event)):
        builder.ret(event)
    fields = {
        "vtable": zero(PTR), "references": builder.i64(1), "waiting": builder.inttoptr(waiting, PTR), "error": error,
        "in_queue": builder.i64(0),
    }  # fmt: skip
    for field, value in fields.items():
        EVENT.store(builder, event, field, value)
    builder.ret(event)


def _define_retain(module: Module) -> None:
    builder = define(module, "xjit_event_retain", [(PTR, "event")], return_type=PTR)
    (event,) = builder.function.args
    count(builder, EVENT.pointer(builder, event, "references"), 1)
    builder.ret(event)


def new_error_reference(builder: StructuredBuilder, event: Value) -> Value:
    """The event's error, for a caller that will destroy it; null if there is none."""
    error = EVENT.load(builder, event, "error")
    with builder.when(builder.not_(builder.is_null(error))):
        count(builder, ERROR.pointer(builder, error, "references"), 1)
    return error


def _define_set(module: Module) -> None:
    builder = define(module, "xjit_event_set", [(PTR, "event")])
    (event,) = builder.function.args
    place = builder.alloca(PTR, align=8, name="place")
    ready = builder.inttoptr(builder.i64(READY), PTR)
    waiting = EVENT.pointer(builder, event, "waiting")
    builder.store(builder.atomicrmw("xchg", waiting, ready, "acq_rel", "first"), place, align=8)
    with builder.repeat() as loop:
        node = builder.load(PTR, place, align=8, name="node")
        loop.leave_if(builder.is_null(node))
        loop.leave_if(builder.icmp_signed("==", node, ready))
        builder.store(CALLBACK.load(builder, node, "next"), place, align=8)
        function, argument = (CALLBACK.load(builder, node, field) for field in ("function", "argument"))
        subject = CALLBACK.load(builder, node, "subject")
        with builder.when(builder.is_null(subject)):
            _call_back(builder, event, function, argument)
        with builder.when(builder.not_(builder.is_null(subject))):
            builder.call_pointer(function, VOID, [subject, argument])
        builder.call(module.declare("free", VOID, [PTR]), [node])
    builder.ret_void()


def _call_back(builder: StructuredBuilder, event: Value, function: Value, argument: Value) -> None:
    error = new_error_reference(builder, event)
    builder.call_pointer(function, VOID, [error, argument])


def _define_destroy(module: Module) -> None:
    builder = define(module, "Event_Destroy", [(PTR, "args")], linkage="", return_type=PTR)
    event = FUNCTIONS["Event_Destroy"].load(builder, builder.function.args[0], "event")
    with builder.when(builder.not_(builder.is_null(event))):
        builder.call(module.functions["xjit_event_release"], [event])
    builder.ret(zero(PTR))


def is_ready(builder: StructuredBuilder, event: Value) -> Value:
    """Whether an event was set."""
    waiting = EVENT.load_atomic(builder, event, "waiting", "acquire")
    return builder.icmp_signed("==", builder.ptrtoint(waiting, I64), builder.i64(READY))


def _define_is_ready(module: Module) -> None:
    args = FUNCTIONS["Event_IsReady"]
    builder = define(module, "Event_IsReady", [(PTR, "args")], linkage="", return_type=PTR)
    (request,) = builder.function.args
    ready = is_ready(builder, args.load(builder, request, "event"))
    args.store(builder, request, "is_ready", builder.zext(ready, args.type_of("is_ready")))
    builder.ret(zero(PTR))


def _define_error(module: Module) -> None:
    args = FUNCTIONS["Event_Error"]
    builder = define(module, "Event_Error", [(PTR, "args")], linkage="", return_type=PTR)
    builder.ret(new_error_reference(builder, args.load(builder, builder.function.args[0], "event")))


def _define_listen(module: Module) -> None:
    """`i1 xjit_event_listen(event, function, argument, subject)`: has a `CALLBACK` called later, unless it is ready.

    Without memory for that it waits until the event is ready.
    """
    names = ("event", "function", "argument", "subject")
    builder = define(module, "xjit_event_listen", [(PTR, name) for name in names], return_type=I1)
    event = builder.function.args[0]
    with builder.when(is_ready(builder, event)):
        builder.ret(const_int(I1, 0))
    node = builder.call(module.declare("malloc", PTR, [I64]), [builder.i64(CALLBACK.size)], name="node")
    with builder.when(builder.is_null(node)):
        with builder.repeat() as loop:
            loop.leave_if(is_ready(builder, event))
            builder.call(module.declare("usleep", I32, [I32]), [const_int(I32, _PAUSE_US)])
        builder.ret(const_int(I1, 0))
    for name, value in zip(names[1:], builder.function.args[1:], strict=True):
        CALLBACK.store(builder, node, name, value)
    place = EVENT.pointer(builder, event, "waiting")
    with builder.repeat() as loop:
        first = builder.load_atomic(PTR, place, align=8)
        with builder.when(builder.icmp_signed("==", builder.ptrtoint(first, I64), builder.i64(READY))):
            builder.call(module.declare("free", VOID, [PTR]), [node])
            builder.ret(const_int(I1, 0))
        CALLBACK.store(builder, node, "next", first)
        _, is_swapped = builder.cmpxchg(place, first, node)
        loop.leave_if(is_swapped)
    builder.ret(const_int(I1, 1))


def _define_wait(module: Module) -> None:
    """The caller must not have the GIL."""
    builder = define(module, "xjit_event_wait", [(PTR, "event")], linkage="")
    (event,) = builder.function.args
    with builder.when(is_ready(builder, event)):
        builder.ret_void()
    semaphore = builder.alloca(I8, _SEMAPHORE_SIZE, align=16, name="semaphore")
    builder.call(module.declare("sem_init", I32, [PTR, I32, I32]), [semaphore, const_int(I32, 0), const_int(I32, 0)])
    post = module.declare("sem_post", I32, [PTR])
    listening = [event, Value(PTR, f"@{post.name}"), zero(PTR), semaphore]
    with builder.when(builder.not_(builder.call(module.functions["xjit_event_listen"], listening, name="waits"))):
        builder.ret_void()
    with builder.repeat() as loop:  # a signal may end it early
        failed = builder.call(module.declare("sem_wait", I32, [PTR]), [semaphore], name="failed")
        loop.leave_if(builder.icmp_signed("==", failed, const_int(I32, 0)))
    builder.ret_void()


def _define_awaited(module: Module) -> None:
    builder = define(module, "xjit_event_awaited", [(PTR, "event")], return_type=PTR)
    (event,) = builder.function.args
    place = EVENT.load_atomic(builder, event, "in_queue", "acquire")
    in_queue = builder.icmp_signed("!=", place, builder.i64(0))
    builder.ret(builder.select(builder.or_(is_ready(builder, event), in_queue), zero(PTR), event))


def _define_await(module: Module) -> None:
    args = FUNCTIONS["Event_Await"]
    builder = define(module, "Event_Await", [(PTR, "args")], linkage="", return_type=PTR)
    event = args.load(builder, builder.function.args[0], "event")
    builder.call(module.functions["xjit_event_wait"], [event])
    builder.ret(new_error_reference(builder, event))


def _define_on_ready(module: Module) -> None:
    args = FUNCTIONS["Event_OnReady"]
    builder = define(module, "Event_OnReady", [(PTR, "args")], linkage="", return_type=PTR)
    (request,) = builder.function.args
    event, function, argument = (args.load(builder, request, name) for name in ("event", "callback", "user_arg"))
    listening = [event, function, argument, zero(PTR)]
    with builder.when(builder.not_(builder.call(module.functions["xjit_event_listen"], listening, name="waits"))):
        _call_back(builder, event, function, argument)
    builder.ret(zero(PTR))
