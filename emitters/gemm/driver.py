"""The loops around the register-tile kernels, as IR: tasks, chunks of k, packing, strips of rows, panels of columns.

Everything about the multiplication at hand is read from its record (`shapes.GemmParameters`). Scratch memory is on
the stack of the thread that runs a task, of a fixed size (see the limits in `plan.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.gemm.control_flow import Record, emit_parallel_entry
from xjit.emitters.gemm.conversions import size_of
from xjit.emitters.gemm.microkernel import Slot
from xjit.emitters.gemm.panels import multiply_panels_function, pack_panels_function
from xjit.emitters.gemm.plan import CHUNK_BYTES, LHS_GROUP_ROWS, PACKED_RHS_BYTES, RESULT_SCRATCH_BYTES, Method
from xjit.emitters.gemm.shapes import FIELDS
from xjit.emitters.gemm.support import GemmSupport
from xjit.emitters.gemm.vector_product import ROW_GROUPS, emit_vector_product
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR, VOID, vector
from xjit.llvm.values import const_int

GEMM_PARAMS = ((PTR, "out"), (PTR, "lhs"), (PTR, "rhs"), (PTR, "extra"), (PTR, "parameters"))
_BLOCK_PARAMS = (*GEMM_PARAMS, (I64, "first_row"), (I64, "rows"), (I64, "first_column"), (I64, "columns"))
_PACKED_LHS_BYTES = LHS_GROUP_ROWS * (CHUNK_BYTES + 192)


def emit_driver(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines `void name(out, lhs, rhs, extra, parameters)` on top of `support`."""
    block = _BlockEmitter(module, f"{name}_block", support).emit()
    task = _emit_task(module, f"{name}_task", block)
    return emit_parallel_entry(module, name, GEMM_PARAMS, task, FIELDS)


def _emit_task(module: Module, name: str, block: Function) -> Function:
    """Task -> (batches, block of n, block of m); calls `block` for each batch."""
    builder = define(module, name, ((PTR, "context"), (I64, "task")))
    context, task = builder.function.args
    out, lhs, rhs, extra, parameters = (builder.load_ptr(context, slot) for slot in range(len(GEMM_PARAMS)))
    record = Record(builder, parameters, FIELDS)
    blocks_m, blocks_n = record["blocks_m"], record["blocks_n"]
    per_batch = builder.mul(blocks_m, blocks_n)
    group, index_n, index_m = builder.if_else(
        builder.icmp_signed("==", per_batch, builder.i64(1)),
        lambda: [task, builder.i64(0), builder.i64(0)],
        lambda: [
            builder.udiv(task, per_batch),
            builder.udiv(builder.urem(task, per_batch), blocks_m),
            builder.urem(builder.urem(task, per_batch), blocks_m),
        ],
    )
    first_row = builder.mul(index_m, record["block_m"])
    first_column = builder.mul(index_n, record["block_n"])
    rows = builder.min(record["block_m"], builder.sub(record["m"], first_row))
    columns = builder.min(record["block_n"], builder.sub(record["n"], first_column))
    first_batch = builder.mul(group, record["batches_per_task"])
    end = builder.min(builder.add(first_batch, record["batches_per_task"]), record["num_batches"])
    with builder.loop(first_batch, end, name="batch") as batch:
        indices = _batch_indices(builder, record, batch)
        moved: list[Value] = []
        for operand, base in (("out", out), ("lhs", lhs), ("rhs", rhs)):
            for i, index in enumerate(indices):
                base = builder.offset(base, builder.mul(index, record[f"batch_{operand}_{i}"]))
            moved.append(base)
        builder.call(block, (*moved, extra, parameters, first_row, rows, first_column, columns))
    builder.ret_void()
    return builder.function


def _batch_indices(builder: StructuredBuilder, record: Record, batch: Value) -> list[Value]:
    """The indices of a batch number; without divisions in the usual case of one dimension."""
    size_0, size_1 = record["batch_size_0"], record["batch_size_1"]
    zero = builder.i64(0)
    return list(
        builder.if_else(
            builder.icmp_signed("==", size_0, record["num_batches"]),
            lambda: [batch, zero, zero],
            lambda: [
                builder.urem(batch, size_0),
                builder.urem(builder.udiv(batch, size_0), size_1),
                builder.udiv(builder.udiv(batch, size_0), size_1),
            ],
        )
    )


@dataclass(slots=True)
class _Chunk:
    """A part of k: runs [outer, outer + runs), elements [inner, inner + length) of each."""

    outer: Value
    inner: Value
    runs: Value
    length: Value
    size: Value  # runs * length


class _PartialSums:
    """Integers that are summed as floats: how many terms the scratch block holds, and whether there is a sum in the
    result to add it to.
    """

    def __init__(self, builder: StructuredBuilder, support: GemmSupport) -> None:
        assert support.unpack_add is not None and support.types.exact_terms is not None
        self.builder = builder
        self.functions = support.unpack_add.value, support.unpack.value
        self.limit = support.types.exact_terms - CHUNK_BYTES // size_of(support.compute)
        self._terms, self._unpacked = (builder.alloca(I64, 1, align=8, name=name) for name in ("terms", "unpacked"))
        for variable in (self._terms, self._unpacked):
            builder.store(builder.i64(0), variable, 8)

    def terms(self) -> Value:
        return self.builder.load(I64, self._terms, 8)

    def is_full(self, added: Value, is_last: Value) -> Value:
        """Counts `added` terms; whether another chunk (there is one unless `is_last`) might not be summed exactly."""
        builder = self.builder
        terms = builder.add(self.terms(), added)
        builder.store(terms, self._terms, 8)
        full = builder.icmp_signed(">", terms, builder.i64(self.limit))
        return builder.select(is_last, const_int(I1, 0), full)

    def restart(self) -> None:
        """After the scratch block was unpacked."""
        self.builder.store(self.builder.i64(0), self._terms, 8)
        self.builder.store(self.builder.i64(1), self._unpacked, 8)

    def unpack_function(self) -> Value:
        """The function that unpacks now."""
        unpacked = self.builder.load(I64, self._unpacked, 8)
        return self.builder.select(self.builder.icmp_signed("!=", unpacked, self.builder.i64(0)), *self.functions)


class _BlockEmitter:
    """Emits the function that computes one block of the result."""

    def __init__(self, module: Module, name: str, support: GemmSupport) -> None:
        self.support = support
        self.module = module
        self.strips = _StripEmitter(module, f"{name}_strip", support).emit()
        self.pack_panels = pack_panels_function(module, support)
        self.vector_products = _emit_vector_products(module, name, support)
        self.builder = define(module, name, _BLOCK_PARAMS)

    def emit(self) -> Function:
        """Emits the block function."""
        builder, support = self.builder, self.support
        out, lhs, rhs, extra, parameters, self.first_row, self.rows, self.first_column, self.columns = (
            builder.function.args
        )
        self.record = record = Record(builder, parameters, FIELDS)
        self.extra = extra
        panel_slack = support.tile.vectors * support.vector_bytes * (CHUNK_BYTES // size_of(support.compute))
        self.kernel_record = builder.alloca(I64, Slot.COUNT, align=64, name="kernel_record")
        self.partial = _PartialSums(builder, support) if support.unpack_add is not None else None
        self.packed_lhs = builder.alloca(I8, _PACKED_LHS_BYTES, align=64, name="packed_lhs")
        self.packed_rhs = builder.alloca(I8, PACKED_RHS_BYTES + panel_slack, align=64, name="packed_rhs")
        scratch = builder.alloca(I8, RESULT_SCRATCH_BYTES + 64 * support.vector_bytes * 8, align=64, name="result")
        swap = record.flag("swap_operands")
        lhs, rhs = builder.select(swap, rhs, lhs), builder.select(swap, lhs, rhs)
        self.lhs = builder.offset(lhs, builder.mul(self.first_row, record["lhs_row"]))
        self.rhs = builder.offset(rhs, builder.mul(self.first_column, record["rhs_column"]))
        self.place = builder.offset_2d(out, self.first_row, record["out_row"], self.first_column, record["out_column"])
        use_scratch = record.flag("use_scratch")
        padded = builder.and_(
            builder.add(self.columns, builder.i64(support.tile.width - 1)), builder.i64(-support.tile.width)
        )
        scratch_row = builder.mul(padded, builder.i64(size_of(support.compute)))
        self.scratch = scratch, scratch_row
        self.result = builder.select(use_scratch, scratch, self.place)
        result_row = builder.select(use_scratch, scratch_row, record["out_row"])
        builder.store_slot(result_row, self.kernel_record, Slot.C_STRIDE)
        builder.store_slot(extra, self.kernel_record, Slot.EXTRA)
        self._compute(result_row)
        self._finish()
        builder.ret_void()
        return builder.function

    def _compute(self, result_row: Value) -> None:
        """Branches to the method. All but TILES start from a result of zeros."""
        builder, record = self.builder, self.record
        done = builder.append_block("computed")
        tiles, others = builder.append_block("tiles"), builder.append_block("others")
        builder.cbranch(builder.icmp_signed("==", record["method"], builder.i64(Method.TILES)), tiles, others)
        builder.position_at_end(others)
        self._fill_zero(result_row)
        for method, functions in self.vector_products.items():
            with builder.when(builder.icmp_signed("==", record["method"], builder.i64(method))):
                args = (
                    self.result, result_row, self.lhs, record["lhs_row"], record["lhs_k_inner"],
                    self.rhs, record["rhs_k_inner"], record["rhs_column"], self.rows, record["k_inner"], self.columns,
                )  # fmt: skip
                function = functions[-1].value
                for rows, smaller in zip(ROW_GROUPS[-2::-1], functions[-2::-1]):
                    enough = builder.icmp_signed("<=", self.rows, builder.i64(rows))
                    function = builder.select(enough, smaller.value, function)
                builder.call_pointer(function, VOID, args)
        builder.br(done)
        builder.position_at_end(tiles)
        self._chunks()
        builder.br(done)
        builder.position_at_end(done)

    def _fill_zero(self, result_row: Value) -> None:
        builder = self.builder
        num_bytes = builder.mul(self.columns, builder.i64(size_of(self.support.compute)))
        with builder.loop(builder.i64(0), self.rows, name="row") as i:
            builder.memset(
                builder.offset(self.result, builder.mul(i, result_row)),
                const_int(I8, 0),
                num_bytes,
                size_of(self.support.compute),
            )

    def _chunks(self) -> None:
        builder, record = self.builder, self.record
        k_outer, k_inner = record["k_outer"], record["k_inner"]
        step_outer, step_inner = record["block_k_outer"], record["block_k_inner"]
        with (
            builder.loop(builder.i64(0), k_outer, step_outer, "k_outer") as outer,
            builder.loop(builder.i64(0), k_inner, step_inner, "k_inner") as inner,
        ):
            runs = builder.min(step_outer, builder.sub(k_outer, outer))
            length = builder.min(step_inner, builder.sub(k_inner, inner))
            chunk = _Chunk(outer, inner, runs, length, builder.mul(runs, length))
            self._chunk(chunk, builder.and_(
                builder.icmp_signed("==", builder.add(outer, runs), k_outer),
                builder.icmp_signed("==", builder.add(inner, length), k_inner),
            ))  # fmt: skip

    def _chunk(self, chunk: _Chunk, is_last: Value) -> None:
        builder, record, support = self.builder, self.record, self.support
        done = builder.or_(chunk.outer, chunk.inner) if self.partial is None else self.partial.terms()
        first = builder.icmp_signed("==", done, builder.i64(0))
        builder.store_slot(builder.select(first, builder.i64(0), builder.i64(1)), self.kernel_record, Slot.ACCUMULATE)
        if support.epilogue is not None:
            builder.store_slot(self._is_final(is_last), self.kernel_record, Slot.FINAL)
        rhs = builder.offset_2d(self.rhs, chunk.outer, record["rhs_k_outer"], chunk.inner, record["rhs_k_inner"])
        lhs = builder.offset_2d(self.lhs, chunk.outer, record["lhs_k_outer"], chunk.inner, record["lhs_k_inner"])
        pack_rhs = record.flag("pack_rhs")
        with builder.when(pack_rhs):
            args = (
                self.packed_rhs,
                rhs,
                record["rhs_k_outer"],
                record["rhs_k_inner"],
                record["rhs_column"],
                chunk.runs,
                chunk.length,
                self.columns,
                chunk.size,
                builder.i64(0),
                chunk.length,
            )
            builder.call(self.pack_panels, args)
        panels = builder.select(pack_rhs, self.packed_rhs, rhs)
        args = (
            record.ptr, self.kernel_record, self.packed_lhs, self.result, lhs, panels,
            self.first_row, self.rows, self.first_column, self.columns, chunk.runs, chunk.length,
        )  # fmt: skip
        builder.call(self.strips, args)
        if self.partial is not None:
            with builder.when(self.partial.is_full(chunk.size, is_last)):
                self._unpack()
                self.partial.restart()

    def _is_final(self, is_last: Value) -> Value:
        """The epilogue runs in registers, unless the result has to be unpacked: then `_finish` applies it."""
        builder = self.builder
        in_place = builder.icmp_signed("==", self.record["use_scratch"], builder.i64(0))
        return builder.zext(builder.and_(is_last, in_place), I64)

    def _finish(self) -> None:
        builder, (scratch, scratch_row) = self.builder, self.scratch
        with builder.when(self.record.flag("use_scratch")):
            if self.support.epilogue is not None:
                self._epilogue_pass(scratch, scratch_row)
            self._unpack()

    def _unpack(self) -> None:
        """Copies the scratch block to the result, or adds it if an earlier part of k is there."""
        builder, record, support = self.builder, self.record, self.support
        unit = builder.i64(size_of(support.compute))
        args = (
            self.place, record["out_row"], record["out_column"], *self.scratch, unit, self.rows, self.columns,
        )  # fmt: skip
        if self.partial is None:
            builder.call(support.unpack, args)
        else:
            builder.call_pointer(self.partial.unpack_function(), VOID, args)

    def _epilogue_pass(self, scratch: Value, scratch_row: Value) -> None:
        """Applies the epilogue to the scratch block, whose rows are padded to whole vectors."""
        builder, support = self.builder, self.support
        assert support.epilogue is not None
        width, type = support.tile.width, vector(support.compute, support.tile.width)
        unit = builder.i64(size_of(support.compute))
        with (
            builder.loop(builder.i64(0), self.rows, name="row") as i,
            builder.loop(builder.i64(0), self.columns, width, name="column") as j,
        ):
            pointer = builder.offset_2d(scratch, i, scratch_row, j, unit)
            lanes = builder.min(builder.i64(width), builder.sub(self.columns, j))
            row, column = builder.add(self.first_row, i), builder.add(self.first_column, j)
            value = builder.load(type, pointer, size_of(support.compute))
            builder.store(
                support.epilogue(builder, value, row, column, lanes, self.extra), pointer, size_of(support.compute)
            )


def _emit_vector_products(module: Module, name: str, support: GemmSupport) -> dict[Method, list[Function]]:
    """The functions for each of `ROW_GROUPS`."""
    if not support.types.out.is_float:
        return {}
    ways = ((Method.VECTOR_ALONG_N, False), (Method.VECTOR_ALONG_K, True))
    types = support.types.rhs, support.compute, support.pack_lhs
    return {
        method: [
            emit_vector_product(module, f"{name}_{method.name.lower()}_{rows}", *types, rows=rows, along_k=along_k)
            for rows in ROW_GROUPS
        ]
        for method, along_k in ways
    }


class _StripEmitter:
    """Emits the loop over strips of rows and panels of columns of one chunk."""

    def __init__(self, module: Module, name: str, support: GemmSupport) -> None:
        self.support = support
        self.multiply_panels = multiply_panels_function(module, support)
        params = (
            (PTR, "parameters"),
            (PTR, "kernel_record"),
            (PTR, "packed_lhs"),
            (PTR, "result"),
            (PTR, "lhs"),
            (PTR, "rhs"),
            (I64, "first_row"),
            (I64, "rows"),
            (I64, "first_column"),
            (I64, "columns"),
            (I64, "runs"),
            (I64, "length"),
        )
        self.builder = define(module, name, params)

    def emit(self) -> Function:
        """Emits the function."""
        builder, support = self.builder, self.support
        parameters, self.kernel_record, self.packed_lhs, result, self.lhs, rhs, *rest = builder.function.args
        self.first_row, self.rows, self.first_column, self.columns, self.runs, self.length = rest
        self.record = record = Record(builder, parameters, FIELDS)
        self.size = builder.mul(self.runs, self.length)
        pack_lhs = record.flag("pack_lhs")
        self.leading, self.lhs_row = record["lhs_leading"], record["lhs_row"]
        for slot, packed, direct in (
            (Slot.K_OUTER, builder.i64(1), self.runs),
            (Slot.K_INNER, self.size, self.length),
            (Slot.A_OUTER, builder.i64(0), record["lhs_k_outer"]),
        ):
            builder.store_slot(builder.select(pack_lhs, packed, direct), self.kernel_record, slot)
        group = builder.select(
            pack_lhs, builder.i64(LHS_GROUP_ROWS // support.tile.rows * support.tile.rows), self.rows
        )
        self.a_row = builder.select(pack_lhs, self.leading, self.lhs_row)
        result_row = builder.load_i64(self.kernel_record, Slot.C_STRIDE)
        pack_rhs, vector_bytes = record.flag("pack_rhs"), builder.i64(support.vector_bytes)
        panel_step = builder.select(pack_rhs, builder.mul(self.size, vector_bytes), vector_bytes)
        b_stride = builder.select(pack_rhs, builder.i64(0), record["rhs_k_inner"])
        with builder.loop(builder.i64(0), self.rows, group, "group") as start:
            count = builder.min(group, builder.sub(self.rows, start))
            source = builder.offset(self.lhs, builder.mul(start, self.lhs_row))
            with builder.when(pack_lhs):
                self._pack_group(source, count)
            base = builder.select(pack_lhs, self.packed_lhs, source)
            with builder.loop(builder.i64(0), count, support.tile.rows, "strip") as strip:
                row = builder.add(start, strip)
                rows = self._fill_rows(builder.offset(base, builder.mul(strip, self.a_row)), builder.sub(count, strip))
                builder.store_slot(builder.add(self.first_row, row), self.kernel_record, Slot.ROW)
                args = (
                    self.kernel_record, builder.offset(result, builder.mul(row, result_row)), rhs, panel_step, b_stride,
                    self.first_column, self.columns, rows,
                )  # fmt: skip
                builder.call(self.multiply_panels, args)
        builder.ret_void()
        return builder.function

    def _pack_group(self, source: Value, count: Value) -> None:
        builder, record, support = self.builder, self.record, self.support
        unit = builder.i64(size_of(support.compute))
        with builder.loop(builder.i64(0), self.runs, name="run") as run:
            target = builder.offset(self.packed_lhs, builder.mul(builder.mul(run, self.length), unit))
            place = builder.offset(source, builder.mul(run, record["lhs_k_outer"]))
            args = (target, self.leading, unit, place, self.lhs_row, record["lhs_k_inner"], count, self.length)
            builder.call(support.pack_lhs, args)

    def _fill_rows(self, base: Value, left: Value) -> Value:
        """Writes the table of row pointers; rows that are not there repeat the last one. Returns the number of rows."""
        builder, tile = self.builder, self.support.tile
        rows = builder.min(left, builder.i64(tile.rows))
        last = builder.sub(rows, builder.i64(1))
        for i in range(tile.rows):
            index = builder.min(builder.i64(i), last)
            builder.store_slot(builder.offset(base, builder.mul(index, self.a_row)), self.kernel_record, i)
        builder.store_slot(rows, self.kernel_record, Slot.NUM_ROWS)
        return rows
