"""Stable radix sort of (unsigned key, position) pairs in scratch memory.

Least significant digit first, 11 bits at a time; all histograms come from one sweep, and a digit that all keys share is
skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.kernels.loops.lines import Line, contiguous, raw_type
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, I64
from xjit.llvm.values import Value, const_int

DIGIT_BITS = 11
BUCKETS = 1 << DIGIT_BITS
COUNTER_BYTES = 8


def num_digits(key_bits: int) -> int:
    """Number of digits of a key."""
    return -(-key_bits // DIGIT_BITS)


def histogram_bytes(key_bits: int) -> int:
    """Scratch memory for the histograms, in bytes."""
    return num_digits(key_bits) * BUCKETS * COUNTER_BYTES


def emit_radix_sort(
    builder: StructuredBuilder, size: int, pairs: Sequence[Line], other: Sequence[Line], histograms: Value
) -> list[Line]:
    """Emits the sort of `size` (key, position) pairs by key; returns which of the two sets holds the result."""
    digits = num_digits(raw_type(pairs[0].kind).bits)
    _count(builder, size, pairs[0], histograms, digits)
    start = [*(p.pointer for p in pairs), *(o.pointer for o in other)]
    zero, end = const_int(I64, 0), const_int(I64, digits)
    with builder.loop_with(zero, end, start, name="digit") as (digit, pointers, following):
        source = [contiguous(p.kind, q, size) for p, q in zip(pairs, pointers[:2], strict=True)]
        target = [contiguous(p.kind, q, size) for p, q in zip(pairs, pointers[2:], strict=True)]
        counters = _counters(builder, histograms, digit)
        first = _digit(builder, source[0].load_raw(builder, zero), digit)
        all_equal = builder.icmp_signed("==", _load(builder, counters, first), const_int(I64, size))

        def scatter() -> list[Value]:
            _scatter(builder, size, source, target, counters, digit)
            return [*pointers[2:], *pointers[:2]]

        following.extend(builder.if_else(all_equal, lambda: list(pointers), scatter))
    return [contiguous(p.kind, q, size) for p, q in zip(pairs, pointers[:2], strict=True)]


def _digit(builder: StructuredBuilder, key: Value, digit: Value | int) -> Value:
    """Digit number `digit` of a key, as i64."""
    number = const_int(I64, digit) if isinstance(digit, int) else digit
    shift = builder.mul(number, const_int(I64, DIGIT_BITS))
    wide = key if key.type.bits == 64 else builder.zext(key, I64)
    return builder.and_(builder.lshr(wide, shift), const_int(I64, BUCKETS - 1))


def _counters(builder: StructuredBuilder, histograms: Value, digit: Value | int) -> Value:
    number = const_int(I64, digit) if isinstance(digit, int) else digit
    return builder.gep(I64, histograms, builder.mul(number, const_int(I64, BUCKETS)))


def _load(builder: StructuredBuilder, counters: Value, bucket: Value) -> Value:
    return builder.load(I64, builder.gep(I64, counters, bucket), COUNTER_BYTES)


def _increment(builder: StructuredBuilder, counters: Value, bucket: Value) -> Value:
    """Adds one to a counter; returns its old value."""
    address = builder.gep(I64, counters, bucket)
    old = builder.load(I64, address, COUNTER_BYTES)
    builder.store(builder.add(old, const_int(I64, 1)), address, COUNTER_BYTES)
    return old


def _count(builder: StructuredBuilder, size: int, keys: Line, histograms: Value, digits: int) -> None:
    builder.memset(histograms, const_int(I8, 0), const_int(I64, digits * BUCKETS * COUNTER_BYTES), COUNTER_BYTES)
    with builder.loop(const_int(I64, 0), const_int(I64, size), name="count") as i:
        key = keys.load_raw(builder, i)
        for digit in range(digits):
            _increment(builder, _counters(builder, histograms, digit), _digit(builder, key, digit))


def _scatter(
    builder: StructuredBuilder, size: int, source: Sequence[Line], target: Sequence[Line], counters: Value, digit: Value
) -> None:
    """Turns the counters into first places, then moves every pair to its place."""
    zero = const_int(I64, 0)
    with builder.loop_with(zero, const_int(I64, BUCKETS), [zero], name="place") as (bucket, total, following):
        address = builder.gep(I64, counters, bucket)
        count = builder.load(I64, address, COUNTER_BYTES)
        builder.store(total[0], address, COUNTER_BYTES)
        following.append(builder.add(total[0], count))
    with builder.loop(zero, const_int(I64, size), name="move") as i:
        key, position = (line.load_raw(builder, i) for line in source)
        place = _increment(builder, counters, _digit(builder, key, digit))
        for line, value in zip(target, (key, position), strict=True):
            line.store_raw(builder, place, value)
