"""Sorts of one operand of 8 or 16 bits: its bits say all, so places need not be kept.

Bytes are counted, and written as runs of equal ones. Two bytes go by radix, least significant byte first; both
histograms come from one sweep. Elements take part as unsigned keys: their bits with some of them turned.
"""

from __future__ import annotations

from xjit.emitters.kernels.loops.lines import Line, contiguous
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_int
from xjit.ops.sort_keys import KeyOrder

MIN_SIZES = {8: 24, 16: 48}
"""Of lines, by bits of their elements: shorter ones take less time than the histograms of their bytes."""
BUCKETS = 256
COUNTER_BYTES = 8
RUN_BYTES = 32
"""What is written at once of a run; the next one begins where it should have ended."""
_KINDS = tuple(PrimitiveType.from_text(name) for name in ("pred", "s8", "u8", "s16", "u16"))


def is_by_bytes(order: KeyOrder, operand_count: int, size: int) -> bool:
    """Whether lines are sorted by the bytes of their elements."""
    if operand_count != 1 or order.kind not in _KINDS or order.key.opcode != "parameter":
        return False
    return size >= MIN_SIZES[8 * order.kind.byte_width]


def work_bytes(kind: PrimitiveType, size: int) -> list[int]:
    """Scratch memory: the histograms, and room for a line."""
    return [kind.byte_width * BUCKETS * COUNTER_BYTES, size * kind.byte_width + RUN_BYTES]


def emit_narrow_sort(
    builder: StructuredBuilder, order: KeyOrder, source: Line, target: Line, work: tuple[Value, Value]
) -> None:
    """Emits the sort of a line; `work` is as `work_bytes` says."""
    kind = source.kind
    sign = 1 << (8 * kind.byte_width - 1) if kind.is_signed else 0
    turned = sign ^ ((1 << 8 * kind.byte_width) - 1 if order.descending else 0)
    histograms, scratch = work[0], contiguous(kind, work[1], source.size)
    _count(builder, source, histograms, turned)
    if kind.byte_width == 1:
        _write_runs(builder, histograms, scratch, turned)
        _copy(builder, scratch, target)
        return
    for byte, (read, written) in enumerate(((source, scratch), (scratch, target))):
        counters = builder.offset(histograms, const_int(I64, byte * BUCKETS * COUNTER_BYTES))
        _first_places(builder, counters)
        with builder.loop(const_int(I64, 0), const_int(I64, source.size), name="move") as i:
            bits = read.load_raw(builder, i)
            written.store_raw(builder, _increment(builder, counters, _byte(builder, bits, turned, byte)), bits)


def _byte(builder: StructuredBuilder, bits: Value, turned: int, number: int) -> Value:
    """A byte of an element's key, as i64."""
    key = builder.zext(builder.xor(bits, const_int(bits.type, turned)), I64)
    return builder.and_(builder.lshr(key, const_int(I64, 8 * number)), const_int(I64, BUCKETS - 1))


def _increment(builder: StructuredBuilder, counters: Value, bucket: Value) -> Value:
    """Adds one to a counter; returns its old value."""
    address = builder.gep(I64, counters, bucket)
    old = builder.load(I64, address, COUNTER_BYTES)
    builder.store(builder.add(old, const_int(I64, 1)), address, COUNTER_BYTES)
    return old


def _count(builder: StructuredBuilder, source: Line, histograms: Value, turned: int) -> None:
    size = BUCKETS * COUNTER_BYTES
    num_bytes = source.kind.byte_width
    builder.memset(histograms, const_int(I8, 0), const_int(I64, num_bytes * size), COUNTER_BYTES)
    with builder.loop(const_int(I64, 0), const_int(I64, source.size), name="count") as i:
        bits = source.load_raw(builder, i)
        for byte in range(num_bytes):
            counters = builder.offset(histograms, const_int(I64, byte * size))
            _increment(builder, counters, _byte(builder, bits, turned, byte))


def _first_places(builder: StructuredBuilder, counters: Value) -> None:
    """Turns counts into the places of first elements."""
    zero = const_int(I64, 0)
    with builder.loop_with(zero, const_int(I64, BUCKETS), [zero], name="place") as (bucket, total, following):
        address = builder.gep(I64, counters, bucket)
        count = builder.load(I64, address, COUNTER_BYTES)
        builder.store(total[0], address, COUNTER_BYTES)
        following.append(builder.add(total[0], count))


def _write_runs(builder: StructuredBuilder, counters: Value, target: Line, turned: int) -> None:
    """Writes each byte as often as it was counted, and up to `RUN_BYTES` more."""
    zero, step = const_int(I64, 0), const_int(I64, RUN_BYTES)
    with builder.loop_with(zero, const_int(I64, BUCKETS), [zero], name="bucket") as (bucket, place, following):
        byte = builder.xor(builder.trunc(bucket, I8), const_int(I8, turned))
        run = builder.splat(byte, RUN_BYTES)
        end = builder.add(place[0], builder.load(I64, builder.gep(I64, counters, bucket), COUNTER_BYTES))
        builder.store(run, builder.offset(target.pointer, place[0]), 1)
        with builder.loop(builder.add(place[0], step), end, RUN_BYTES, name="run") as i:
            builder.store(run, builder.offset(target.pointer, i), 1)
        following.append(end)


def _copy(builder: StructuredBuilder, source: Line, target: Line) -> None:
    if target.stride == 1:
        builder.memcpy(target.pointer, source.pointer, const_int(I64, source.size * source.kind.byte_width))
        return
    with builder.loop(const_int(I64, 0), const_int(I64, source.size), name="copy") as i:
        target.store_raw(builder, i, source.load_raw(builder, i))
