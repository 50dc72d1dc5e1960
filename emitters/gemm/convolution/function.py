"""Convolutions: any number of spatial dimensions up to three, any strides, padding, dilations, groups and layouts, as
IR.

`emit_convolution` defines one function per combination of element types. What is blocked how is in
`blocking/convolution_plan.py`.
"""

from __future__ import annotations

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.control_flow import emit_parallel_entry
from xjit.emitters.gemm.convolution.chunks import emit_chunk_parts, sum_chunks
from xjit.emitters.gemm.convolution.tile import Tile, call_row_table, emit_row_table, locate_tile
from xjit.emitters.gemm.epilogue import call_epilogue, has_epilogue
from xjit.emitters.gemm.record import CONV
from xjit.emitters.gemm.routine import ConvolutionRoutine
from xjit.emitters.gemm.support import GemmSupport, support_for
from xjit.llvm import Function, Module, Target
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR
from xjit.llvm.values import zero

CONVOLUTION_PARAMS = ((PTR, "out"), (PTR, "input"), (PTR, "kernel"), (PTR, "closure"), (PTR, "parameters"))


ANY_CONVOLUTION = ConvolutionRoutine()


def convolution_name(types: GemmTypes, routine: ConvolutionRoutine) -> str:
    """The name of the convolution in its module."""
    return f"xjit_convolution_{types.name}{routine.suffix}"


def emit_convolution(
    module: Module, target: Target, types: GemmTypes, routine: ConvolutionRoutine = ANY_CONVOLUTION
) -> Function:
    """Defines, once per module, `void (ptr out, ptr input, ptr kernel, ptr closure, ptr parameters)`.

    `parameters` points to the record of `plan_convolution`, with the table of kernels behind it if the routine is
    linked to them; `closure` is the epilogue or null. `types.lhs` is the type of the input, `rhs` that of the kernel.
    """
    if target is not module.target and target != module.target:
        raise ValueError(f"the module is for {module.target.cpu}, not for {target.cpu}")
    name = convolution_name(types, routine)
    if name in module.functions:
        return module.functions[name]
    support = support_for(module, types, transposes=routine.transposes, linked=routine.linked, whole=routine.whole)
    task = _emit_task(module, f"{name}_task", support, routine)
    return emit_parallel_entry(module, name, CONVOLUTION_PARAMS, task, CONV)


def _emit_task(module: Module, name: str, support: GemmSupport, routine: ConvolutionRoutine) -> Function:
    """Defines the function that computes one tile of pixels for one block of features."""
    parts = emit_chunk_parts(module, name, support, routine)
    row_table = emit_row_table(module, f"{name}_table", support)
    builder = define(module, name, ((PTR, "context"), (I64, "task")))
    builder.function.is_cold = True  # its loops call one of the parts each time
    tile = locate_tile(builder, support, routine)
    call_row_table(builder, row_table, tile)
    sum_chunks(builder, parts, tile)
    with builder.when(has_epilogue(builder, tile.closure)):
        _apply_epilogue(builder, tile)
    unpacks = builder.and_(tile.record.flag(CONV.use_scratch), builder.icmp_signed("==", tile.closure, zero(PTR)))
    with builder.when(unpacks):
        _unpack(builder, support, tile)
    builder.ret_void()
    return builder.function


def _apply_epilogue(builder: StructuredBuilder, tile: Tile) -> None:
    """Hands the tile over, as many pixels at once as follow each other in the output."""
    record = tile.record
    whole = builder.icmp_signed("==", tile.columns.size, record[CONV.output_2])
    lines = builder.select(whole, builder.i64(1), tile.rows.size)
    length = builder.select(whole, builder.mul(tile.rows.size, tile.columns.size), tile.columns.size)
    with (
        builder.loop(builder.i64(0), tile.images.size, name="image") as n,
        builder.loop(builder.i64(0), lines, name="line") as line,
    ):
        place = builder.mul(builder.add(builder.mul(n, lines), line), length)
        sums = builder.offset(tile.sums, builder.mul(place, tile.sums_row))
        image = builder.add(tile.images.start, n)
        plane = builder.add(builder.mul(image, record[CONV.output_0]), tile.depth)
        row = builder.add(builder.mul(plane, record[CONV.output_1]), builder.add(tile.rows.start, line))
        pixel = builder.add(builder.mul(row, record[CONV.output_2]), tile.columns.start)
        where = tile.group, pixel, length, tile.features.start, tile.features.size
        call_epilogue(builder, tile.closure, (sums, tile.sums_row, *where))


def _unpack(builder: StructuredBuilder, support: GemmSupport, tile: Tile) -> None:
    """Copies what went through scratch memory."""
    record = tile.record
    merge = record.flag(CONV.merge_rows)
    lines = builder.select(merge, builder.i64(1), tile.rows.size)
    columns = builder.select(merge, builder.mul(tile.rows.size, tile.columns.size), tile.columns.size)
    line_bytes = builder.mul(columns, tile.sums_row)
    with (
        builder.loop(builder.i64(0), tile.images.size, name="image") as n,
        builder.loop(builder.i64(0), lines, name="line") as line,
    ):
        source = builder.offset(tile.sums, builder.mul(builder.add(builder.mul(n, lines), line), line_bytes))
        target = builder.offset_2d(tile.out, n, record[CONV.out_batch], line, record[CONV.out_1])
        unit = builder.i64(size_of(support.compute))
        args = (
            target, record[CONV.out_2], record[CONV.out_feature],
            source, tile.sums_row, unit, columns, tile.features.size,
        )  # fmt: skip
        builder.call(support.unpack, args)
