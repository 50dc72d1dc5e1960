"""The function of a multiplication: tasks, and the batches and blocks of each, as IR.

Everything about the multiplication at hand is read from its record (`shapes.GemmParameters`).
"""

from __future__ import annotations

from xjit.emitters.gemm.block import GEMM_PARAMS, emit_block
from xjit.emitters.gemm.control_flow import batch_indices, emit_parallel_entry, moved_to
from xjit.emitters.gemm.record import GEMM, Record
from xjit.emitters.gemm.routine import Routine
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR

_OUT_BATCH = (GEMM.batch_out_0, GEMM.batch_out_1, GEMM.batch_out_2)
_LHS_BATCH = (GEMM.batch_lhs_0, GEMM.batch_lhs_1, GEMM.batch_lhs_2)
_RHS_BATCH = (GEMM.batch_rhs_0, GEMM.batch_rhs_1, GEMM.batch_rhs_2)


def emit_driver(module: Module, name: str, support: GemmSupport, routine: Routine) -> Function:
    """Defines `void name(out, lhs, rhs, closure, parameters)` on top of `support`."""
    block = emit_block(module, f"{name}_block", support, routine)
    block.is_cold = not routine.batches  # it runs once per task
    task = (_emit_task if routine.batches else _emit_block_task)(module, f"{name}_task", block)
    return emit_parallel_entry(module, name, GEMM_PARAMS, task, GEMM)


def _emit_task(module: Module, name: str, block: Function) -> Function:
    """Task -> (batches, block of n, block of m); calls `block` for each batch."""
    builder = define(module, name, ((PTR, "context"), (I64, "task")))
    context, task = builder.function.args
    out, lhs, rhs, closure, parameters = (builder.load_ptr(context, slot) for slot in range(len(GEMM_PARAMS)))
    record = Record(builder, parameters, GEMM)
    blocks_m = record[GEMM.blocks_m]
    per_batch = builder.mul(blocks_m, record[GEMM.blocks_n])
    group, index_n, index_m = builder.if_else(
        builder.icmp_signed("==", per_batch, builder.i64(1)),
        lambda: [task, builder.i64(0), builder.i64(0)],
        lambda: [
            builder.udiv(task, per_batch),
            builder.udiv(builder.urem(task, per_batch), blocks_m),
            builder.urem(builder.urem(task, per_batch), blocks_m),
        ],
    )
    place = _extent(builder, record, index_m, index_n)
    first_batch = builder.mul(group, record[GEMM.batches_per_task])
    end = builder.min(builder.add(first_batch, record[GEMM.batches_per_task]), record[GEMM.num_batches])
    woven = record[GEMM.woven]
    with builder.loop(first_batch, end, name="batch") as batch:
        indices = _indices(builder, record, batch)
        moved = [
            moved_to(builder, base, indices, [record[stride] for stride in strides])
            for base, strides in ((out, _OUT_BATCH), (lhs, _LHS_BATCH), (rhs, _RHS_BATCH))
        ]
        is_first = builder.icmp_signed("==", builder.urem(batch, woven), builder.i64(0))
        with builder.when(builder.and_(record.flag(GEMM.woven_stride), is_first)):
            matrix = builder.select(record.flag(GEMM.swap_operands), moved[1], moved[2])
            _fetch_woven(
                builder, record, builder.offset(matrix, builder.mul(place[2], record[GEMM.rhs_column])), place[3]
            )
        builder.call(block, (*moved, closure, parameters, batch, *place))
    builder.ret_void()
    return builder.function


def _fetch_woven(builder: StructuredBuilder, record: Record, start: Value, columns: Value) -> None:
    """Reads a byte of each line of a task's matrices that lie between each other, in the order of memory.

    Loads go ahead as fast as memory does, where prefetches do not; those that are atomic are not optimized away.
    """
    rows = builder.select(record.flag(GEMM.woven_rows), record[GEMM.woven_rows], columns)
    num_bytes = builder.mul(rows, record[GEMM.woven_stride])
    with builder.loop(builder.i64(0), num_bytes, 64, "line") as line:
        builder.load_atomic(I8, builder.offset(start, line), 1)


def _emit_block_task(module: Module, name: str, block: Function) -> Function:
    """The same for one product: task -> (block of n, block of m)."""
    builder = define(module, name, ((PTR, "context"), (I64, "task")))
    builder.function.is_cold = True
    context, task = builder.function.args
    args = [builder.load_ptr(context, slot) for slot in range(len(GEMM_PARAMS))]
    record = Record(builder, args[-1], GEMM)
    blocks_m = record[GEMM.blocks_m]
    indices = builder.if_else(
        builder.icmp_signed("==", record[GEMM.num_tasks], builder.i64(1)),
        lambda: [builder.i64(0), builder.i64(0)],
        lambda: [builder.urem(task, blocks_m), builder.udiv(task, blocks_m)],
    )
    builder.call(block, (*args, builder.i64(0), *_extent(builder, record, *indices)))
    builder.ret_void()
    return builder.function


def _extent(builder: StructuredBuilder, record: Record, index_m: Value, index_n: Value) -> list[Value]:
    """First row, rows, first column and columns of a block."""
    found: list[Value] = []
    for index, step, end in ((index_m, GEMM.block_m, GEMM.m), (index_n, GEMM.block_n, GEMM.n)):
        size = record[step]
        first = builder.mul(index, size)
        found += [first, builder.min(size, builder.sub(record[end], first))]
    return found


def _indices(builder: StructuredBuilder, record: Record, batch: Value) -> list[Value]:
    """The indices of a batch number; without divisions in the usual case of one dimension."""
    size_0, size_1 = record[GEMM.batch_size_0], record[GEMM.batch_size_1]
    zero = builder.i64(0)
    return list(
        builder.if_else(
            builder.icmp_signed("==", size_0, record[GEMM.num_batches]),
            lambda: [batch, zero, zero],
            lambda: batch_indices(builder, batch, (size_0, size_1)),
        )
    )
