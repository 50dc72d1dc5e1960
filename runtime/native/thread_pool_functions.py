"""The fork/join pool: `xjit_parallel_for`, and what Python needs to configure it.

One region runs at a time. A slot in a ring of four describes it, and the *ticket*: ``epoch << 32 | next task``.

* The caller takes `busy` (if it is taken, by another thread or an enclosing region, it runs its tasks alone), fills the
  slot of the next epoch, publishes the ticket, wakes sleepers, and then claims tasks like everybody else.
* A thread claims a task by compare-and-swap of the ticket. The swap succeeds only if the epoch is still the one whose
  slot it read; slots of other epochs may be written meanwhile, that of the current epoch never is. So what it read is
  whole.
* Each finished task increments `done`; the caller waits for `done == num_tasks`. It never waits for a worker that
  claimed nothing.
* Idle threads spin, then sleep on a futex: workers on the epoch, the caller on `done`.
* Sleep and wake agree by sequentially consistent store-then-load on both sides (`sleepers` and `ticket`,
  `caller_waits` and `done`).
"""

from __future__ import annotations

from xjit.llvm import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR
from xjit.llvm.values import const_int
from xjit.runtime.native.futex import SYSCALL_NUMBERS, define_futex
from xjit.runtime.native.pinning import define_pinning
from xjit.runtime.native.task_functions import REGION, define_serial_for, define_task_functions, wake_workers
from xjit.runtime.native.thread_pool_state import PoolVariables, add_pool_variables
from xjit.runtime.native.worker_functions import define_worker_functions

_MAX_TASKS = (1 << 31) - 1


def define_thread_pool(module: Module, machine: str, system: str) -> None:
    """Defines it for `platform.machine()` and `sys.platform`. Where there is no futex, regions run serially."""
    define_serial_for(module)
    if system != "linux" or machine not in SYSCALL_NUMBERS:
        _define_serial_pool(module)
        return
    variables = add_pool_variables(module)
    define_futex(module, machine)
    define_task_functions(module, variables)
    define_pinning(module, variables)
    define_worker_functions(module, variables)
    _define_parallel_for(module, variables)
    _define_queries(module, variables)


def _define_parallel_for(module: Module, variables: PoolVariables) -> None:
    """`void xjit_parallel_for(function, argument, i64 num_tasks)`: runs the tasks on all threads, in any order."""
    builder = define(module, "xjit_parallel_for", REGION, linkage="")
    num_tasks = builder.function.args[2]
    target = builder.load_atomic(I32, variables.target, align=4, ordering="monotonic", name="target")
    no_workers = builder.icmp_signed("==", target, const_int(I32, 0))
    few = builder.icmp_signed("<", num_tasks, builder.i64(2))
    many = builder.icmp_signed(">", num_tasks, builder.i64(_MAX_TASKS))
    with builder.when(builder.or_(no_workers, builder.or_(few, many))):
        _run_serially(builder)
    _, is_ours = builder.cmpxchg(variables.busy, const_int(I32, 0), const_int(I32, 1), "acquire", "monotonic")
    with builder.when(builder.not_(is_ours)):
        _run_serially(builder)
    running = builder.load(I32, variables.running, align=4, name="running")
    is_missing = builder.icmp_unsigned("<", running, target)
    with builder.when(is_missing):
        builder.call(module.functions["xjit_spawn"], [target])
    with builder.when(builder.not_(is_missing)):
        builder.call(module.functions["xjit_repin"], [])
    counter = builder.call(module.functions["xjit_publish"], builder.function.args, name="counter")
    sleepers = builder.load_atomic(I32, variables.sleepers, align=4, ordering="seq_cst", name="sleepers")
    with builder.when(builder.icmp_signed("!=", sleepers, const_int(I32, 0))):
        others = builder.sub(builder.trunc(num_tasks, I32), const_int(I32, 1))
        fewer = builder.icmp_unsigned("<", others, sleepers)
        wake_workers(builder, variables, builder.select(fewer, others, sleepers))
    with builder.repeat("work") as work:
        ticket = builder.load_atomic(I64, variables.ticket, align=8, name="ticket")
        work.leave_if(builder.not_(builder.call(module.functions["xjit_claim"], [ticket], name="worked")))
    builder.call(module.functions["xjit_join"], [counter, num_tasks])
    builder.store_atomic(const_int(I32, 0), variables.busy, align=4)
    builder.ret_void()


def _run_serially(builder: StructuredBuilder) -> None:
    builder.call(builder.module.functions["xjit_serial_for"], builder.function.args)
    builder.ret_void()


def _define_queries(module: Module, variables: PoolVariables) -> None:
    """`i32 xjit_num_threads()`, with the caller; `i32 xjit_pool_num_running()`; `i32 xjit_pool_is_busy()`."""
    builder = define(module, "xjit_num_threads", [], linkage="", return_type=I32)
    target = builder.load_atomic(I32, variables.target, align=4, ordering="monotonic", name="target")
    builder.ret(builder.add(target, const_int(I32, 1)))
    builder = define(module, "xjit_pool_num_running", [], linkage="", return_type=I32)
    builder.ret(builder.load(I32, variables.running, align=4))
    builder = define(module, "xjit_pool_is_busy", [], linkage="", return_type=I32)
    builder.ret(builder.load_atomic(I32, variables.busy, align=4))


def _define_serial_pool(module: Module) -> None:
    """The same functions where every region runs in its caller."""
    _run_serially(define(module, "xjit_parallel_for", REGION, linkage=""))
    for name, number in (("xjit_num_threads", 1), ("xjit_pool_num_running", 0), ("xjit_pool_is_busy", 0)):
        define(module, name, [], linkage="", return_type=I32).ret(const_int(I32, number))
    define(module, "xjit_pool_configure", [(I32, "workers"), (PTR, "cpus"), (I32, "num_cpus")], linkage="").ret_void()
    define(module, "xjit_pool_after_fork", [], linkage="").ret_void()
