"""The sums of one tile of a convolution: chunks of taps and channels, each copied to the slab and multiplied."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.convolution.depthwise import emit_depthwise_multiply
from xjit.emitters.gemm.convolution.slab import emit_fill_slab
from xjit.emitters.gemm.convolution.strips import emit_strips
from xjit.emitters.gemm.convolution.tile import Tile
from xjit.emitters.gemm.convolution.tile_rows import GATHERED_ROW_BYTES
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.panels import PACK_STEP, finish_panels, pack_panels_function
from xjit.emitters.gemm.record import CONV
from xjit.emitters.gemm.routine import ConvolutionRoutine
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, I64
from xjit.llvm.values import const_int

_ROWS = (CONV.window_stride_1, CONV.dilation_1, CONV.padding_1)
_COLUMNS = (CONV.window_stride_2, CONV.dilation_2, CONV.padding_2)


@dataclass(frozen=True, slots=True)
class _TileParts:
    """Those for products by tiles."""

    pack_panels: Function
    multiply_strips: Function


@dataclass(frozen=True, slots=True)
class ChunkParts:
    """The functions that the chunks call, and what they are made of."""

    support: GemmSupport
    fill_slab: Function
    tiles: _TileParts | None
    depthwise_multiply: Function | None

    @property
    def unit_bytes(self) -> int:
        """Bytes of an element of the compute type."""
        return size_of(self.support.compute)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Taps [tap_1, tap_1 + taps_1) x [tap_2, tap_2 + taps_2) and channels of the chunk at hand."""

    tap_0: Value
    tap_1: Value
    tap_2: Value
    channel: Value
    taps_1: Value
    taps_2: Value
    channels: Value
    depth: Value  # of the input
    depthwise: Value


def emit_chunk_parts(module: Module, name: str, support: GemmSupport, routine: ConvolutionRoutine) -> ChunkParts:
    """Emits the functions for a set of types; `name` is that of the task."""
    fill_slab = emit_fill_slab(module, f"{name}_slab", support)
    tiles = deep = None
    if routine.tiles:
        tiles = _TileParts(pack_panels_function(module, support), emit_strips(module, f"{name}_strips", support))
        tiles.multiply_strips.is_cold = not support.types.unit.is_tiles  # see `emit_block`
    if routine.depthwise and support.group == 1:  # units of several elements of k have none
        deep = emit_depthwise_multiply(module, f"{name}_depthwise", support)
    return ChunkParts(support, fill_slab, tiles, deep)


def sum_chunks(builder: StructuredBuilder, parts: ChunkParts, tile: Tile) -> None:
    """Emits the loops over chunks; fills the tile with zeros if there are none."""
    record, kernel_record = tile.record, tile.memory.kernel_record
    started = builder.alloca(I64, 1, align=8, name="started")
    nothing = builder.i64(0)
    builder.store(nothing, started, 8)
    kernel_1, kernel_2 = record[CONV.kernel_1], record[CONV.kernel_2]
    depthwise = record.flag(CONV.depthwise)
    channels = builder.select(depthwise, tile.features.size, record[CONV.channels])
    step_1, step_2, step_channels = (
        record[CONV.chunk_1],
        record[CONV.chunk_2],
        record[CONV.chunk_channels],
    )
    with builder.loop(nothing, record[CONV.kernel_0], name="tap_0") as tap_0:
        depth, inside = _input_depth(builder, tile, tap_0)
        with (
            builder.when(inside),
            builder.loop(nothing, kernel_1, step_1, "tap_1") as tap_1,
            builder.loop(nothing, kernel_2, step_2, "tap_2") as tap_2,
            builder.loop(nothing, channels, step_channels, "channel") as channel,
        ):
            taps_1 = builder.min(step_1, builder.sub(kernel_1, tap_1))
            taps_2 = builder.min(step_2, builder.sub(kernel_2, tap_2))
            count = builder.min(step_channels, builder.sub(channels, channel))
            builder.store_slot(builder.load(I64, started, 8), kernel_record, Slot.ACCUMULATE)
            chunk = _Chunk(tap_0, tap_1, tap_2, channel, taps_1, taps_2, count, depth, depthwise)
            _sum_chunk(builder, parts, tile, chunk)
            builder.store(builder.i64(1), started, 8)
    with builder.when(builder.icmp_signed("==", builder.load(I64, started, 8), nothing)):
        _fill_zero(builder, parts, tile)


def _input_depth(builder: StructuredBuilder, tile: Tile, tap_0: Value) -> tuple[Value, Value]:
    """The input index along dimension 0, and whether there is an element."""
    record = tile.record
    reach = builder.add(
        builder.mul(tile.depth, record[CONV.window_stride_0]), builder.mul(tap_0, record[CONV.dilation_0])
    )
    position, base = builder.sub(reach, record[CONV.padding_0]), record[CONV.base_0]
    index = builder.sdiv(position, base)
    on_grid = builder.icmp_signed("==", builder.mul(index, base), position)
    not_before = builder.icmp_signed(">=", position, builder.i64(0))
    inside = builder.and_(not_before, builder.icmp_signed("<", index, record[CONV.input_0]))
    return index, builder.and_(inside, on_grid)


def _sum_chunk(builder: StructuredBuilder, parts: ChunkParts, tile: Tile, chunk: _Chunk) -> None:
    record, width = tile.record, parts.support.tile.width
    lanes = parts.support.lanes(builder, chunk.channels)
    if parts.depthwise_multiply is not None:
        padded = builder.and_(builder.add(chunk.channels, builder.i64(width - 1)), builder.i64(-width))
        lanes = builder.select(chunk.depthwise, padded, lanes)
    pixel_bytes = builder.mul(lanes, builder.i64(parts.unit_bytes))
    plane_bytes = _fill_slabs(builder, parts, tile, chunk, pixel_bytes)
    taps = builder.offset_2d(tile.kernel, chunk.tap_0, record[CONV.tap_0], chunk.tap_1, record[CONV.tap_1])
    taps = builder.offset(taps, builder.mul(chunk.tap_2, record[CONV.tap_2]))
    channel_taps = builder.offset(taps, builder.mul(chunk.channel, record[CONV.tap_channel]))
    if parts.depthwise_multiply is not None:
        with builder.when(chunk.depthwise):
            _multiply_depthwise(builder, parts, parts.depthwise_multiply, tile, chunk, taps, pixel_bytes)
    if parts.tiles is not None:
        with builder.when(builder.not_(chunk.depthwise)):
            _multiply(builder, parts, parts.tiles, tile, chunk, channel_taps, (pixel_bytes, plane_bytes))


def _fill_slabs(builder: StructuredBuilder, parts: ChunkParts, tile: Tile, chunk: _Chunk, pixel_bytes: Value) -> Value:
    """Returns the bytes of a plane of the slabs of all images."""
    record = tile.record
    positions: list[Value] = []
    for start, tap, axis in ((tile.rows.start, chunk.tap_1, _ROWS), (tile.columns.start, chunk.tap_2, _COLUMNS)):
        stride, dilation, padding = axis
        reach = builder.add(builder.mul(start, record[stride]), builder.mul(tap, record[dilation]))
        positions.append(builder.sub(reach, record[padding]))
    channel = builder.add(chunk.channel, builder.select(chunk.depthwise, tile.features.start, builder.i64(0)))
    source = builder.offset_2d(tile.input, chunk.depth, record[CONV.in_0], channel, record[CONV.in_channel])
    image_bytes = builder.mul(builder.mul(record[CONV.slab_1], record[CONV.slab_2]), pixel_bytes)
    plane_bytes = builder.mul(tile.images.size, image_bytes)
    with builder.loop(builder.i64(0), tile.images.size, name="image") as n:
        place = builder.offset(tile.memory.slab, builder.mul(n, image_bytes))
        image = builder.offset(source, builder.mul(n, record[CONV.in_batch]))
        args = record.ptr, place, image, *positions, pixel_bytes, plane_bytes, chunk.channels
        builder.call(parts.fill_slab, args)
    return plane_bytes


def _multiply(
    builder: StructuredBuilder,
    parts: ChunkParts,
    tiles: _TileParts,
    tile: Tile,
    chunk: _Chunk,
    taps: Value,
    slab_bytes: tuple[Value, Value],
) -> None:
    """Packs the taps and multiplies: strips of pixels, panels of features. `slab_bytes`: of a pixel, of a plane."""
    record, memory, support = tile.record, tile.memory, parts.support
    pixel_bytes, plane_bytes = slab_bytes
    pixel_lanes = support.lanes(builder, chunk.channels)
    run = builder.mul(chunk.taps_2, pixel_lanes)
    size = builder.mul(chunk.taps_1, run)
    _pack_kernel(builder, support, tiles, tile, chunk, taps, (run, pixel_lanes, size))
    finish_panels(builder, support, (memory.packed, size, tile.features.size))
    outer = builder.mul(builder.mul(record[CONV.slab_tap_1], record[CONV.slab_2]), pixel_bytes)
    if support.types.unit.is_tiles:
        k_values = ((Slot.A_STRIDE, builder.i64(GATHERED_ROW_BYTES)), (Slot.K_INNER, size))
    else:
        k_values = ((Slot.K_OUTER, chunk.taps_1), (Slot.A_OUTER, outer), (Slot.K_INNER, run))
    for slot, value in k_values:
        builder.store_slot(value, memory.kernel_record, slot)
    args = (
        memory.kernel_record, memory.table, memory.slab, memory.packed, memory.gathered, tile.sums, tile.sums_row,
        tile.pixels, pixel_bytes, plane_bytes, support.panel_step(builder, size), tile.features.size,
        chunk.taps_1, outer, run,
    )  # fmt: skip
    builder.call(tiles.multiply_strips, args)


def _pack_kernel(
    builder: StructuredBuilder,
    support: GemmSupport,
    tiles: _TileParts,
    tile: Tile,
    chunk: _Chunk,
    taps: Value,
    lanes: tuple[Value, Value, Value],
) -> None:
    """Packs the taps of the chunk, a few channels at a time for all taps: wherever taps lie, their lines stay in the
    cache. `lanes`: of a row of taps, of a tap, of all.
    """
    record, (run, pixel_lanes, size) = tile.record, lanes
    with (
        builder.loop(builder.i64(0), chunk.channels, PACK_STEP, "channel") as channel,
        builder.loop(builder.i64(0), chunk.taps_1, name="pack") as tap,
    ):
        source = builder.offset_2d(taps, tap, record[CONV.tap_1], channel, record[CONV.tap_channel])
        count = builder.min(builder.i64(PACK_STEP), builder.sub(chunk.channels, channel))
        args = (
            tile.memory.packed, source, record[CONV.tap_2], record[CONV.tap_channel], record[CONV.tap_feature],
            chunk.taps_2, count, tile.features.size, size,
            builder.add(builder.mul(tap, run), support.lanes(builder, channel)), pixel_lanes,
        )  # fmt: skip
        builder.call(tiles.pack_panels, args)


def _multiply_depthwise(
    builder: StructuredBuilder,
    parts: ChunkParts,
    function: Function,
    tile: Tile,
    chunk: _Chunk,
    taps: Value,
    pixel_bytes: Value,
) -> None:
    record, memory = tile.record, tile.memory
    unit = builder.i64(parts.unit_bytes)
    num_taps = builder.mul(chunk.taps_1, chunk.taps_2)
    builder.memset(memory.packed, const_int(I8, 0), builder.mul(num_taps, pixel_bytes), 64)
    with builder.loop(builder.i64(0), chunk.taps_1, name="pack") as tap:
        source = builder.offset(taps, builder.mul(tap, record[CONV.tap_1]))
        target = builder.offset(memory.packed, builder.mul(builder.mul(tap, chunk.taps_2), pixel_bytes))
        args = (
            target, pixel_bytes, unit, source, record[CONV.tap_2], record[CONV.tap_feature], chunk.taps_2,
            tile.features.size,
        )  # fmt: skip
        builder.call(parts.support.pack_rhs, args)
    accumulate = builder.load_i64(memory.kernel_record, Slot.ACCUMULATE)
    args = (
        record.ptr, memory.sums, memory.slab, memory.packed, memory.table, tile.pixels, pixel_bytes,
        chunk.taps_1, chunk.taps_2, accumulate,
    )  # fmt: skip
    builder.call(function, args)


def _fill_zero(builder: StructuredBuilder, parts: ChunkParts, tile: Tile) -> None:
    num_bytes = builder.mul(tile.features.size, builder.i64(parts.unit_bytes))
    with builder.loop(builder.i64(0), tile.pixels, name="pixel") as i:
        place = builder.offset(tile.sums, builder.mul(i, tile.sums_row))
        builder.memset(place, const_int(I8, 0), num_bytes, parts.unit_bytes)
