"""Panels: how the columns of a chunk of the right operand are cut, packed and multiplied.

A panel is a few vectors of columns for all k of a chunk, [k][vectors]; `RegisterTile.panel_vectors` says how many
vectors each takes. The last panel is padded with zeros. k counts lanes of the unit; where the packed left operand is
biased, one row more follows, of corrections; where it is a matrix unit, lanes of zeros up to whole tiles. Of an operand
that is taken apart in planes, a panel is one such matrix for each.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xjit.emitters.gemm.blocking.register_tile import RegisterTile
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.microkernels.microkernel import Slot, add_products
from xjit.emitters.gemm.packing.conversions import load_as, store_as
from xjit.emitters.gemm.support import GemmSupport, call_copy
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I1, I8, I64, PTR, VOID, vector
from xjit.llvm.values import const_int, zero

PACK_STEP = 16  # rows of k that are packed for all panels before going on: reads stay within a few pages
"""Where columns are not contiguous, a panel is packed for all k at once instead: each column is then one stream."""
PACK_PARAMS = (
    (PTR, "dst"),
    (PTR, "src"),
    (I64, "run_stride"),
    (I64, "k_stride"),
    (I64, "column_stride"),
    (I64, "runs"),
    (I64, "length"),
    (I64, "columns"),
    (I64, "size"),
    (I64, "first_k"),
    (I64, "run_rows"),
)
"""Packs `runs` times `length` elements of k in panels of `size` lanes; run r goes to lanes `first_k + r * run_rows` on.
Strides are in bytes.
"""

MULTIPLY_PARAMS = (
    (PTR, "kernel_record"),
    (PTR, "result"),
    (PTR, "rhs"),
    (I64, "panel_step"),
    (I64, "b_stride"),
    (I64, "columns"),
    (I64, "rows"),
)
"""`panel_step`: bytes per vector of columns; `b_stride`: bytes from one k to the next, 0 for packed panels."""


@contextmanager
def panels(builder: StructuredBuilder, tile: RegisterTile, num_vectors: Value) -> Generator[tuple[Value, Value]]:
    """A loop over the panels of `num_vectors` vectors: yields (first vector, number of vectors)."""
    before = builder.block
    header, body, after = (builder.append_block(f"panel_{part}") for part in ("head", "body", "exit"))
    builder.br(header)
    builder.position_at_end(header)
    first = builder.phi(I64, [(builder.i64(0), before)], "panel")
    builder.cbranch(builder.icmp_signed("<", first, num_vectors), body, after)
    builder.position_at_end(body)
    left = builder.sub(num_vectors, first)
    count = builder.min(left, builder.i64(tile.vectors))
    if tile.vectors == 3:
        count = builder.select(builder.icmp_signed("==", left, builder.i64(4)), builder.i64(2), count)
    yield first, count
    first.add_incoming(builder.add(first, count), builder.block)
    builder.br(header)
    builder.position_at_end(after)


def vectors_for(builder: StructuredBuilder, tile: RegisterTile, columns: Value) -> Value:
    """The number of vectors that hold `columns` columns."""
    return builder.udiv(builder.add(columns, builder.i64(tile.width - 1)), builder.i64(tile.width))


def pack_panels_function(module: Module, support: GemmSupport) -> Function:
    """The packing of a chunk of the right operand, emitted once per `support`."""
    name = f"{support.prefix}_pack"
    return module.functions.get(name) or _emit_pack_panels(module, name, support)


def finish_panels(builder: StructuredBuilder, support: GemmSupport, args: tuple[Value, Value, Value]) -> None:
    """After all of a chunk is packed: writes the rows behind its k, where there are any. `args`: see below."""
    name, module = f"{support.prefix}_finish", builder.module
    if support.is_biased:
        builder.call(module.functions.get(name) or _emit_correct_panels(module, name, support), args)
    elif support.types.unit.is_tiles:
        builder.call(module.functions.get(name) or _emit_fill_panels(module, name, support), args)


def multiply_panels_function(module: Module, support: GemmSupport) -> Function:
    """The product of one strip of rows (in the kernel record) with all panels of a chunk; emitted once."""
    name = f"{support.prefix}_multiply"
    return module.functions.get(name) or _emit_multiply_panels(module, name, support)


def _emit_pack_panels(module: Module, name: str, support: GemmSupport) -> Function:
    builder = define(module, name, PACK_PARAMS)
    dst, src, run_stride, k_stride, column_stride, runs, length, columns, size, first_k, run_rows = (
        builder.function.args
    )
    tile, vector_bytes = support.tile, builder.i64(support.vector_bytes)
    panel_step = support.panel_step(builder, size)
    num_vectors = vectors_for(builder, tile, columns)
    if not support.whole:
        _clear_last_panel(builder, support, (dst, panel_step, columns, num_vectors, first_k))
    by_rows = const_int(I1, 1)
    if support.transposes:
        by_rows = builder.icmp_signed("==", column_stride, builder.i64(size_of(support.types.rhs)))
    step = builder.select(by_rows, builder.i64(PACK_STEP), length)
    with (
        builder.loop(builder.i64(0), runs, name="run") as run,
        builder.loop(builder.i64(0), length, step, name="k") as k,
    ):
        rows = builder.min(step, builder.sub(length, k))
        source = builder.offset_2d(src, run, run_stride, k, k_stride)
        packed_row = builder.add(builder.add(builder.mul(run, run_rows), support.lanes(builder, k)), first_k)
        with panels(builder, tile, num_vectors) as (first, count):
            column = builder.mul(first, builder.i64(tile.width))
            width = builder.min(builder.mul(count, builder.i64(tile.width)), builder.sub(columns, column))
            row_bytes = builder.mul(count, vector_bytes)
            target = builder.offset_2d(dst, first, panel_step, packed_row, row_bytes)
            place = builder.offset(source, builder.mul(column, column_stride))
            ahead = builder.mul(step, k_stride)
            is_whole = const_int(I1, support.whole)
            if support.group == 1 and not support.whole:
                is_whole = builder.and_(by_rows, builder.icmp_signed("==", width, builder.i64(tile.columns)))
            if support.group == 1:
                with builder.when(is_whole):
                    _copy_whole_panel(builder, support, (target, place), (k_stride, ahead), rows)
            if support.group > 1 or not support.whole:
                unit = builder.i64(size_of(support.compute))
                plane_bytes = builder.mul(support.panel_rows(builder, size), row_bytes)
                args = target, row_bytes, unit, place, k_stride, column_stride, rows, width
                with builder.when(const_int(I1, 1) if support.group > 1 else builder.not_(is_whole)):
                    with builder.when(by_rows):
                        _prefetch_rows(builder, support, builder.offset(place, ahead), k_stride, rows)
                    call_copy(builder, support.pack_rhs, args, plane_bytes)
    builder.ret_void()
    return builder.function


def _clear_last_panel(
    builder: StructuredBuilder, support: GemmSupport, args: tuple[Value, Value, Value, Value, Value]
) -> None:
    """Fills it with zeros ahead of the first rows of k, if columns do not fill it."""
    (dst, panel_step, columns, num_vectors, first_k), tile = args, support.tile
    partial = builder.icmp_signed("!=", builder.mul(num_vectors, builder.i64(tile.width)), columns)
    with builder.when(builder.and_(partial, builder.icmp_signed("==", first_k, builder.i64(0)))):
        last = builder.sub(num_vectors, builder.min(num_vectors, builder.i64(tile.vectors)))
        start = builder.offset(dst, builder.mul(last, panel_step))
        builder.memset(start, const_int(I8, 0), builder.mul(builder.sub(num_vectors, last), panel_step), 64)


def _copy_whole_panel(
    builder: StructuredBuilder,
    support: GemmSupport,
    places: tuple[Value, Value],
    steps: tuple[Value, Value],
    rows: Value,
) -> None:
    """Copies `rows` of k of a panel without edges: most are, and are too short for the loops of a general copy.

    `places` are those of the target and the source; `steps` in the source: to the next row, and to what to prefetch.
    """
    tile, storage, (k_stride, ahead) = support.tile, support.types.rhs, steps
    with builder.loop_with(builder.i64(0), rows, places, 1, "row") as (_, (packed, place), following):
        _prefetch_row(builder, support, builder.offset(place, ahead))
        for v in range(tile.vectors):
            column = builder.offset(place, builder.i64(v * tile.width * size_of(storage)))
            value = load_as(builder, support.compute, storage, column, tile.width)
            store_as(builder, value, support.compute, builder.offset(packed, builder.i64(v * support.vector_bytes)))
        panel_row = builder.i64(tile.vectors * support.vector_bytes)
        following.extend((builder.offset(packed, panel_row), builder.offset(place, k_stride)))


def _emit_correct_panels(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines `void (packed, size, columns)`: -128 times the sum of each column's bytes, behind each panel."""
    builder = define(module, name, ((PTR, "packed"), (I64, "size"), (I64, "columns")))
    packed, size, columns = builder.function.args
    tile, vector_bytes = support.tile, builder.i64(support.vector_bytes)
    type = vector(support.compute, tile.width)
    bias = const_int(type, -0x7F7F7F80)  # four bytes of 128
    panel_step = builder.mul(support.panel_rows(builder, size), vector_bytes)
    with panels(builder, tile, vectors_for(builder, tile, columns)) as (first, count):
        start, row_bytes = builder.offset(packed, builder.mul(first, panel_step)), builder.mul(count, vector_bytes)
        with builder.loop(builder.i64(0), count, name="vector") as index:
            column = builder.offset(start, builder.mul(index, vector_bytes))
            with builder.loop_with(builder.i64(0), size, (zero(type),), 1, "k") as (k, sums, following):
                b = builder.load(type, builder.offset(column, builder.mul(k, row_bytes)), size_of(support.compute))
                following.append(add_products(builder, support.types.unit, bias, b, sums[0]))
            place = builder.offset(column, builder.mul(size, row_bytes))
            builder.store(builder.neg(sums[0]), place, size_of(support.compute))
    builder.ret_void()
    return builder.function


def _emit_fill_panels(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines `void (packed, size, columns)`: zeros behind the k of each plane of each panel."""
    builder = define(module, name, ((PTR, "packed"), (I64, "size"), (I64, "columns")))
    packed, size, columns = builder.function.args
    vector_bytes = builder.i64(support.vector_bytes)
    rows = support.panel_rows(builder, size)
    panel_step = support.panel_step(builder, size)
    with panels(builder, support.tile, vectors_for(builder, support.tile, columns)) as (first, count):
        row_bytes = builder.mul(count, vector_bytes)
        end = builder.offset_2d(packed, first, panel_step, size, row_bytes)
        for number in range(support.types.planes[1]):
            plane = builder.mul(builder.mul(rows, row_bytes), builder.i64(number))
            place = builder.offset(end, plane) if number else end
            builder.memset(place, const_int(I8, 0), builder.mul(builder.sub(rows, size), row_bytes), 64)
    builder.ret_void()
    return builder.function


def _prefetch_rows(builder: StructuredBuilder, support: GemmSupport, start: Value, stride: Value, rows: Value) -> None:
    """Asks for the next rows of a panel: they are too short for the hardware to see them as streams."""
    with builder.loop(builder.i64(0), rows, name="ahead") as i:
        _prefetch_row(builder, support, builder.offset(start, builder.mul(i, stride)))


def _prefetch_row(builder: StructuredBuilder, support: GemmSupport, row: Value) -> None:
    for line in range(0, support.tile.columns * size_of(support.types.rhs), 64):
        builder.prefetch(builder.offset(row, builder.i64(line)))


def _emit_multiply_panels(module: Module, name: str, support: GemmSupport) -> Function:
    builder = define(module, name, MULTIPLY_PARAMS)
    kernel_record, result, rhs, panel_step, b_stride, columns, rows = builder.function.args
    tile, vector_bytes = support.tile, builder.i64(support.vector_bytes)
    kernels = builder.load_ptr(kernel_record, Slot.KERNELS)
    row_entries = builder.mul(builder.sub(rows, builder.i64(1)), builder.i64(tile.vectors))
    packed = builder.icmp_signed("==", b_stride, builder.i64(0))
    with panels(builder, tile, vectors_for(builder, tile, columns)) as (first, count):
        before_last = builder.sub(count, builder.i64(1))
        kernel = builder.load(PTR, builder.gep(PTR, kernels, builder.add(row_entries, before_last)), 8, name="kernel")
        stride = builder.select(packed, builder.mul(count, vector_bytes), b_stride)
        column = builder.mul(first, builder.i64(tile.width))
        last_column = builder.add(column, builder.mul(before_last, builder.i64(tile.width)))
        lanes = builder.min(builder.i64(tile.width), builder.sub(columns, last_column))
        c = builder.offset(result, builder.mul(first, vector_bytes))
        b = builder.offset(rhs, builder.mul(first, panel_step))
        builder.call_pointer(kernel, VOID, (kernel_record, b, stride, c, lanes))
    builder.ret_void()
    return builder.function
