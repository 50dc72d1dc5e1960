"""The tile of a convolution that a task computes: which pixels and features, where they lie, and its scratch memory."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.convolution_plan import CHUNK_K_BYTES, MAX_TILE_PIXELS, SLAB_BYTES
from xjit.emitters.gemm.blocking.plan import PACKED_RHS_BYTES, RESULT_SCRATCH_BYTES
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.blocking.units import TILE_LANES
from xjit.emitters.gemm.convolution.depthwise import MAX_DEPTHWISE_TAPS
from xjit.emitters.gemm.convolution.tile_rows import gathered_bytes
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.record import CONV, Record
from xjit.emitters.gemm.routine import ConvolutionRoutine
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR

_TASKS = (
    CONV.blocks_features,
    CONV.tiles_2,
    CONV.tiles_1,
    CONV.output_0,
    CONV.groups,
)
"""How many pieces a task number is made of, the fastest first; what is left numbers the images."""


_TABLE_PARAMS = (
    (PTR, "table"), (I64, "images"), (I64, "rows"), (I64, "columns"),
    (I64, "image_pixels"), (I64, "row_pixels"), (I64, "column_pixels"),
)  # fmt: skip
"""The last three: pixels of the slab from an image, a row, a column of the tile to the next."""


@dataclass(frozen=True, slots=True)
class TileMemory:
    """Scratch memory of a task."""

    kernel_record: Value
    table: Value  # for each pixel of the tile, the number of the slab pixel of its first tap
    slab: Value
    packed: Value  # taps
    sums: Value
    gathered: Value  # rows of the slab side by side, for matrix units


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of one dimension of the output."""

    start: Value
    size: Value


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile at hand. Pointers are at its first image, group and feature; `out` is at its first element."""

    record: Record
    memory: TileMemory
    group: Value
    depth: Value
    images: Extent
    rows: Extent
    columns: Extent
    features: Extent
    pixels: Value
    input: Value
    kernel: Value
    out: Value
    sums: Value
    sums_row: Value  # bytes between pixels
    closure: Value


def locate_tile(builder: StructuredBuilder, support: GemmSupport, routine: ConvolutionRoutine) -> Tile:
    """Splits the task number in block of features, tile, depth and group; finds where the tile is.

    `builder` stands at the start of a function of a context, which holds the parameters of the convolution, and a task.
    """
    context, task = builder.function.args
    out, source, kernel, closure, parameters = (builder.load_ptr(context, slot) for slot in range(5))
    record = Record(builder, parameters, CONV)
    memory = _allocate(builder, support)
    rest = task
    indices: list[Value] = []
    for count in _TASKS:
        size = record[count]
        indices.append(builder.urem(rest, size))
        rest = builder.udiv(rest, size)
    block, tile_2, tile_1, depth, group = indices

    def extent(index: Value, step: int, whole: int) -> Extent:
        start = builder.mul(index, record[step])
        return Extent(start, builder.min(record[step], builder.sub(record[whole], start)))

    images, rows = (
        extent(rest, CONV.tile_batch, CONV.batch),
        extent(tile_1, CONV.tile_1, CONV.output_1),
    )
    columns, features = (
        extent(tile_2, CONV.tile_2, CONV.output_2),
        extent(block, CONV.block_features, CONV.features),
    )
    source = builder.offset_2d(source, images.start, record[CONV.in_batch], group, record[CONV.in_group])
    kernel = builder.offset(kernel, record[CONV.tap_start])
    kernel = builder.offset_2d(kernel, group, record[CONV.tap_group], features.start, record[CONV.tap_feature])
    out = builder.offset_2d(out, images.start, record[CONV.out_batch], group, record[CONV.out_group])
    out = builder.offset_2d(out, depth, record[CONV.out_0], features.start, record[CONV.out_feature])
    out = builder.offset_2d(out, rows.start, record[CONV.out_1], columns.start, record[CONV.out_2])
    sums_row = record[CONV.result_row]
    builder.store_slot(sums_row, memory.kernel_record, Slot.C_STRIDE)
    if routine.tiles:
        builder.store_slot(support.kernel_table(builder, record.end), memory.kernel_record, Slot.KERNELS)
    return Tile(
        record, memory, group, depth, images, rows, columns, features,
        pixels=builder.mul(images.size, builder.mul(rows.size, columns.size)),
        input=source,
        kernel=kernel,
        out=out,
        sums=builder.select(record.flag(CONV.use_scratch), memory.sums, out),
        sums_row=sums_row,
        closure=closure,
    )  # fmt: skip


def _allocate(builder: StructuredBuilder, support: GemmSupport) -> TileMemory:
    unit_bytes = size_of(support.compute)
    panel_bytes = support.tile.vectors * support.vector_bytes * (max(CHUNK_K_BYTES // unit_bytes, 1) + TILE_LANES)
    packed_bytes = max(PACKED_RHS_BYTES + panel_bytes, MAX_DEPTHWISE_TAPS * 64 * unit_bytes)
    return TileMemory(
        kernel_record=builder.alloca(I64, Slot.COUNT, align=64, name="kernel_record"),
        table=builder.alloca(I64, MAX_TILE_PIXELS + support.tile.rows, align=64, name="row_table"),
        slab=builder.alloca(I8, SLAB_BYTES + 64, align=64, name="slab"),
        packed=builder.alloca(I8, packed_bytes, align=64, name="packed_kernel"),
        sums=builder.alloca(I8, RESULT_SCRATCH_BYTES + 8 * 512 * unit_bytes, align=64, name="result"),
        gathered=builder.alloca(I8, gathered_bytes(support), align=64, name="gathered"),
    )


def emit_row_table(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines the loops that fill the table of slab pixels; a strip's rows that are too many repeat the last entry."""
    builder = define(module, name, _TABLE_PARAMS)
    table, images, rows, columns, image_pixels, row_pixels, column_pixels = builder.function.args
    lines = builder.mul(images, rows)
    with builder.loop(builder.i64(0), images, name="image") as n, builder.loop(builder.i64(0), rows, name="row") as r:
        first = builder.add(builder.mul(n, image_pixels), builder.mul(r, row_pixels))
        place = builder.mul(builder.add(builder.mul(n, rows), r), columns)
        with builder.loop(builder.i64(0), columns, name="column") as c:
            pixel = builder.add(first, builder.mul(c, column_pixels))
            builder.store(pixel, builder.gep(I64, table, builder.add(place, c)), 8)
    end = builder.gep(I64, table, builder.mul(lines, columns))
    last = builder.load(I64, builder.gep(I64, end, builder.i64(-1)), 8)
    with builder.loop(builder.i64(0), builder.i64(support.tile.rows), name="pad") as i:
        builder.store(last, builder.gep(I64, end, i), 8)
    builder.ret_void()
    return builder.function


def call_row_table(builder: StructuredBuilder, row_table: Function, tile: Tile) -> None:
    """Fills the table of a tile."""
    record = tile.record
    slab_2 = record[CONV.slab_2]
    steps = (
        builder.mul(record[CONV.slab_1], slab_2),
        builder.mul(record[CONV.slab_stride_1], slab_2),
        record[CONV.slab_stride_2],
    )
    builder.call(row_table, (tile.memory.table, tile.images.size, tile.rows.size, tile.columns.size, *steps))
