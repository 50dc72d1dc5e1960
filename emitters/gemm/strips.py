"""One chunk of k of one block: the loop over strips of rows, each with all panels of columns, and the epilogue of
strips that are finished.
"""

from __future__ import annotations

from contextlib import nullcontext

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.plan import LHS_GROUP_ROWS
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.epilogue import call_epilogue
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.microkernels.tile_instructions import configure_tiles, release_tiles
from xjit.emitters.gemm.panels import multiply_panels_function
from xjit.emitters.gemm.record import GEMM, Record
from xjit.emitters.gemm.support import GemmSupport, call_copy
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR
from xjit.llvm.values import const_int

STRIPS_PARAMS = (
    (PTR, "parameters"),
    (PTR, "kernel_record"),
    (PTR, "packed_lhs"),
    (PTR, "result"),
    (PTR, "lhs"),
    (PTR, "rhs"),
    (I64, "rows"),
    (I64, "columns"),
    (I64, "runs"),
    (I64, "length"),
    (I1, "finishes"),
    (PTR, "closure"),
    (I64, "batch"),
    (I64, "first_row"),
    (I64, "first_column"),
)
"""`finishes`: this is the last chunk, and each strip goes to the epilogue. The parameters behind it are for that."""


@dataclass(frozen=True, slots=True)
class _Left:
    """The chunk of the left operand: where its rows are, and how its elements lie."""

    record: Record
    source: Value
    packed: Value
    runs: Value
    length: Value
    row: Value  # bytes between rows
    leading: Value  # bytes between packed rows
    is_packed: Value


def emit_strips(module: Module, name: str, support: GemmSupport, *, packs: bool) -> Function:
    """Defines the function with `STRIPS_PARAMS`. Without `packs`, no record may ask for packed operands."""
    multiply_panels = multiply_panels_function(module, support)
    builder = define(module, name, STRIPS_PARAMS)
    parameters, kernel_record, packed, result, source, rhs, rows, columns, runs, length, *rest = builder.function.args
    finishes, closure, batch, first_row, first_column = rest
    record = Record(builder, parameters, GEMM)
    pack_lhs, pack_rhs = (record.flag(flag) if packs else const_int(I1, 0) for flag in (GEMM.pack_lhs, GEMM.pack_rhs))
    left = _Left(record, source, packed, runs, length, record[GEMM.lhs_row], record[GEMM.lhs_leading], pack_lhs)
    size = builder.mul(runs, support.lanes(builder, length))
    _describe_rows(builder, left, size, kernel_record)
    tile_rows = support.tile.rows
    group = builder.select(left.is_packed, builder.i64(max(1, LHS_GROUP_ROWS // tile_rows) * tile_rows), rows)
    a_row = builder.select(left.is_packed, left.leading, left.row)
    if support.types.unit.is_tiles:
        configure_tiles(builder, module.target)
        builder.store_slot(a_row, kernel_record, Slot.A_STRIDE)
    result_row = builder.load_i64(kernel_record, Slot.C_STRIDE)
    vector_bytes = builder.i64(support.vector_bytes)
    packed_step = support.panel_step(builder, size)
    panel_step = builder.select(pack_rhs, packed_step, vector_bytes)
    b_stride = builder.select(pack_rhs, builder.i64(0), record[GEMM.rhs_k_inner])
    groups = builder.loop(builder.i64(0), rows, group, "group") if packs else nullcontext(builder.i64(0))
    with groups as start:
        count = builder.min(group, builder.sub(rows, start))
        place = builder.offset(source, builder.mul(start, left.row))
        if packs:
            with builder.when(left.is_packed):
                _pack_group(builder, support, left, place, count)
        base = builder.select(left.is_packed, packed, place)
        with builder.loop(builder.i64(0), count, tile_rows, "strip") as strip:
            row = builder.add(start, strip)
            height = _fill_rows(
                builder, support, kernel_record,
                builder.offset(base, builder.mul(strip, a_row)), a_row, builder.sub(count, strip),
            )  # fmt: skip
            tile = builder.offset(result, builder.mul(row, result_row))
            builder.call(multiply_panels, (kernel_record, tile, rhs, panel_step, b_stride, columns, height))
            with builder.when(finishes):
                where = batch, builder.add(first_row, row), height, first_column, columns
                call_epilogue(builder, closure, (tile, result_row, *where))
    if support.types.unit.is_tiles:
        release_tiles(builder, module.target)
    builder.ret_void()
    return builder.function


def _describe_rows(builder: StructuredBuilder, left: _Left, size: Value, kernel_record: Value) -> None:
    """Tells the kernels how k runs along a row: in one run if rows are packed."""
    for slot, packed, direct in (
        (Slot.K_OUTER, builder.i64(1), left.runs),
        (Slot.K_INNER, size, left.length),
        (Slot.A_OUTER, builder.i64(0), left.record[GEMM.lhs_k_outer]),
    ):
        builder.store_slot(builder.select(left.is_packed, packed, direct), kernel_record, slot)


def _pack_group(builder: StructuredBuilder, support: GemmSupport, left: _Left, source: Value, count: Value) -> None:
    """Packs `count` rows that start at `source`: in each, one plane behind the other."""
    unit = builder.i64(size_of(support.compute))
    size = builder.mul(left.runs, support.lanes(builder, left.length))
    plane_bytes = builder.mul(support.panel_rows(builder, size), unit)
    with builder.loop(builder.i64(0), left.runs, name="run") as run:
        lane = builder.mul(run, support.lanes(builder, left.length))
        target = builder.offset(left.packed, builder.mul(lane, unit))
        place = builder.offset(source, builder.mul(run, left.record[GEMM.lhs_k_outer]))
        args = target, left.leading, unit, place, left.row, left.record[GEMM.lhs_k_inner], count, left.length
        call_copy(builder, support.pack_lhs, args, plane_bytes)
    if support.types.unit.is_tiles:
        size_bytes = builder.mul(size, unit)
        with builder.loop(builder.i64(0), count, name="fill") as row:
            end = builder.offset_2d(left.packed, row, left.leading, size, unit)
            for number in range(support.types.planes[0]):
                place = builder.offset(end, builder.mul(plane_bytes, builder.i64(number))) if number else end
                builder.memset(place, const_int(I8, 0), builder.sub(plane_bytes, size_bytes), 4)


def _fill_rows(
    builder: StructuredBuilder, support: GemmSupport, kernel_record: Value, base: Value, a_row: Value, left: Value
) -> Value:
    """Writes the table of row pointers; rows that are not there repeat the last one. Returns the number of rows."""
    rows = builder.min(left, builder.i64(support.tile.rows))
    last = builder.sub(rows, builder.i64(1))
    for i in range(1 if support.types.unit.is_tiles else support.tile.rows):
        index = builder.min(builder.i64(i), last)
        builder.store_slot(builder.offset(base, builder.mul(index, a_row)), kernel_record, i)
    builder.store_slot(rows, kernel_record, Slot.NUM_ROWS)
    return rows
