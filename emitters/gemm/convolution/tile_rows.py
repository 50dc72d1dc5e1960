"""Rows of a slab side by side: matrix units read rows a fixed stride apart, pixels of a convolution lie anywhere."""

from __future__ import annotations

from xjit.emitters.gemm.blocking.convolution_plan import CHUNK_K_BYTES
from xjit.emitters.gemm.blocking.units import TILE_LANES
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR
from xjit.llvm.values import const_int

GATHERED_ROW_BYTES = 64 * (-(-2 * CHUNK_K_BYTES // 64) | 1)
"""Room for the planes of a chunk with its channels filled up to lanes, and k to whole tiles; an odd number of lines."""
_LANE_BYTES = 4


def gathered_bytes(support: GemmSupport) -> int:
    """Bytes of a strip of rows."""
    return support.tile.rows * GATHERED_ROW_BYTES if support.types.unit.is_tiles else 1


def emit_gather_rows(module: Module, support: GemmSupport) -> Function:
    """Defines, once per `support`, the copy of the rows of a strip: each `runs` runs of k of `run` lanes, `run_stride`
    bytes apart in the slab, then zeros up to whole tiles; and so for each plane of the slab, `plane_bytes` apart there.
    `pixels` holds the numbers of the rows' first pixels.
    """
    name = f"{support.prefix}_gather"
    if name in module.functions:
        return module.functions[name]
    params = (
        (PTR, "gathered"), (PTR, "slab"), (PTR, "pixels"), (I64, "rows"), (I64, "pixel_bytes"),
        (I64, "plane_bytes"), (I64, "runs"), (I64, "run_stride"), (I64, "run"),
    )  # fmt: skip
    builder: StructuredBuilder = define(module, name, params)
    gathered, slab, pixels, rows, pixel_bytes, plane_bytes, runs, run_stride, run = builder.function.args
    run_bytes = builder.mul(run, builder.i64(_LANE_BYTES))
    size = builder.mul(runs, run_bytes)
    tile_bytes = TILE_LANES * _LANE_BYTES
    padded = builder.and_(builder.add(size, builder.i64(tile_bytes - 1)), builder.i64(-tile_bytes))
    with builder.loop(builder.i64(0), rows, name="row") as row:
        target = builder.offset(gathered, builder.mul(row, builder.i64(GATHERED_ROW_BYTES)))
        pixel = builder.load(I64, builder.gep(I64, pixels, row), 8)
        source = builder.offset(slab, builder.mul(pixel, pixel_bytes))
        for plane in range(support.types.planes[0]):
            if plane:
                source, target = builder.offset(source, plane_bytes), builder.offset(target, padded)
            with builder.loop(builder.i64(0), runs, name="run") as number:
                place = builder.offset(target, builder.mul(number, run_bytes))
                builder.memcpy(place, builder.offset(source, builder.mul(number, run_stride)), run_bytes, _LANE_BYTES)
            builder.memset(builder.offset(target, size), const_int(I8, 0), builder.sub(padded, size), _LANE_BYTES)
    builder.ret_void()
    return builder.function
