"""Regions of the thread pool and their tasks: publishing, claiming, waiting for the end.

The protocol is that of `thread_pool_functions`.
"""

from __future__ import annotations

from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I32, I64, PTR, VOID
from xjit.llvm.values import const_int
from xjit.runtime.native.thread_pool_state import NUM_SLOTS, SLOT, SPINS, TICKET, PoolVariables

REGION = ((PTR, "function"), (PTR, "argument"), (I64, "num_tasks"))
"""Parameters of a region."""


def define_serial_for(module: Module) -> None:
    """`void xjit_serial_for(function, argument, i64 num_tasks)`: runs the tasks here, in order."""
    builder = define(module, "xjit_serial_for", REGION)
    function, argument, num_tasks = builder.function.args
    with builder.loop(builder.i64(0), num_tasks) as task:
        builder.call_pointer(function, VOID, [argument, task])
    builder.ret_void()


def define_task_functions(module: Module, variables: PoolVariables) -> None:
    """Defines publishing, claiming and joining. The module must have the functions of `futex`."""
    _define_publish(module, variables)
    _define_claim(module, variables)
    _define_join(module, variables)


def epoch_of(builder: StructuredBuilder, ticket: Value) -> Value:
    """The number of the region that a ticket belongs to, as i64."""
    return builder.lshr(ticket, builder.i64(32))


def wake_workers(builder: StructuredBuilder, variables: PoolVariables, count: Value) -> None:
    """Wakes at most `count` (i32) of those that sleep on the epoch."""
    epoch = TICKET.pointer(builder, variables.ticket, "epoch")
    builder.call(builder.module.functions["xjit_futex_wake"], [epoch, count])


def _slot(builder: StructuredBuilder, variables: PoolVariables, epoch: Value) -> Value:
    return SLOT.element(builder, variables.slots, builder.and_(epoch, builder.i64(NUM_SLOTS - 1)))


def _define_publish(module: Module, variables: PoolVariables) -> None:
    """`ptr xjit_publish(function, argument, i64 num_tasks)`: fills the slot of the next epoch and publishes it.

    Returns the address of its counter of finished tasks.
    """
    builder = define(module, "xjit_publish", REGION, return_type=PTR)
    function, argument, num_tasks = builder.function.args
    old = builder.load_atomic(I64, variables.ticket, align=8, ordering="monotonic", name="old")
    epoch = builder.add(epoch_of(builder, old), builder.i64(1))
    slot = _slot(builder, variables, epoch)
    fields = {"function": function, "argument": argument, "num_tasks": num_tasks, "done": const_int(I32, 0)}
    for name, value in fields.items():
        SLOT.store_atomic(builder, slot, name, value, ordering="monotonic")
    builder.store_atomic(builder.shl(epoch, builder.i64(32)), variables.ticket, align=8, ordering="seq_cst")
    builder.ret(SLOT.pointer(builder, slot, "done"))


def _define_claim(module: Module, variables: PoolVariables) -> None:
    """`i1 xjit_claim(i64 ticket)`: false if no task is left in the ticket's epoch.

    True if a task was run, or if another thread was faster.
    """
    builder = define(module, "xjit_claim", [(I64, "ticket")], return_type=I1)
    (ticket,) = builder.function.args
    none, some = const_int(I1, 0), const_int(I1, 1)
    task = builder.and_(ticket, builder.i64((1 << 32) - 1))
    slot = _slot(builder, variables, epoch_of(builder, ticket))
    num_tasks = SLOT.load_atomic(builder, slot, "num_tasks", ordering="monotonic")
    with builder.when(builder.icmp_unsigned(">=", task, num_tasks)):
        builder.ret(none)
    function = SLOT.load_atomic(builder, slot, "function", ordering="monotonic")
    argument = SLOT.load_atomic(builder, slot, "argument", ordering="monotonic")
    claimed = builder.add(ticket, builder.i64(1))
    _, is_ours = builder.cmpxchg(variables.ticket, ticket, claimed, "seq_cst", "seq_cst")
    with builder.when(builder.not_(is_ours)):
        builder.ret(some)
    builder.call_pointer(function, VOID, [argument, task])
    counter = SLOT.pointer(builder, slot, "done")
    done = builder.add(builder.atomicrmw("add", counter, const_int(I32, 1), "seq_cst"), const_int(I32, 1))
    with builder.when(builder.icmp_signed("!=", done, builder.trunc(num_tasks, I32))):
        builder.ret(some)
    waits = builder.load_atomic(I32, variables.caller_waits, align=4, ordering="seq_cst", name="waits")
    with builder.when(builder.icmp_signed("!=", waits, const_int(I32, 0))):
        builder.call(module.functions["xjit_futex_wake"], [counter, const_int(I32, 1)])
    builder.ret(some)


def _define_join(module: Module, variables: PoolVariables) -> None:
    """`void xjit_join(ptr counter, i64 num_tasks)`: waits until all tasks are finished: spins, then sleeps."""
    builder = define(module, "xjit_join", [(PTR, "counter"), (I64, "num_tasks")])
    counter, num_tasks = builder.function.args
    wanted = builder.trunc(num_tasks, I32)
    pause = module.declare("xjit_pause", VOID, [])
    with builder.loop(const_int(I32, 0), const_int(I32, SPINS)):
        done = builder.load_atomic(I32, counter, align=4, name="done")
        with builder.when(builder.icmp_signed("==", done, wanted)):
            builder.ret_void()
        builder.call(pause, [])
    builder.store_atomic(const_int(I32, 1), variables.caller_waits, align=4, ordering="seq_cst")
    with builder.repeat("doze") as naps:
        done = builder.load_atomic(I32, counter, align=4, ordering="seq_cst", name="done")
        naps.leave_if(builder.icmp_signed("==", done, wanted))
        builder.call(module.functions["xjit_futex_wait"], [counter, done])
    builder.store_atomic(const_int(I32, 0), variables.caller_waits, align=4, ordering="seq_cst")
    builder.ret_void()
