"""The 64 bits that the sanitizer keeps of one access: who did it, and when.

From the highest bit on: the block's ordinal + 1 (24), barriers that the block had passed (18), the thread's index (10),
meetings of its warp since then (10), and whether several lanes of that warp, or threads of several warps, did it. Zero
is no access. Counters wrap around; what is as many barriers ago as they count is taken for an access of now.
"""

from __future__ import annotations

from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value
from xjit.runtime.gpu_sim.fields import Fields, has_bits, widened

SEVERAL_LANES, SEVERAL_WARPS = 1, 2
_CLOCK, _THREAD, _INTERVAL, _ORDINAL = 2, 12, 22, 40
"""Where the fields begin."""
_CLOCK_BITS, _THREAD_BITS, _INTERVAL_BITS = 10, 10, 18
MAX_SIMULATED_BLOCKS = (1 << 24) - 2


def record_of(b: StructuredBuilder, launch: Fields, thread: Fields) -> Value:
    """The record of an access by `thread` now."""
    clock = b.and_(widened(b, thread["warp_clock"]), b.i64((1 << _CLOCK_BITS) - 1))
    parts = (
        b.shl(clock, b.i64(_CLOCK)),
        b.shl(widened(b, thread["index"]), b.i64(_THREAD)),
        b.shl(b.and_(launch["interval"], b.i64((1 << _INTERVAL_BITS) - 1)), b.i64(_INTERVAL)),
        b.shl(b.add(launch["ordinal"], b.i64(1)), b.i64(_ORDINAL)),
    )
    result = parts[0]
    for part in parts[1:]:
        result = b.or_(result, part)
    return result


def ordinal_of(b: StructuredBuilder, record: Value) -> Value:
    """The block's ordinal + 1; 0 of no access."""
    return b.lshr(record, b.i64(_ORDINAL))


def interval_of(b: StructuredBuilder, record: Value) -> Value:
    """Block and barrier interval: equal for accesses without a barrier between them."""
    return b.lshr(record, b.i64(_INTERVAL))


def thread_of(b: StructuredBuilder, record: Value) -> Value:
    """The thread's index in its block."""
    return _field(b, record, _THREAD, _THREAD_BITS)


def warp_of(b: StructuredBuilder, record: Value) -> Value:
    """The warp's number in its block."""
    return b.lshr(thread_of(b, record), b.i64(5))


def clock_of(b: StructuredBuilder, record: Value) -> Value:
    """Meetings of the warp."""
    return _field(b, record, _CLOCK, _CLOCK_BITS)


def is_of_several(b: StructuredBuilder, record: Value, which: int) -> Value:
    """Whether SEVERAL_LANES or SEVERAL_WARPS is set, as an i1."""
    return has_bits(b, record, which)


def _field(b: StructuredBuilder, record: Value, begin: int, bits: int) -> Value:
    assert record.type is I64
    return b.and_(b.lshr(record, b.i64(begin)), b.i64((1 << bits) - 1))
