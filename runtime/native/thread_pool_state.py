"""The variables of the thread pool.

A variable that threads write often has a cache line of its own.
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.llvm import Module, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I8, I32, I64, PTR, LLVMType, array
from xjit.llvm.values import zero

MAX_WORKERS = 1023
MAX_CPUS = 8192  # CPU numbers at or above are not pinned to
SPINS = 2000
"""Pauses of an idle thread before it sleeps, roughly 0.1 ms."""

TICKET = StructLayout("Ticket", (("next_task", I32), ("epoch", I32)))
"""The halves of the ticket, one i64: `epoch << 32 | next_task`."""

SLOT = StructLayout("Slot", (("function", PTR), ("argument", PTR), ("num_tasks", I64), ("done", I32)), align=64)
"""A region: `function(argument, task)` for every task; how many tasks are done."""

NUM_SLOTS = 4


@dataclass(frozen=True, slots=True)
class PoolVariables:
    """Addresses of the variables. `busy` guards those that have no other rule."""

    ticket: Value  # a TICKET
    slots: Value  # a SLOT for every epoch modulo NUM_SLOTS
    busy: Value  # i32: 1 while a region runs
    sleepers: Value  # i32: workers that sleep, or are about to
    caller_waits: Value  # i32: 1 if the caller sleeps, or is about to
    target: Value  # i32: how many workers there should be
    running: Value  # i32: how many there are
    threads: Value  # pthread_t of every worker
    cpus: Value  # i32: numbers of the CPUs to pin workers to
    num_cpus: Value  # i32: how many of `cpus`; 0: workers are not pinned
    free_cpu: Value  # i32: the one of `cpus` that has no worker
    worker_on_cpu: Value  # i32 for every CPU: the number of its worker plus 1, or 0


def add_pool_variables(module: Module) -> PoolVariables:
    """Adds them, all zero: a pool without workers."""

    def add(name: str, type: LLVMType, align: int = 64) -> Value:
        return module.add_global(f"xjit_{name}", type, zero(type), align)

    return PoolVariables(
        ticket=add("ticket", I64),
        slots=add("slots", array(I8, NUM_SLOTS * SLOT.size)),
        busy=add("busy", I32),
        sleepers=add("sleepers", I32),
        caller_waits=add("caller_waits", I32),
        target=add("target", I32),
        running=add("running", I32, align=4),
        threads=add("threads", array(I64, MAX_WORKERS)),
        cpus=add("cpus", array(I32, MAX_CPUS)),
        num_cpus=add("num_cpus", I32, align=4),
        free_cpu=add("free_cpu", I32, align=4),
        worker_on_cpu=add("worker_on_cpu", array(I32, MAX_CPUS)),
    )
