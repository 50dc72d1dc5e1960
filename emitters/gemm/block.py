"""One block of a multiplication, as IR: chunks of k, packing of the right operand, the way out of scratch memory.

Everything about the multiplication at hand is read from its record (`shapes.GemmParameters`). Scratch memory is on
the stack of the thread that runs a task, of a fixed size (see the limits in `plan.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.method import Method
from xjit.emitters.gemm.blocking.plan import CHUNK_BYTES, LHS_GROUP_ROWS, PACKED_RHS_BYTES, RESULT_SCRATCH_BYTES
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.blocking.units import TILE_LANES
from xjit.emitters.gemm.epilogue import call_epilogue, has_epilogue
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.microkernels.vector_product import emit_vector_product
from xjit.emitters.gemm.panels import finish_panels, pack_panels_function
from xjit.emitters.gemm.record import GEMM, Record
from xjit.emitters.gemm.routine import ROW_GROUPS, Routine
from xjit.emitters.gemm.strips import emit_strips
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR, VOID
from xjit.llvm.values import const_int, zero

GEMM_PARAMS = ((PTR, "out"), (PTR, "lhs"), (PTR, "rhs"), (PTR, "closure"), (PTR, "parameters"))
"""`out` is not used by a multiplication with an epilogue whose sums stay in scratch memory (`use_scratch`)."""
_BLOCK_PARAMS = (
    *GEMM_PARAMS, (I64, "batch"), (I64, "first_row"), (I64, "rows"), (I64, "first_column"), (I64, "columns"),
)  # fmt: skip
PACKED_ROW_BYTES = CHUNK_BYTES + 192


@dataclass(frozen=True, slots=True)
class _Parts:
    """The functions that a block calls."""

    strips: Function | None
    pack_panels: Function | None
    vector_products: Mapping[Method, Sequence[Function]]


@dataclass(frozen=True, slots=True)
class _Memory:
    """Scratch memory of a block."""

    kernel_record: Value
    packed_lhs: Value
    packed_rhs: Value
    result: Value


@dataclass(frozen=True, slots=True)
class _Block:
    """The block at hand: which it is, its operands, and where its sums are kept."""

    record: Record
    memory: _Memory
    batch: Value
    first_row: Value
    rows: Value
    first_column: Value
    columns: Value
    lhs: Value
    rhs: Value
    place: Value  # of the block in `out`
    sums: Value
    sums_row: Value  # bytes
    scratch_row: Value
    closure: Value


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of k: runs [outer, outer + runs), elements [inner, inner + length) of each."""

    outer: Value
    inner: Value
    runs: Value
    length: Value
    size: Value  # lanes of all runs
    is_last: Value


def emit_block(module: Module, name: str, support: GemmSupport, routine: Routine) -> Function:
    """Defines the function with `_BLOCK_PARAMS`."""
    parts = _Parts(
        emit_strips(module, f"{name}_strip", support, packs=routine.copies) if routine.tiles else None,
        pack_panels_function(module, support) if routine.tiles and routine.copies else None,
        _emit_vector_products(module, name, support, routine),
    )
    if parts.strips is not None:
        # a strip is a kernel's work for each panel; code that sets up a matrix unit is left to the optimizer
        parts.strips.is_cold = not (routine.batches or support.types.unit.is_tiles)
    builder = define(module, name, _BLOCK_PARAMS)
    block = _locate(builder, support, routine)
    if routine.tiles and routine.vectors:
        is_tiles = builder.icmp_signed("==", block.record[GEMM.method], builder.i64(Method.TILES))
        with builder.when(is_tiles):
            _multiply_tiles(builder, support, parts, block)
        with builder.when(builder.not_(is_tiles)):
            _multiply_vectors(builder, support, parts, block)
    elif routine.tiles:
        _multiply_tiles(builder, support, parts, block)
    else:
        _multiply_vectors(builder, support, parts, block)
    if routine.copies and routine.unpacks:
        unpacks = builder.and_(block.record.flag(GEMM.use_scratch), builder.icmp_signed("==", block.closure, zero(PTR)))
        with builder.when(unpacks):
            _unpack(builder, support, block)
    builder.ret_void()
    return builder.function


def _emit_vector_products(
    module: Module, name: str, support: GemmSupport, routine: Routine
) -> dict[Method, list[Function]]:
    """The functions for each group of rows."""
    if not routine.vectors or not support.types.out.is_float or support.group > 1:
        return {}
    types = support.types.rhs, support.compute, support.pack_lhs
    return {
        method: [
            emit_vector_product(module, f"{name}_{method.name.lower()}_{rows}", *types, rows, method)
            for rows in routine.row_groups
        ]
        for method in routine.vectors
    }


def _allocate(builder: StructuredBuilder, support: GemmSupport) -> _Memory:
    panel_slack = support.tile.vectors * support.vector_bytes * (CHUNK_BYTES // size_of(support.compute) + TILE_LANES)
    lhs_rows = max(LHS_GROUP_ROWS, support.tile.rows)
    return _Memory(
        kernel_record=builder.alloca(I64, Slot.COUNT, align=64, name="kernel_record"),
        packed_lhs=builder.alloca(I8, lhs_rows * PACKED_ROW_BYTES, align=64, name="packed_lhs"),
        packed_rhs=builder.alloca(I8, PACKED_RHS_BYTES + panel_slack, align=64, name="packed_rhs"),
        result=builder.alloca(I8, RESULT_SCRATCH_BYTES + 64 * support.vector_bytes * 8, align=64, name="result"),
    )


def _locate(builder: StructuredBuilder, support: GemmSupport, routine: Routine) -> _Block:
    """Finds the operands and the result of the block that the function's arguments name."""
    out, lhs, rhs, closure, parameters, batch, first_row, rows, first_column, columns = builder.function.args
    record = Record(builder, parameters, GEMM)
    memory = _allocate(builder, support)
    swap = record.flag(GEMM.swap_operands)
    lhs, rhs = builder.select(swap, rhs, lhs), builder.select(swap, lhs, rhs)
    place = builder.offset_2d(out, first_row, record[GEMM.out_row], first_column, record[GEMM.out_column])
    width = support.tile.width
    padded = builder.and_(builder.add(columns, builder.i64(width - 1)), builder.i64(-width))
    scratch_row = builder.mul(padded, builder.i64(size_of(support.compute)))
    use_scratch = record.flag(GEMM.use_scratch)
    sums_row = builder.select(use_scratch, scratch_row, record[GEMM.out_row])
    builder.store_slot(sums_row, memory.kernel_record, Slot.C_STRIDE)
    if routine.tiles:
        builder.store_slot(support.kernel_table(builder, record.end), memory.kernel_record, Slot.KERNELS)
    return _Block(
        record, memory, batch, first_row, rows, first_column, columns,
        lhs=builder.offset(lhs, builder.mul(first_row, record[GEMM.lhs_row])),
        rhs=builder.offset(rhs, builder.mul(first_column, record[GEMM.rhs_column])),
        place=place,
        sums=builder.select(use_scratch, memory.result, place),
        sums_row=sums_row,
        scratch_row=scratch_row,
        closure=closure,
    )  # fmt: skip


def _multiply_vectors(builder: StructuredBuilder, support: GemmSupport, parts: _Parts, block: _Block) -> None:
    """The methods other than TILES: they add to a result of zeros, and the epilogue gets the whole block."""
    record = block.record
    _fill_zero(builder, support, block)
    for method, functions in parts.vector_products.items():
        with builder.when(builder.icmp_signed("==", record[GEMM.method], builder.i64(method))):
            args = (
                block.sums, block.sums_row, block.lhs, record[GEMM.lhs_row], record[GEMM.lhs_k_inner],
                block.rhs, record[GEMM.rhs_k_inner], record[GEMM.rhs_column],
                block.rows, record[GEMM.k_inner], block.columns,
            )  # fmt: skip
            function = functions[-1].value
            for rows, smaller in zip(ROW_GROUPS[len(functions) - 2 :: -1], functions[-2::-1]):
                enough = builder.icmp_signed("<=", block.rows, builder.i64(rows))
                function = builder.select(enough, smaller.value, function)
            builder.call_pointer(function, VOID, args)
    with builder.when(has_epilogue(builder, block.closure)):
        where = block.batch, block.first_row, block.rows, block.first_column, block.columns
        call_epilogue(builder, block.closure, (block.sums, block.sums_row, *where))


def _fill_zero(builder: StructuredBuilder, support: GemmSupport, block: _Block) -> None:
    unit = size_of(support.compute)
    num_bytes = builder.mul(block.columns, builder.i64(unit))
    with builder.loop(builder.i64(0), block.rows, name="row") as i:
        row = builder.offset(block.sums, builder.mul(i, block.sums_row))
        builder.memset(row, const_int(I8, 0), num_bytes, unit)


def _multiply_tiles(builder: StructuredBuilder, support: GemmSupport, parts: _Parts, block: _Block) -> None:
    """The loop over chunks of k."""
    record = block.record
    k_outer, k_inner = record[GEMM.k_outer], record[GEMM.k_inner]
    step_outer, step_inner = record[GEMM.block_k_outer], record[GEMM.block_k_inner]
    with (
        builder.loop(builder.i64(0), k_outer, step_outer, "k_outer") as outer,
        builder.loop(builder.i64(0), k_inner, step_inner, "k_inner") as inner,
    ):
        runs = builder.min(step_outer, builder.sub(k_outer, outer))
        length = builder.min(step_inner, builder.sub(k_inner, inner))
        size = builder.mul(runs, support.lanes(builder, length))
        is_last = builder.and_(
            builder.icmp_signed("==", builder.add(outer, runs), k_outer),
            builder.icmp_signed("==", builder.add(inner, length), k_inner),
        )
        _multiply_chunk(builder, support, parts, block, _Chunk(outer, inner, runs, length, size, is_last))


def _multiply_chunk(
    builder: StructuredBuilder, support: GemmSupport, parts: _Parts, block: _Block, chunk: _Chunk
) -> None:
    record, memory = block.record, block.memory
    first = builder.icmp_signed("==", builder.or_(chunk.outer, chunk.inner), builder.i64(0))
    builder.store_slot(builder.select(first, builder.i64(0), builder.i64(1)), memory.kernel_record, Slot.ACCUMULATE)
    rhs = builder.offset_2d(block.rhs, chunk.outer, record[GEMM.rhs_k_outer], chunk.inner, record[GEMM.rhs_k_inner])
    lhs = builder.offset_2d(block.lhs, chunk.outer, record[GEMM.lhs_k_outer], chunk.inner, record[GEMM.lhs_k_inner])
    assert parts.strips is not None
    panels = rhs
    if parts.pack_panels is not None:
        pack_rhs = record.flag(GEMM.pack_rhs)
        with builder.when(pack_rhs):
            _pack_rhs(builder, support, parts.pack_panels, block, chunk, rhs)
        panels = builder.select(pack_rhs, memory.packed_rhs, rhs)
    finishes = builder.and_(chunk.is_last, has_epilogue(builder, block.closure))
    args = (
        record.ptr, memory.kernel_record, memory.packed_lhs, block.sums, lhs, panels, block.rows, block.columns,
        chunk.runs, chunk.length, finishes, block.closure, block.batch, block.first_row, block.first_column,
    )  # fmt: skip
    builder.call(parts.strips, args)


def _pack_rhs(
    builder: StructuredBuilder, support: GemmSupport, pack_panels: Function, block: _Block, chunk: _Chunk, rhs: Value
) -> None:
    """Packs the chunk's part of the right operand, which begins at `rhs`."""
    record, packed = block.record, block.memory.packed_rhs
    args = (
        packed, rhs, record[GEMM.rhs_k_outer], record[GEMM.rhs_k_inner], record[GEMM.rhs_column],
        chunk.runs, chunk.length, block.columns, chunk.size, builder.i64(0), support.lanes(builder, chunk.length),
    )  # fmt: skip
    builder.call(pack_panels, args)
    finish_panels(builder, support, (packed, chunk.size, block.columns))


def _unpack(builder: StructuredBuilder, support: GemmSupport, block: _Block) -> None:
    """Copies the scratch block to the result."""
    record, unit = block.record, builder.i64(size_of(support.compute))
    args = (
        block.place, record[GEMM.out_row], record[GEMM.out_column],
        block.memory.result, block.scratch_row, unit, block.rows, block.columns,
    )  # fmt: skip
    builder.call(support.unpack, args)
