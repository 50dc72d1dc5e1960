"""Stable merge sort of records in scratch memory, with the comparison inlined.

Short runs are sorted by insertion, then merged bottom-up between two sets of arrays. Reads stay inside of the runs
and every element is written exactly once per pass whatever the comparator answers, so even one that is no order at
all gives a permutation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.kernels.loops.lines import Line, contiguous
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int

RUN = 8

Less = Callable[[Sequence[Value], Sequence[Value]], Value]
"""`less(a, b)` on the raw bits of two records: i1, whether a must come before b."""


def emit_merge_sort(
    builder: StructuredBuilder, size: int, records: Sequence[Line], other: Sequence[Line], less: Less
) -> list[Line]:
    """Emits the sort of `size` records (a structure of arrays); returns which of the two sets holds the result."""
    _insertion_sort_runs(builder, size, records, less)
    passes = max(0, (-(-size // RUN) - 1).bit_length())
    if passes == 0:
        return list(records)
    start = [const_int(I64, RUN), *(r.pointer for r in records), *(o.pointer for o in other)]
    zero, count = const_int(I64, 0), len(records)
    with builder.loop_with(zero, const_int(I64, passes), start, name="merge") as (_, now, following):
        width, pointers = now[0], now[1:]
        source = [contiguous(r.kind, p, size) for r, p in zip(records, pointers[:count], strict=True)]
        target = [contiguous(r.kind, p, size) for r, p in zip(records, pointers[count:], strict=True)]
        step = builder.shl(width, const_int(I64, 1))
        with builder.loop(zero, const_int(I64, size), step, name="pair") as low:
            middle = builder.min(builder.add(low, width), const_int(I64, size))
            high = builder.min(builder.add(low, step), const_int(I64, size))
            _merge(builder, (low, middle, high), source, target, less)
        following.extend([step, *pointers[count:], *pointers[:count]])
    return [contiguous(r.kind, p, size) for r, p in zip(records, now[1 : 1 + count], strict=True)]


def load_record(builder: StructuredBuilder, records: Sequence[Line], position: Value) -> list[Value]:
    """The raw bits of one record."""
    return [line.load_raw(builder, position) for line in records]


def store_record(builder: StructuredBuilder, records: Sequence[Line], position: Value, values: Sequence[Value]) -> None:
    """Writes one record."""
    for line, value in zip(records, values, strict=True):
        line.store_raw(builder, position, value)


def _insertion_sort_runs(builder: StructuredBuilder, size: int, records: Sequence[Line], less: Less) -> None:
    zero, one, end = const_int(I64, 0), const_int(I64, 1), const_int(I64, size)
    with builder.loop(zero, end, RUN, name="run") as first:
        stop = builder.min(builder.add(first, const_int(I64, RUN)), end)
        with builder.loop(builder.add(first, one), stop, name="insert") as position:
            moving = load_record(builder, records, position)
            place = shift_while(
                builder, position, first, records, lambda previous, moving=moving: less(moving, previous)
            )
            store_record(builder, records, place, moving)


def shift_while(
    builder: StructuredBuilder,
    position: Value,
    first: Value,
    records: Sequence[Line],
    is_after: Callable[[Sequence[Value]], Value],
) -> Value:
    """Moves records up by one, from `position` downwards, while `is_after(record below)`; returns the free place."""
    one = const_int(I64, 1)
    test, look, move, done = (builder.append_block(label) for label in ("shift", "look", "move", "place"))
    before = builder.block
    builder.br(test)
    builder.position_at_end(test)
    free = builder.phi(I64, [(position, before)], "free")
    builder.cbranch(builder.icmp_signed(">", free, first), look, done)
    builder.position_at_end(look)
    below = builder.sub(free, one)
    previous = load_record(builder, records, below)
    builder.cbranch(is_after(previous), move, done)
    builder.position_at_end(move)
    store_record(builder, records, free, previous)
    free.add_incoming(below, builder.block)
    builder.br(test)
    builder.position_at_end(done)
    return free


def _merge(
    builder: StructuredBuilder,
    bounds: tuple[Value, Value, Value],
    source: Sequence[Line],
    target: Sequence[Line],
    less: Less,
) -> None:
    """Merges source[low:middle] and source[middle:high] into target[low:high]; equal records of the left run first."""
    low, middle, high = bounds
    one = const_int(I64, 1)
    last_left, last_right = builder.sub(middle, one), builder.sub(high, one)
    with builder.loop_with(low, high, [low, middle], name="take") as (place, heads, following):
        left, right = heads
        a = load_record(builder, source, builder.min(left, last_left))
        b = load_record(builder, source, builder.min(right, last_right))
        left_is_empty = builder.icmp_signed(">=", left, middle)
        right_has_more = builder.icmp_signed("<", right, high)
        take_right = builder.and_(right_has_more, builder.or_(left_is_empty, less(b, a)))
        chosen = [builder.select(take_right, y, x) for x, y in zip(a, b, strict=True)]
        store_record(builder, target, place, chosen)
        step = builder.zext(take_right, I64)
        following.extend([builder.add(left, builder.sub(one, step)), builder.add(right, step)])
