"""Convolutions: any number of spatial dimensions up to three, any strides, padding, dilations, groups and layouts, as
IR.

`emit_convolution` defines one function per combination of element types, `emit_convolution_call` calls it for one
shape. What is blocked how is in `convolution_plan.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.gemm.control_flow import Record, emit_parallel_entry
from xjit.emitters.gemm.conversions import size_of
from xjit.emitters.gemm.convolution_plan import CHUNK_K_BYTES, MAX_TILE_PIXELS, SLAB_BYTES, as_gemm, plan_convolution
from xjit.emitters.gemm.convolution_shapes import CONVOLUTION_FIELDS, ConvolutionShape
from xjit.emitters.gemm.convolution_slab import emit_fill_slab
from xjit.emitters.gemm.depthwise import MAX_DEPTHWISE_TAPS, emit_depthwise_multiply
from xjit.emitters.gemm.gemm import GemmConfig, emit_gemm_call
from xjit.emitters.gemm.microkernel import Slot
from xjit.emitters.gemm.panels import PACK_STEP, multiply_panels_function, pack_panels_function
from xjit.emitters.gemm.plan import PACKED_RHS_BYTES, RESULT_SCRATCH_BYTES
from xjit.emitters.gemm.support import GemmSupport, support_for
from xjit.llvm import Function, IRBuilder, Module, Target, Value
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I8, I64, PTR, vector
from xjit.llvm.values import const_int, zero

CONVOLUTION_PARAMS = ((PTR, "out"), (PTR, "input"), (PTR, "kernel"), (PTR, "extra"), (PTR, "parameters"))


def convolution_name(config: GemmConfig) -> str:
    """The name of the convolution in its module."""
    return config.function_name.replace("xjit_", "xjit_convolution_", 1)


def emit_convolution(module: Module, target: Target, config: GemmConfig) -> Function:
    """Defines, once per module, `void (ptr out, ptr input, ptr kernel, ptr extra, ptr parameters)`.

    `parameters` points to the record of `plan_convolution`. `config.types.lhs` is the type of the input, `rhs` that
    of the kernel. An epilogue gets the output feature (within its group) as its column; its row has no meaning.
    """
    if target is not module.target and target != module.target:
        raise ValueError(f"the module is for {module.target.cpu}, not for {target.cpu}")
    name = convolution_name(config)
    if name in module.functions:
        return module.functions[name]
    task = _TaskEmitter(module, f"{name}_task", support_for(module, config.types), config).emit()
    return emit_parallel_entry(module, name, CONVOLUTION_PARAMS, task, CONVOLUTION_FIELDS)


def emit_convolution_call(
    builder: IRBuilder,
    config: GemmConfig,
    shape: ConvolutionShape,
    out: Value,
    lhs: Value,
    rhs: Value,
    extra: Value | None = None,
) -> None:
    """Calls the convolution for `shape`, or a multiplication where that is the same. Emits it if the module neither
    has nor declares it yet. Raises ValueError for too many dimensions.
    """
    gemm = as_gemm(shape)
    if gemm is not None:
        emit_gemm_call(builder, config, gemm, out, lhs, rhs, extra)
        return
    module = builder.module
    parameters = plan_convolution(shape, config.types, module.target, has_epilogue=config.epilogue is not None)
    declared = module.declarations.get(convolution_name(config))
    function = declared or emit_convolution(module, module.target, config)
    record = module.add_constant_array(parameters.to_array(), hint="convolution_parameters")
    builder.call(function, (out, lhs, rhs, extra or zero(PTR), record))


@dataclass(slots=True)
class _Chunk:
    """Taps [tap_1, tap_1 + taps_1) x [tap_2, tap_2 + taps_2) and channels of the chunk at hand."""

    tap_0: Value
    tap_1: Value
    tap_2: Value
    channel: Value
    taps_1: Value
    taps_2: Value
    channels: Value


class _TaskEmitter:
    """Emits the function that computes one tile of pixels for one block of features."""

    def __init__(self, module: Module, name: str, support: GemmSupport, config: GemmConfig) -> None:
        self.support = support
        self.epilogue = config.epilogue
        self.unit_bytes = size_of(support.compute)
        self.fill_slab = emit_fill_slab(module, f"{name}_slab", support)
        self.pack_panels = pack_panels_function(module, support)
        self.multiply_panels = multiply_panels_function(module, support)
        self.depthwise_multiply = emit_depthwise_multiply(module, f"{name}_depthwise", support)
        self.builder = define(module, name, ((PTR, "context"), (I64, "task")))

    def emit(self) -> Function:
        """Emits the task."""
        builder = self.builder
        context, task = builder.function.args
        out, self.input, self.kernel, self.extra, parameters = (builder.load_ptr(context, slot) for slot in range(5))
        self.record = Record(builder, parameters, CONVOLUTION_FIELDS)
        self._allocate()
        self._locate(task, out)
        self._fill_row_table()
        started = builder.alloca(I64, 1, align=8, name="started")
        builder.store(builder.i64(0), started, 8)
        self._chunks(started)
        with builder.when(builder.icmp_signed("==", builder.load(I64, started, 8), builder.i64(0))):
            self._fill_zero()
        self._finish()
        builder.ret_void()
        return builder.function

    def _allocate(self) -> None:
        builder, support = self.builder, self.support
        panel_bytes = support.tile.vectors * support.vector_bytes * max(CHUNK_K_BYTES // self.unit_bytes, 1)
        self.kernel_record = builder.alloca(I64, Slot.COUNT, align=64, name="kernel_record")
        self.table = builder.alloca(I64, MAX_TILE_PIXELS + support.tile.rows, align=64, name="row_table")
        self.slab = builder.alloca(I8, SLAB_BYTES + 64, align=64, name="slab")
        packed_bytes = max(PACKED_RHS_BYTES + panel_bytes, MAX_DEPTHWISE_TAPS * 64 * self.unit_bytes)
        self.packed = builder.alloca(I8, packed_bytes, align=64, name="packed_kernel")
        self.scratch = builder.alloca(I8, RESULT_SCRATCH_BYTES + 8 * 512 * self.unit_bytes, align=64, name="result")

    def _locate(self, task: Value, out: Value) -> None:
        """Splits the task number in block of features, tile, depth and group; finds where the tile is."""
        builder, record = self.builder, self.record
        rest = task
        indices: list[Value] = []
        for count in ("blocks_features", "tiles_2", "tiles_1", "output_0", "groups"):
            size = record[count]
            indices.append(builder.urem(rest, size))
            rest = builder.udiv(rest, size)
        block, tile_2, tile_1, self.depth, group = indices
        starts_and_sizes: list[tuple[Value, Value]] = []
        for index, step, extent in (
            (rest, "tile_batch", "batch"),
            (tile_1, "tile_1", "output_1"),
            (tile_2, "tile_2", "output_2"),
            (block, "block_features", "features"),
        ):
            start = builder.mul(index, record[step])
            starts_and_sizes.append((start, builder.min(record[step], builder.sub(record[extent], start))))
        (self.image, self.images), (self.row, self.rows), (self.column, self.columns), (self.feature, self.features) = (
            starts_and_sizes
        )
        self.pixels = builder.mul(self.images, builder.mul(self.rows, self.columns))
        self.input = builder.offset_2d(self.input, self.image, record["in_batch"], group, record["in_group"])
        kernel = builder.offset(self.kernel, record["tap_start"])
        self.kernel = builder.offset_2d(kernel, group, record["tap_group"], self.feature, record["tap_feature"])
        out = builder.offset_2d(out, self.image, record["out_batch"], group, record["out_group"])
        out = builder.offset_2d(out, self.depth, record["out_0"], self.feature, record["out_feature"])
        self.out = builder.offset_2d(out, self.row, record["out_1"], self.column, record["out_2"])
        use_scratch = record.flag("use_scratch")
        self.result = builder.select(use_scratch, self.scratch, self.out)
        self.result_row = record["result_row"]
        builder.store_slot(self.result_row, self.kernel_record, Slot.C_STRIDE)

    def _fill_row_table(self) -> None:
        """For each pixel of the tile, the number of the slab pixel of its first tap; the last entry is repeated."""
        builder, record = self.builder, self.record
        stride_1, stride_2, slab_2 = record["slab_stride_1"], record["slab_stride_2"], record["slab_2"]
        image_pixels = builder.mul(record["slab_1"], slab_2)
        row_pixels = builder.mul(self.rows, self.columns)
        with (
            builder.loop(builder.i64(0), self.images, name="image") as n,
            builder.loop(builder.i64(0), self.rows, name="row") as r,
        ):
            first = builder.add(builder.mul(n, image_pixels), builder.mul(builder.mul(r, stride_1), slab_2))
            place = builder.add(builder.mul(n, row_pixels), builder.mul(r, self.columns))
            with builder.loop(builder.i64(0), self.columns, name="column") as c:
                pixel = builder.add(first, builder.mul(c, stride_2))
                builder.store(pixel, builder.gep(I64, self.table, builder.add(place, c)), 8)
        last = builder.load(I64, builder.gep(I64, self.table, builder.sub(self.pixels, builder.i64(1))), 8)
        with builder.loop(builder.i64(0), builder.i64(self.support.tile.rows), name="pad") as i:
            builder.store(last, builder.gep(I64, self.table, builder.add(self.pixels, i)), 8)

    def _chunks(self, started: Value) -> None:
        builder, record = self.builder, self.record
        nothing = builder.i64(0)
        kernel_1, kernel_2 = record["kernel_1"], record["kernel_2"]
        depthwise = record.flag("depthwise")
        channels = builder.select(depthwise, self.features, record["channels"])
        step_1, step_2, step_channels = record["chunk_1"], record["chunk_2"], record["chunk_channels"]
        with builder.loop(nothing, record["kernel_0"], name="tap_0") as tap_0:
            depth, inside = self._input_depth(tap_0)
            with (
                builder.when(inside),
                builder.loop(nothing, kernel_1, step_1, "tap_1") as tap_1,
                builder.loop(nothing, kernel_2, step_2, "tap_2") as tap_2,
                builder.loop(nothing, channels, step_channels, "channel") as channel,
            ):
                taps_1 = builder.min(step_1, builder.sub(kernel_1, tap_1))
                taps_2 = builder.min(step_2, builder.sub(kernel_2, tap_2))
                count = builder.min(step_channels, builder.sub(channels, channel))
                chunk = _Chunk(tap_0, tap_1, tap_2, channel, taps_1, taps_2, count)
                builder.store_slot(builder.load(I64, started, 8), self.kernel_record, Slot.ACCUMULATE)
                self._chunk(chunk, depth, depthwise)
                builder.store(builder.i64(1), started, 8)

    def _input_depth(self, tap_0: Value) -> tuple[Value, Value]:
        """The input index along dimension 0, and whether there is an element."""
        builder, record = self.builder, self.record
        reach = builder.add(
            builder.mul(self.depth, record["window_stride_0"]), builder.mul(tap_0, record["dilation_0"])
        )
        position, base = builder.sub(reach, record["padding_0"]), record["base_0"]
        index = builder.sdiv(position, base)
        on_grid = builder.icmp_signed("==", builder.mul(index, base), position)
        not_before = builder.icmp_signed(">=", position, builder.i64(0))
        inside = builder.and_(not_before, builder.icmp_signed("<", index, record["input_0"]))
        return index, builder.and_(inside, on_grid)

    def _chunk(self, chunk: _Chunk, depth: Value, depthwise: Value) -> None:
        builder, record, support = self.builder, self.record, self.support
        width = support.tile.width
        padded = builder.and_(builder.add(chunk.channels, builder.i64(width - 1)), builder.i64(-width))
        pixel_bytes = builder.mul(builder.select(depthwise, padded, chunk.channels), builder.i64(self.unit_bytes))
        self._fill_slabs(chunk, depth, pixel_bytes, depthwise)
        taps = builder.offset_2d(self.kernel, chunk.tap_0, record["tap_0"], chunk.tap_1, record["tap_1"])
        taps = builder.offset(taps, builder.mul(chunk.tap_2, record["tap_2"]))
        done, deep, full = (builder.append_block(label) for label in ("chunk_done", "depthwise", "full"))
        builder.cbranch(depthwise, deep, full)
        builder.position_at_end(deep)
        self._multiply_depthwise(chunk, taps, pixel_bytes)
        builder.br(done)
        builder.position_at_end(full)
        self._multiply(chunk, builder.offset(taps, builder.mul(chunk.channel, record["tap_channel"])), pixel_bytes)
        builder.br(done)
        builder.position_at_end(done)

    def _fill_slabs(self, chunk: _Chunk, depth: Value, pixel_bytes: Value, depthwise: Value) -> None:
        builder, record = self.builder, self.record
        positions: list[Value] = []
        for axis, start, tap in ((1, self.row, chunk.tap_1), (2, self.column, chunk.tap_2)):
            reach = builder.add(
                builder.mul(start, record[f"window_stride_{axis}"]), builder.mul(tap, record[f"dilation_{axis}"])
            )
            positions.append(builder.sub(reach, record[f"padding_{axis}"]))
        channel = builder.add(chunk.channel, builder.select(depthwise, self.feature, builder.i64(0)))
        source = builder.offset_2d(self.input, depth, record["in_0"], channel, record["in_channel"])
        image_bytes = builder.mul(builder.mul(record["slab_1"], record["slab_2"]), pixel_bytes)
        with builder.loop(builder.i64(0), self.images, name="image") as n:
            place = builder.offset(self.slab, builder.mul(n, image_bytes))
            image = builder.offset(source, builder.mul(n, record["in_batch"]))
            builder.call(self.fill_slab, (record.ptr, place, image, *positions, pixel_bytes, chunk.channels))

    def _multiply(self, chunk: _Chunk, taps: Value, pixel_bytes: Value) -> None:
        builder, record, support = self.builder, self.record, self.support
        run = builder.mul(chunk.taps_2, chunk.channels)
        size = builder.mul(chunk.taps_1, run)
        self._pack_kernel(chunk, taps, run, size)
        outer = builder.mul(builder.mul(record["slab_tap_1"], record["slab_2"]), pixel_bytes)
        for slot, value in ((Slot.K_OUTER, chunk.taps_1), (Slot.A_OUTER, outer), (Slot.K_INNER, run)):
            builder.store_slot(value, self.kernel_record, slot)
        panel_step = builder.mul(size, builder.i64(support.vector_bytes))
        nothing = builder.i64(0)
        with builder.loop(nothing, self.pixels, support.tile.rows, "strip") as first:
            rows = builder.min(builder.sub(self.pixels, first), builder.i64(support.tile.rows))
            for i in range(support.tile.rows):
                pixel = builder.load(I64, builder.gep(I64, self.table, builder.add(first, builder.i64(i))), 8)
                builder.store_slot(builder.offset(self.slab, builder.mul(pixel, pixel_bytes)), self.kernel_record, i)
            builder.store_slot(rows, self.kernel_record, Slot.NUM_ROWS)
            place = builder.offset(self.result, builder.mul(first, self.result_row))
            args = (self.kernel_record, place, self.packed, panel_step, nothing, nothing, self.features, rows)
            builder.call(self.multiply_panels, args)

    def _pack_kernel(self, chunk: _Chunk, taps: Value, run: Value, size: Value) -> None:
        """Packs the taps of the chunk, a few channels at a time for all taps: wherever taps lie, their lines stay in
        the cache.
        """
        builder, record = self.builder, self.record
        with (
            builder.loop(builder.i64(0), chunk.channels, PACK_STEP, "channel") as channel,
            builder.loop(builder.i64(0), chunk.taps_1, name="pack") as tap,
        ):
            source = builder.offset_2d(taps, tap, record["tap_1"], channel, record["tap_channel"])
            count = builder.min(builder.i64(PACK_STEP), builder.sub(chunk.channels, channel))
            args = (
                self.packed, source, record["tap_2"], record["tap_channel"], record["tap_feature"], chunk.taps_2, count,
                self.features, size, builder.add(builder.mul(tap, run), channel), chunk.channels,
            )  # fmt: skip
            builder.call(self.pack_panels, args)

    def _multiply_depthwise(self, chunk: _Chunk, taps: Value, pixel_bytes: Value) -> None:
        builder, record = self.builder, self.record
        unit = builder.i64(self.unit_bytes)
        num_taps = builder.mul(chunk.taps_1, chunk.taps_2)
        builder.memset(self.packed, const_int(I8, 0), builder.mul(num_taps, pixel_bytes), 64)
        with builder.loop(builder.i64(0), chunk.taps_1, name="pack") as tap:
            source = builder.offset(taps, builder.mul(tap, record["tap_1"]))
            target = builder.offset(self.packed, builder.mul(builder.mul(tap, chunk.taps_2), pixel_bytes))
            args = (
                target,
                pixel_bytes,
                unit,
                source,
                record["tap_2"],
                record["tap_feature"],
                chunk.taps_2,
                self.features,
            )
            builder.call(self.support.pack_rhs, args)
        accumulate = builder.load_i64(self.kernel_record, Slot.ACCUMULATE)
        args = (
            record.ptr,
            self.scratch,
            self.slab,
            self.packed,
            self.table,
            self.pixels,
            pixel_bytes,
            chunk.taps_1,
            chunk.taps_2,
            accumulate,
        )
        builder.call(self.depthwise_multiply, args)

    def _fill_zero(self) -> None:
        builder = self.builder
        num_bytes = builder.mul(self.features, builder.i64(self.unit_bytes))
        with builder.loop(builder.i64(0), self.pixels, name="pixel") as i:
            place = builder.offset(self.result, builder.mul(i, self.result_row))
            builder.memset(place, const_int(I8, 0), num_bytes, self.unit_bytes)

    def _finish(self) -> None:
        """Epilogue and copy of what went through scratch."""
        builder, record, support = self.builder, self.record, self.support
        with builder.when(record.flag("use_scratch")):
            if self.epilogue is not None:
                self._epilogue_pass()
            merge = record.flag("merge_rows")
            lines = builder.select(merge, builder.i64(1), self.rows)
            columns = builder.select(merge, builder.mul(self.rows, self.columns), self.columns)
            line_bytes = builder.mul(columns, self.result_row)
            with (
                builder.loop(builder.i64(0), self.images, name="image") as n,
                builder.loop(builder.i64(0), lines, name="line") as line,
            ):
                source = builder.offset(self.scratch, builder.mul(builder.add(builder.mul(n, lines), line), line_bytes))
                target = builder.offset_2d(self.out, n, record["out_batch"], line, record["out_1"])
                unit = builder.i64(self.unit_bytes)
                args = (
                    target,
                    record["out_2"],
                    record["out_feature"],
                    source,
                    self.result_row,
                    unit,
                    columns,
                    self.features,
                )
                builder.call(support.unpack, args)

    def _epilogue_pass(self) -> None:
        builder, support = self.builder, self.support
        assert self.epilogue is not None
        type, width = vector(support.compute, support.tile.width), support.tile.width
        with (
            builder.loop(builder.i64(0), self.pixels, name="pixel") as i,
            builder.loop(builder.i64(0), self.features, width, name="feature") as j,
        ):
            pointer = builder.offset_2d(self.scratch, i, self.result_row, j, builder.i64(self.unit_bytes))
            lanes = builder.min(builder.i64(width), builder.sub(self.features, j))
            column = builder.add(self.feature, j)
            value: Value = builder.load(type, pointer, self.unit_bytes)
            builder.store(self.epilogue(builder, value, i, column, lanes, self.extra), pointer, self.unit_bytes)
