"""Copies the part of the input that a tile of a convolution sees into the slab: padded, spread out, contiguous.

The slab of one image is [slab_1][slab_2][channels] of the compute type. Invariant: every element of it is written,
zeros where the window is over padding or between elements of a dilated input.
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.record import CONV, Record
from xjit.emitters.gemm.support import GemmSupport, call_copy
from xjit.llvm import Function, Module, Value
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR
from xjit.llvm.values import const_int

SLAB_PARAMS = (
    (PTR, "parameters"),
    (PTR, "slab"),
    (PTR, "input"),
    (I64, "position_1"),
    (I64, "position_2"),
    (I64, "pixel_bytes"),
    (I64, "plane_bytes"),
    (I64, "channels"),
)
"""Planes of the slab are `plane_bytes` apart. `input` is at the first channel of the image (and depth); positions are
those of the slab's first pixel in the spread-out input.
"""

_ROWS = (CONV.base_1, CONV.step_1, CONV.input_1)
_COLUMNS = (CONV.base_2, CONV.step_2, CONV.input_2)


@dataclass(frozen=True, slots=True)
class _Overlap:
    """The input elements under one dimension of the slab."""

    count: Value
    source: Value  # index of the first one
    target: Value  # slab position of the first one


def emit_fill_slab(module: Module, name: str, support: GemmSupport) -> Function:
    """Defines the copy for one image and chunk."""
    copy = support.pack_lhs
    builder = define(module, name, SLAB_PARAMS)
    builder.function.is_cold = True
    parameters, slab, source, position_1, position_2, pixel_bytes, plane_bytes, channels = builder.function.args
    record = Record(builder, parameters, CONV)
    slab_1, slab_2 = record[CONV.slab_1], record[CONV.slab_2]
    rows = _overlap(builder, record, _ROWS, position_1, slab_1)
    pixels = _overlap(builder, record, _COLUMNS, position_2, slab_2)
    covered = builder.mul(rows.count, pixels.count)
    with builder.when(builder.icmp_signed("<", covered, builder.mul(slab_1, slab_2))):
        num_bytes, byte = builder.mul(builder.mul(slab_1, slab_2), pixel_bytes), const_int(I8, support.zero_byte)
        for number in range(support.types.planes[0]):
            plane = builder.offset(slab, builder.mul(plane_bytes, builder.i64(number))) if number else slab
            builder.memset(plane, byte, num_bytes, size_of(support.compute))
    with builder.when(builder.icmp_signed("==", covered, builder.i64(0))):
        builder.ret_void()
    target_pixel = builder.mul(record[CONV.base_2], pixel_bytes)
    source_pixel = builder.mul(record[CONV.step_2], record[CONV.in_2])
    channel = record[CONV.in_channel]
    lines, columns = _merge_pixels(builder, support, pixels.count, channels, target_pixel, source_pixel, channel)
    base, in_1 = record[CONV.base_1], record[CONV.in_1]
    first = builder.add(builder.mul(rows.target, slab_2), pixels.target)
    place = builder.offset_2d(source, rows.source, in_1, pixels.source, record[CONV.in_2])
    target_row = builder.mul(builder.mul(base, slab_2), pixel_bytes)
    target, source_row = builder.offset(slab, builder.mul(first, pixel_bytes)), builder.mul(record[CONV.step_1], in_1)
    unit = builder.i64(size_of(support.compute))
    with builder.loop(builder.i64(0), rows.count, name="row") as row:
        line, origin = (
            builder.offset(target, builder.mul(row, target_row)),
            builder.offset(place, builder.mul(row, source_row)),
        )
        args = line, target_pixel, unit, origin, source_pixel, channel, lines, columns
        call_copy(builder, copy, args, plane_bytes)
    builder.ret_void()
    return builder.function


def _merge_pixels(
    builder: StructuredBuilder,
    support: GemmSupport,
    count: Value,
    channels: Value,
    target_pixel: Value,
    source_pixel: Value,
    channel: Value,
) -> list[Value]:
    """(lines, columns) of the copy of a row of pixels: one line if pixels and channels are contiguous on both sides."""
    in_source = builder.icmp_signed("==", source_pixel, builder.mul(channels, builder.i64(size_of(support.types.lhs))))
    in_target = builder.icmp_signed(
        "==", target_pixel, builder.mul(channels, builder.i64(size_of(support.types.lanes.lhs)))
    )
    unit = builder.icmp_signed("==", channel, builder.i64(size_of(support.types.lhs)))
    contiguous = builder.and_(unit, builder.and_(in_source, in_target))
    return [
        builder.select(contiguous, builder.i64(1), count),
        builder.select(contiguous, builder.mul(count, channels), channels),
    ]


def _overlap(
    builder: StructuredBuilder, record: Record, axis: tuple[int, int, int], position: Value, size: Value
) -> _Overlap:
    """Slab pixel j lies at `position + j * step`; input element i at `i * base`. One of step and base is 1."""
    base, step, extent = (record[field] for field in axis)
    zero = builder.i64(0)
    before = builder.select(builder.icmp_signed("<", position, zero), builder.sub(zero, position), zero)
    first = _divide_up(builder, before, step)  # slab pixels in front of the input
    start = builder.add(position, builder.mul(first, step))
    source = _divide_up(builder, start, base)
    target = builder.add(first, builder.sub(builder.mul(source, base), start))
    in_slab = _divide_up(builder, builder.sub(size, target), base)
    in_input = _divide_up(builder, builder.sub(extent, source), step)
    count = builder.min(in_slab, in_input)
    return _Overlap(builder.select(builder.icmp_signed("<", count, zero), zero, count), source, target)


def _divide_up(builder: StructuredBuilder, value: Value, divisor: Value) -> Value:
    """The quotient rounded up; 0 or less for values that are 0 or less."""
    return builder.sdiv(builder.add(value, builder.sub(divisor, builder.i64(1))), divisor)
