"""What the library's functions share: records of numbers, and the split into tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR, VOID


class Record:
    """Reads fields of a record of i64 numbers by name; every read is a load, where it is asked for."""

    def __init__(self, builder: StructuredBuilder, ptr: Value, slots: Mapping[str, int]) -> None:
        self._builder = builder
        self._slots = slots
        self.ptr = ptr

    def __getitem__(self, name: str) -> Value:
        return self._builder.load_i64(self.ptr, self._slots[name], name)

    def flag(self, name: str) -> Value:
        """Whether a field is not zero."""
        return self._builder.icmp_signed("!=", self[name], self._builder.i64(0))


def emit_parallel_entry(
    module: Module, name: str, params: Sequence[tuple[LLVMType, str]], task: Function, slots: Mapping[str, int]
) -> Function:
    """Defines `void name(params)` that runs `task(context, i)` for all tasks; the context holds the parameters.

    The last parameter points to a record with the fields `num_tasks` and `parallel`, which lie at `slots`.
    """
    builder = define(module, name, params, linkage="")
    context = builder.alloca(I64, len(params), align=8, name="context")
    for slot, arg in enumerate(builder.function.args):
        builder.store_slot(arg, context, slot)
    record = Record(builder, builder.function.args[-1], slots)
    emit_parallel_for(builder, task, context, record["num_tasks"], record.flag("parallel"))
    builder.ret_void()
    return builder.function


def emit_parallel_for(
    builder: StructuredBuilder, task: Function, context: Value, num_tasks: Value, parallel: Value
) -> None:
    """Runs `task(context, i)` for all i: on the thread pool if `parallel`, else here."""
    pool = builder.module.declare("xjit_parallel_for", VOID, (PTR, PTR, I64))
    serial, forked, after = (builder.append_block(label) for label in ("serial", "forked", "joined"))
    builder.cbranch(parallel, forked, serial)
    builder.position_at_end(forked)
    builder.call(pool, (task.value, context, num_tasks))
    builder.br(after)
    builder.position_at_end(serial)
    with builder.loop(builder.i64(0), num_tasks, name="task") as index:
        builder.call(task, (context, index))
    builder.br(after)
    builder.position_at_end(after)
