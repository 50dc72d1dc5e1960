"""Which CPU each worker of the thread pool runs on.

Pinning keeps the kernel from waking a worker on the CPU where the caller is running. With one thread per CPU, each
worker is pinned to a CPU and one CPU stays free; a caller that finds itself on a worker's CPU moves that worker to the
free one. All functions run with `busy` held.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm import Module, Value
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I8, I32, I64, PTR
from xjit.llvm.values import const_int
from xjit.runtime.native.thread_pool_state import MAX_CPUS, PoolVariables

_MASK_BYTES = MAX_CPUS // 8  # of a cpu_set_t


def define_pinning(module: Module, variables: PoolVariables) -> None:
    """Defines `xjit_pin_all` and `xjit_repin`."""
    _define_pin(module, variables)
    _define_pin_all(module, variables)
    _define_repin(module, variables)


def _define_pin(module: Module, variables: PoolVariables) -> None:
    """`void xjit_pin(i32 worker, i32 cpu)`."""
    builder = define(module, "xjit_pin", [(I32, "worker"), (I32, "cpu")])
    worker, cpu = builder.function.args
    mask = builder.alloca(I8, _MASK_BYTES, align=16, name="mask")
    builder.memset(mask, const_int(I8, 0), builder.i64(_MASK_BYTES), align=16)
    bit = builder.shl(const_int(I32, 1), builder.and_(cpu, const_int(I32, 7)))
    byte = builder.zext(builder.lshr(cpu, const_int(I32, 3)), I64)
    builder.store(builder.trunc(bit, I8), builder.gep(I8, mask, byte), align=1)
    thread = builder.load(I64, builder.gep(I64, variables.threads, builder.zext(worker, I64)), align=8, name="thread")
    set_affinity = module.declare("pthread_setaffinity_np", I32, [I64, I64, PTR])
    builder.call(set_affinity, [thread, builder.i64(_MASK_BYTES), mask])
    mark = builder.gep(I32, variables.worker_on_cpu, builder.zext(cpu, I64))
    builder.store(builder.add(worker, const_int(I32, 1)), mark, align=4)
    builder.ret_void()


def _define_pin_all(module: Module, variables: PoolVariables) -> None:
    """`void xjit_pin_all()`: gives each worker the next of the listed CPUs, but not the one where the caller is now."""
    builder = define(module, "xjit_pin_all", [])
    num_cpus = builder.load(I32, variables.num_cpus, align=4, name="num_cpus")
    with builder.when(builder.icmp_signed("==", num_cpus, const_int(I32, 0))):
        builder.ret_void()
    builder.memset(variables.worker_on_cpu, const_int(I8, 0), builder.i64(4 * MAX_CPUS), align=64)
    here = builder.call(module.declare("sched_getcpu", I32, []), [], name="here")
    count = builder.zext(num_cpus, I64)
    last = builder.gep(I32, variables.cpus, builder.sub(count, builder.i64(1)))
    builder.store(builder.load(I32, last, align=4), variables.free_cpu, align=4)
    running = builder.load(I32, variables.running, align=4, name="running")
    with builder.loop_with(builder.i64(0), count, [const_int(I32, 0)]) as (i, (worker,), following):
        cpu = builder.load(I32, builder.gep(I32, variables.cpus, i), align=4, name="cpu")

        def leave_free() -> Sequence[Value]:
            builder.store(cpu, variables.free_cpu, align=4)
            return [worker]

        def assign() -> Sequence[Value]:
            exists = builder.icmp_unsigned("<", worker, running)
            with builder.when(exists):
                builder.call(module.functions["xjit_pin"], [worker, cpu])
            return [builder.add(worker, builder.zext(exists, I32))]

        following.extend(builder.if_else(builder.icmp_signed("==", cpu, here), leave_free, assign))
    builder.ret_void()


def _define_repin(module: Module, variables: PoolVariables) -> None:
    """`void xjit_repin()`: if a worker is pinned to the CPU where the caller runs, moves it to the free CPU."""
    builder = define(module, "xjit_repin", [])
    num_cpus = builder.load(I32, variables.num_cpus, align=4, name="num_cpus")
    with builder.when(builder.icmp_signed("==", num_cpus, const_int(I32, 0))):
        builder.ret_void()
    here = builder.call(module.declare("sched_getcpu", I32, []), [], name="here")
    with builder.when(builder.icmp_unsigned(">=", here, const_int(I32, MAX_CPUS))):
        builder.ret_void()
    mark = builder.gep(I32, variables.worker_on_cpu, builder.zext(here, I64))
    number = builder.load(I32, mark, align=4, name="number")
    with builder.when(builder.icmp_signed("==", number, const_int(I32, 0))):
        builder.ret_void()
    builder.store(const_int(I32, 0), mark, align=4)
    free = builder.load(I32, variables.free_cpu, align=4, name="free")
    builder.store(here, variables.free_cpu, align=4)
    builder.call(module.functions["xjit_pin"], [builder.sub(number, const_int(I32, 1)), free])
    builder.ret_void()
