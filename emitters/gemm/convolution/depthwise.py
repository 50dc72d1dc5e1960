"""Depthwise convolutions on a slab: each channel has its own taps, so vectors run along channels and nothing is
broadcast.
"""

from __future__ import annotations

from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.microkernels.microkernel import add
from xjit.emitters.gemm.record import CONV, Record
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import define
from xjit.llvm.types import I64, PTR, vector
from xjit.llvm.values import zero

MAX_DEPTHWISE_TAPS = 16 * 32  # of a chunk
_PIXELS = 4

DEPTHWISE_PARAMS = (
    (PTR, "parameters"),
    (PTR, "result"),
    (PTR, "slab"),
    (PTR, "taps"),
    (PTR, "table"),
    (I64, "pixels"),
    (I64, "pixel_bytes"),
    (I64, "taps_1"),
    (I64, "taps_2"),
    (I64, "accumulate"),
)
"""`result` is [pixels][channels], `taps` [taps_1 * taps_2][channels], both with pixels of `pixel_bytes`, a whole
number of vectors.
"""


def emit_depthwise_multiply(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines result[p, c] (+)= sum over taps of slab[table[p] + tap, c] * taps[tap, c]. Writes up to three pixels
    too many.
    """
    builder = define(module, name, DEPTHWISE_PARAMS)
    parameters, result, slab, taps, table, pixels, pixel_bytes, taps_1, taps_2, accumulate = builder.function.args
    record = Record(builder, parameters, CONV)
    type, size = vector(support.compute, support.tile.width), size_of(support.compute)
    tap_bytes = builder.mul(record[CONV.slab_tap_2], pixel_bytes)
    row_bytes = builder.mul(builder.mul(record[CONV.slab_tap_1], record[CONV.slab_2]), pixel_bytes)
    adds = builder.icmp_signed("!=", accumulate, builder.i64(0))
    result_row = record[CONV.result_row]
    with (
        builder.loop(builder.i64(0), pixel_bytes, support.vector_bytes, "lane") as lane,
        builder.loop(builder.i64(0), pixels, _PIXELS, "pixel") as pixel,
    ):
        sources: list[Value] = []
        places: list[Value] = []
        for i in range(_PIXELS):
            index = builder.add(pixel, builder.i64(i))
            start = builder.load(I64, builder.gep(I64, table, index), 8)
            sources.append(builder.offset(slab, builder.add(builder.mul(start, pixel_bytes), lane)))
            places.append(builder.offset(result, builder.add(builder.mul(index, result_row), lane)))
        zeros: list[Value] = [zero(type)] * _PIXELS
        with builder.loop_with(builder.i64(0), taps_1, zeros, 1, "tap_1") as (tap_1, outer, next_outer):
            row_taps = builder.mul(tap_1, taps_2)
            row_start = builder.mul(tap_1, row_bytes)
            with builder.loop_with(builder.i64(0), taps_2, outer, 1, "tap_2") as (tap_2, sums, following):
                factor_place = builder.offset(
                    taps, builder.add(builder.mul(builder.add(row_taps, tap_2), pixel_bytes), lane)
                )
                factor = builder.load(type, factor_place, size)
                reach = builder.add(row_start, builder.mul(tap_2, tap_bytes))
                for source, total in zip(sources, sums):
                    value = builder.load(type, builder.offset(source, reach), size)
                    following.append(builder.multiply_add(value, factor, total))
            next_outer.extend(sums)
        old = builder.if_else(
            adds, lambda: [builder.load(type, place, size) for place in places], lambda: [zero(type)] * _PIXELS
        )
        for place, total, before in zip(places, outer, old):
            builder.store(add(builder, before, total), place, size)
    builder.ret_void()
    return builder.function
