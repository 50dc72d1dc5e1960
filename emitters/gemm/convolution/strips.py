"""A tile of a convolution times the packed taps of a chunk, by strips of pixels: each with all panels of features."""

from __future__ import annotations

from xjit.emitters.gemm.convolution.tile_rows import emit_gather_rows
from xjit.emitters.gemm.microkernels.microkernel import Slot
from xjit.emitters.gemm.microkernels.tile_instructions import configure_tiles, release_tiles
from xjit.emitters.gemm.panels import multiply_panels_function
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR

_STRIPS_PARAMS = (
    (PTR, "kernel_record"), (PTR, "table"), (PTR, "slab"), (PTR, "packed"), (PTR, "gathered"), (PTR, "sums"),
    (I64, "sums_row"), (I64, "pixels"), (I64, "pixel_bytes"), (I64, "plane_bytes"), (I64, "panel_step"),
    (I64, "features"), (I64, "taps_1"), (I64, "outer"), (I64, "run"),
)  # fmt: skip
"""`table`: where pixels are in the slab, of which `plane_bytes` is a plane and `outer` a row of taps; `run`: lanes of k
that follow each other; `gathered`: memory for the rows of a strip.
"""


def emit_strips(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines the loop over strips."""
    multiply_panels = multiply_panels_function(module, support)
    is_tiles = support.types.unit.is_tiles
    gather = emit_gather_rows(module, support) if is_tiles else None
    builder = define(module, name, _STRIPS_PARAMS)
    kernel_record, table, slab, packed, gathered, sums, sums_row, pixels, pixel_bytes, *rest = builder.function.args
    plane_bytes, panel_step, features, taps_1, outer, run = rest
    nothing = builder.i64(0)
    if is_tiles:
        configure_tiles(builder, module.target)
    with builder.loop(nothing, pixels, support.tile.rows, "strip") as first:
        rows = builder.min(builder.sub(pixels, first), builder.i64(support.tile.rows))
        strip = builder.gep(I64, table, first)
        if gather is not None:
            builder.call(gather, (gathered, slab, strip, rows, pixel_bytes, plane_bytes, taps_1, outer, run))
            builder.store_slot(gathered, kernel_record, 0)
        else:
            _point_at_rows(builder, support, (kernel_record, strip, slab, pixel_bytes))
        builder.store_slot(rows, kernel_record, Slot.NUM_ROWS)
        place = builder.offset(sums, builder.mul(first, sums_row))
        builder.call(multiply_panels, (kernel_record, place, packed, panel_step, nothing, features, rows))
    if is_tiles:
        release_tiles(builder, module.target)
    builder.ret_void()
    return builder.function


def _point_at_rows(builder: StructuredBuilder, support: GemmSupport, places: tuple[Value, Value, Value, Value]) -> None:
    """Writes the table of row pointers: kernels read the slab itself."""
    kernel_record, strip, slab, pixel_bytes = places
    for i in range(support.tile.rows):
        pixel = builder.load(I64, builder.gep(I64, strip, builder.i64(i)), 8)
        builder.store_slot(builder.offset(slab, builder.mul(pixel, pixel_bytes)), kernel_record, i)
