"""The register-tile kernels of matrix units: C[rows, columns] (+)= A[rows, k] * B[k, columns] in two by two tiles.

They are called as the vector kernels are (`microkernel`), with rows of A a fixed stride apart and k filled up with
zeros to whole tiles. Sums of a chunk start at zero and are added to C afterwards, at any edge and in any variant, so a
result does not depend on where blocks begin. Where operands are planes, a chunk has a product for each two of them that
count, one after the other.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.units import TILE_LANES
from xjit.emitters.gemm.microkernels.microkernel import KERNEL_PARAMS, Slot, add
from xjit.emitters.gemm.microkernels.tile_instructions import ROW_BYTES, Tiles
from xjit.emitters.gemm.packing.conversions import lane_mask
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, vector
from xjit.llvm.values import zero

_A_TILES, _B_TILES = (4, 5), (6, 7)  # sums are in tiles 0 to 3
_LANE_BYTES = ROW_BYTES // TILE_LANES


def emit_tile_kernel(module: Module, name: str, types: GemmTypes, rows: int, vectors: int) -> Function:
    """Defines the kernel for so many rows and vectors, both whole tiles."""
    builder = define(module, name, KERNEL_PARAMS, linkage="")
    row_tiles = rows // TILE_LANES
    record, b, b_stride, c, lanes = builder.function.args
    tiles = Tiles(builder, types)
    a, a_stride = builder.load_ptr(record, 0), builder.load_i64(record, Slot.A_STRIDE)
    sums = {(i, v): 2 * i + v for i in range(row_tiles) for v in range(vectors)}
    for tile in sums.values():
        tiles.zero(tile)
    second = builder.mul(a_stride, builder.i64(TILE_LANES))
    with (
        _products(builder, types, record, (a, b, b_stride)) as (a_plane, b_plane, size),
        builder.loop(builder.i64(0), size, TILE_LANES, "k") as k,
    ):
        a_now = builder.offset(a_plane, builder.mul(k, builder.i64(_LANE_BYTES)))
        b_now = builder.offset(b_plane, builder.mul(k, b_stride))
        for i in range(row_tiles):
            tiles.load(_A_TILES[i], builder.offset(a_now, second) if i else a_now, a_stride)
        for v in range(vectors):
            tiles.load(_B_TILES[v], builder.offset(b_now, builder.i64(v * ROW_BYTES)), b_stride)
        for (i, v), tile in sums.items():
            tiles.multiply(tile, _A_TILES[i], _B_TILES[v])
    row_bytes = vectors * ROW_BYTES
    buffer = builder.alloca(I8, row_tiles * TILE_LANES * row_bytes, align=64, name="sums")
    for (i, v), tile in sums.items():
        place = builder.offset(buffer, builder.i64(i * TILE_LANES * row_bytes + v * ROW_BYTES))
        tiles.store(tile, place, builder.i64(row_bytes))
    _add_to_result(builder, types, record, (c, lanes), buffer, vectors)
    builder.ret_void()
    return builder.function


@contextmanager
def _products(
    builder: StructuredBuilder, types: GemmTypes, record: Value, operands: tuple[Value, Value, Value]
) -> Generator[tuple[Value, Value, Value]]:
    """A loop over the products of planes, if there are several: yields where those of A and B begin, and lanes of k.

    `operands`: A, B, and the bytes between rows of B.
    """
    a, b, b_stride = operands
    size, products = builder.load_i64(record, Slot.K_INNER), types.plane_products
    if len(products) == 1:
        yield a, b, size
        return
    numbers = builder.module.add_constant_array(np.array(products, np.int64), hint="plane_products")
    rows = builder.and_(builder.add(size, builder.i64(TILE_LANES - 1)), builder.i64(-TILE_LANES))
    steps = builder.mul(rows, builder.i64(_LANE_BYTES)), builder.mul(rows, b_stride)
    with builder.loop(builder.i64(0), builder.i64(len(products)), name="product") as product:
        pair = builder.offset(numbers, builder.mul(product, builder.i64(16)))
        starts = [
            builder.offset(start, builder.mul(builder.load_i64(pair, slot), step))
            for slot, (start, step) in enumerate(zip((a, b), steps, strict=True))
        ]
        yield starts[0], starts[1], size


def _add_to_result(
    builder: StructuredBuilder,
    types: GemmTypes,
    record: Value,
    result: tuple[Value, Value],
    buffer: Value,
    vectors: int,
) -> None:
    """Adds the buffer's rows to C, or overwrites it; `result` is C and the valid lanes of its last vector."""
    c, lanes = result
    type = vector(types.compute, TILE_LANES)
    mask = lane_mask(builder, lanes, TILE_LANES)
    accumulate = builder.icmp_signed("!=", builder.load_i64(record, Slot.ACCUMULATE), builder.i64(0))
    stride = builder.load_i64(record, Slot.C_STRIDE)
    with builder.loop(builder.i64(0), builder.load_i64(record, Slot.NUM_ROWS), name="row") as row:
        c_row = builder.offset(c, builder.mul(row, stride))
        source = builder.offset(buffer, builder.mul(row, builder.i64(vectors * ROW_BYTES)))
        for v in range(vectors):
            place = builder.offset(c_row, builder.i64(v * ROW_BYTES))
            value = builder.load(type, builder.offset(source, builder.i64(v * ROW_BYTES)), ROW_BYTES)
            if v < vectors - 1:
                total = add(builder, builder.load(type, place, 4), value)
                builder.store(builder.select(accumulate, total, value), place, 4)
            else:
                total = add(builder, builder.masked_load(type, place, mask, 4, zero(type)), value)
                builder.masked_store(builder.select(accumulate, total, value), place, mask, 4)
