"""What the functions of multiplications share: the split into tasks, and the operands of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.gemm.record import Parameters, Record
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR, VOID


def emit_parallel_entry(
    module: Module, name: str, params: Sequence[tuple[LLVMType, str]], task: Function, fields: Parameters
) -> Function:
    """Defines `void name(params)` that runs `task(context, i)` for all tasks; the context holds the parameters.

    The last parameter points to a record of these `fields`.
    """
    builder = define(module, name, params, linkage="")
    builder.function.is_cold = True
    context = builder.alloca(I64, len(params), align=8, name="context")
    for slot, arg in enumerate(builder.function.args):
        builder.store_slot(arg, context, slot)
    record = Record(builder, builder.function.args[-1], fields)
    emit_parallel_for(builder, task, context, record[fields.num_tasks], record.flag(fields.parallel))
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


def batch_indices(builder: StructuredBuilder, batch: Value, sizes: Sequence[Value]) -> list[Value]:
    """The index in each dimension of a batch's number, innermost first; `sizes` are of all but the outermost."""
    indices: list[Value] = []
    for size in sizes:
        indices.append(builder.urem(batch, size))
        batch = builder.udiv(batch, size)
    return [*indices, batch]


def moved_to(builder: StructuredBuilder, base: Value, indices: Sequence[Value], strides: Sequence[Value]) -> Value:
    """A pointer moved to some indices, each by its stride in bytes."""
    for index, stride in zip(indices, strides, strict=True):
        base = builder.offset(base, builder.mul(index, stride))
    return base
