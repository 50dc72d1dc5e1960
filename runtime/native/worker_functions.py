"""The workers of the thread pool: what they do, how they start and end."""

from __future__ import annotations

from xjit.llvm import Module
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I8, I32, I64, PTR, VOID
from xjit.llvm.values import const_int, zero
from xjit.runtime.native.task_functions import epoch_of, wake_workers
from xjit.runtime.native.thread_pool_state import SPINS, TICKET, PoolVariables

_STACK_BYTES = 8 << 20
_SIG_SETMASK = 2
_OPAQUE_BYTES = 128
"""At least the size of pthread_attr_t and of sigset_t."""
_EVERYBODY = const_int(I32, (1 << 31) - 1)


def define_worker_functions(module: Module, variables: PoolVariables) -> None:
    """Defines them. The module must have the functions of `task_functions` and `pinning`."""
    _define_worker(module, variables)
    _define_spawn(module, variables)
    _define_configure(module, variables)
    _define_after_fork(module, variables)


def _define_worker(module: Module, variables: PoolVariables) -> None:
    """`ptr xjit_worker(ptr number)`: claims tasks until the pool wants fewer workers than its number."""
    builder = define(module, "xjit_worker", [(PTR, "number")], return_type=PTR)
    number = builder.trunc(builder.ptrtoint(builder.function.args[0], I64), I32)
    builder.call(module.declare("xjit_flush_subnormals", I32, []), [])
    pause = module.declare("xjit_pause", VOID, [])
    with builder.repeat("work") as work:
        ticket = builder.load_atomic(I64, variables.ticket, align=8, name="ticket")
        work.again_if(builder.call(module.functions["xjit_claim"], [ticket], name="worked"))
        target = builder.load_atomic(I32, variables.target, align=4, name="target")
        work.leave_if(builder.icmp_unsigned(">=", number, target))
        with builder.loop(const_int(I32, 0), const_int(I32, SPINS)):
            builder.call(pause, [])
            seen = builder.load_atomic(I64, variables.ticket, align=8, ordering="monotonic", name="seen")
            work.again_if(builder.icmp_signed("!=", seen, ticket))
        builder.atomicrmw("add", variables.sleepers, const_int(I32, 1), "seq_cst")
        now = builder.load_atomic(I64, variables.ticket, align=8, ordering="seq_cst", name="now")
        epoch = epoch_of(builder, ticket)
        with builder.when(builder.icmp_signed("==", epoch_of(builder, now), epoch)):
            word = TICKET.pointer(builder, variables.ticket, "epoch")
            builder.call(module.functions["xjit_futex_wait"], [word, builder.trunc(epoch, I32)])
        builder.atomicrmw("sub", variables.sleepers, const_int(I32, 1), "seq_cst")
    builder.ret(zero(PTR))


def _define_spawn(module: Module, variables: PoolVariables) -> None:
    """`void xjit_spawn(i32 target)`: starts the missing workers; `busy` is held.

    All signals are blocked in them, so that Python's handlers run where they are expected. If the system refuses a
    thread, the pool goes on with those it has.
    """
    builder = define(module, "xjit_spawn", [(I32, "target")])
    (target,) = builder.function.args
    attributes, signals, old = (
        builder.alloca(I8, _OPAQUE_BYTES, align=16, name=name) for name in ("attributes", "signals", "old")
    )
    builder.memset(signals, const_int(I8, -1), builder.i64(_OPAQUE_BYTES), align=16)
    builder.call(module.declare("pthread_attr_init", I32, [PTR]), [attributes])
    set_stack_size = module.declare("pthread_attr_setstacksize", I32, [PTR, I64])
    builder.call(set_stack_size, [attributes, builder.i64(_STACK_BYTES)])
    set_mask = module.declare("pthread_sigmask", I32, [I32, PTR, PTR])
    builder.call(set_mask, [const_int(I32, _SIG_SETMASK), signals, old])
    create = module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
    with builder.repeat("start") as starts:
        running = builder.load(I32, variables.running, align=4, name="running")
        starts.leave_if(builder.icmp_unsigned(">=", running, target))
        number = builder.zext(running, I64)
        thread = builder.gep(I64, variables.threads, number)
        worker = module.functions["xjit_worker"].value
        error = builder.call(create, [thread, attributes, worker, builder.inttoptr(number, PTR)], name="error")
        is_refused = builder.icmp_signed("!=", error, const_int(I32, 0))
        with builder.when(is_refused):
            builder.store_atomic(running, variables.target, align=4)
        starts.leave_if(is_refused)
        builder.store(builder.add(running, const_int(I32, 1)), variables.running, align=4)
    builder.call(set_mask, [const_int(I32, _SIG_SETMASK), old, zero(PTR)])
    builder.call(module.declare("pthread_attr_destroy", I32, [PTR]), [attributes])
    builder.call(module.functions["xjit_pin_all"], [])
    builder.ret_void()


def _define_configure(module: Module, variables: PoolVariables) -> None:
    """`void xjit_pool_configure(i32 workers, ptr cpus, i32 num_cpus)`: ends all workers.

    Sets how many start with the next region; no CPUs means no pinning.
    """
    params = [(I32, "workers"), (PTR, "cpus"), (I32, "num_cpus")]
    builder = define(module, "xjit_pool_configure", params, linkage="")
    workers, cpus, num_cpus = builder.function.args
    none = const_int(I32, 0)
    with builder.repeat("acquire") as attempts:
        _, is_ours = builder.cmpxchg(variables.busy, none, const_int(I32, 1), "acquire", "monotonic")
        attempts.leave_if(is_ours)
        builder.call(module.declare("sched_yield", I32, []), [])
    builder.store_atomic(none, variables.target, align=4)
    builder.call(module.functions["xjit_publish"], [zero(PTR), zero(PTR), builder.i64(0)])
    wake_workers(builder, variables, _EVERYBODY)
    join = module.declare("pthread_join", I32, [I64, PTR])
    running = builder.zext(builder.load(I32, variables.running, align=4), I64)
    with builder.loop(builder.i64(0), running) as i:
        thread = builder.load(I64, builder.gep(I64, variables.threads, i), align=8, name="thread")
        builder.call(join, [thread, zero(PTR)])
    builder.store(none, variables.running, align=4)
    builder.store(num_cpus, variables.num_cpus, align=4)
    builder.memcpy(variables.cpus, cpus, builder.mul(builder.zext(num_cpus, I64), builder.i64(4)), align=4)
    builder.store_atomic(workers, variables.target, align=4)
    builder.store_atomic(none, variables.busy, align=4)
    builder.ret_void()


def _define_after_fork(module: Module, variables: PoolVariables) -> None:
    """`void xjit_pool_after_fork()`, in the child: its own workers start with its next region.

    There are no workers, and a region of another thread will never end: forgets both. The child shares the CPUs with
    its parent, so its workers are not pinned.
    """
    builder = define(module, "xjit_pool_after_fork", [], linkage="")
    none = const_int(I32, 0)
    builder.store(none, variables.num_cpus, align=4)
    builder.store(none, variables.running, align=4)
    builder.store_atomic(none, variables.sleepers, align=4, ordering="seq_cst")
    builder.store_atomic(none, variables.caller_waits, align=4, ordering="seq_cst")
    builder.call(module.functions["xjit_publish"], [zero(PTR), zero(PTR), builder.i64(0)])
    builder.store_atomic(none, variables.busy, align=4, ordering="seq_cst")
    builder.ret_void()
