"""Calls of programs whose devices meet while they run, as native code: all devices do them in the same order.

The calls of a group get their places in the queues of their devices at once, while all these queues are locked, and not
before every one of them may: so two groups never wait for each other, nor for what comes between them.

* `ptr xjit_group_new(executable)`: the record; null if there is no memory.
* `void xjit_group_put(group)`: waits for room in all queues; has the calls done, and frees the record.
* `void xjit_group_append(group, argument)`: gives the calls their places, at once or later.
* `void xjit_group_abandon(group, i64 count)`: ends a group whose first calls were prepared.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from xjit.jax_backend.native.queues import Locked, place_job
from xjit.jax_backend.records import CALL, DEVICE, EXECUTABLE, GROUP, JOB
from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR, VOID
from xjit.llvm.values import zero

OPEN_GROUP: Final = "xjit_open_group"
"""The variable of `void (*)(executable, i64 count, ANSWER)`: Python makes a communicator, and answers its number."""


def define_groups(module: Module) -> None:
    """Defines them. The module must have calls, their preparation, and queues."""
    module.add_global(OPEN_GROUP, PTR, zero(PTR), align=8, linkage="")
    _define_new(module)
    _define_abandon(module)
    _define_append(module)
    _define_put(module)


def call_of(builder: StructuredBuilder, group: Value, i: Value) -> Value:
    """The call of a group for its device `i`."""
    place = builder.gep(PTR, GROUP.load(builder, group, "calls"), i)
    return builder.load(PTR, place, align=8, name="call")


@contextmanager
def _members(builder: StructuredBuilder, group: Value) -> Generator[tuple[Value, Value]]:
    """A loop over the calls and their queues in the order in which these are locked."""
    with builder.loop(builder.i64(0), GROUP.load(builder, group, "count")) as i:
        number = builder.load(I64, builder.gep(I64, GROUP.load(builder, group, "order"), i), align=8, name="number")
        call = call_of(builder, group, number)
        yield call, DEVICE.load(builder, CALL.load(builder, call, "device"), "queue")


def _define_new(module: Module) -> None:
    builder = define(module, "xjit_group_new", [(PTR, "executable")], return_type=PTR)
    (executable,) = builder.function.args
    count = EXECUTABLE.load(builder, executable, "num_devices")
    size = builder.add(builder.mul(count, builder.i64(8)), builder.i64(GROUP.size))
    group = builder.call(module.declare("malloc", PTR, [I64]), [size], name="group")
    with builder.when(builder.is_null(group)):
        builder.ret(group)
    order = EXECUTABLE.load(builder, executable, "part_order")
    calls = builder.offset(group, builder.i64(GROUP.size))
    for field, value in {"count": count, "order": order, "calls": calls}.items():
        GROUP.store(builder, group, field, value)
    builder.ret(group)


def _define_abandon(module: Module) -> None:
    builder = define(module, "xjit_group_abandon", [(PTR, "group"), (I64, "count")])
    group, number = builder.function.args
    free = module.declare("free", VOID, [PTR])
    with builder.loop(builder.i64(0), number) as i:
        call = call_of(builder, group, i)
        builder.call(module.functions["xjit_call_abandon"], [call])
        builder.call(free, [call])
    builder.call(free, [group])
    builder.ret_void()


def _define_append(module: Module) -> None:
    """Called again when what a call waits for is there."""
    builder = define(module, "xjit_group_append", [(PTR, "group"), (PTR, "argument")])
    group, argument = builder.function.args
    listen = module.functions["xjit_event_listen"]
    again = Value(PTR, "@xjit_group_append")
    with _members(builder, group) as (call, _), builder.repeat("awaiting") as loop:
        event = builder.call_pointer(JOB.load(builder, call, "awaited"), PTR, [call], name="event")
        loop.leave_if(builder.is_null(event))
        with builder.when(builder.call(listen, [event, again, argument, group], name="waits")):
            builder.ret_void()
    with _members(builder, group) as (_, queue):
        Locked(builder, queue).enter()
    with _members(builder, group) as (call, queue):
        place_job(builder, call, queue)
    with _members(builder, group) as (_, queue):  # whose worker may then run and free its call
        locked = Locked(builder, queue)
        locked.wake()
        locked.leave()
    builder.call(module.declare("free", VOID, [PTR]), [group])
    builder.ret_void()


def _define_put(module: Module) -> None:
    functions = module.functions
    builder = define(module, "xjit_group_put", [(PTR, "group")])
    (group,) = builder.function.args
    first = call_of(builder, group, builder.i64(0))
    calls_functions = EXECUTABLE.load(builder, CALL.load(builder, first, "executable"), "calls_functions")
    with builder.when(builder.icmp_signed("!=", calls_functions, builder.i64(0))):
        jobs, count = (GROUP.load(builder, group, field) for field in ("calls", "count"))
        builder.call(functions["xjit_jobs_run_apart"], [jobs, count])
        builder.call(module.declare("free", VOID, [PTR]), [group])
        builder.ret_void()
    with _members(builder, group) as (_, queue):
        builder.call(functions["xjit_queue_reserve"], [queue])
    builder.call(functions["xjit_group_append"], [group, zero(PTR)])
    builder.ret_void()
