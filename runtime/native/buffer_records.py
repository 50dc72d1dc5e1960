"""What the buffer pool keeps: the header of a block, its numbers, and the variables of its lists.

Blocks come in size classes, four per power of two. A block starts with a header that says how it was made, so freeing
trusts no size given by others.
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.llvm import Module, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I8, I32, I64, PTR, array
from xjit.llvm.values import zero

BLOCK = StructLayout(
    "Block",
    (
        ("capacity", I64),  # bytes, with this header
        ("next", PTR),  # in its list
        ("size_class", I64),
        ("mapping", PTR),  # what to unmap; null: the block is from posix_memalign
        ("mapping_bytes", I64),
    ),
    align=64,
)
"""The header of a block; the data behind it is 64-byte aligned."""

STATISTICS = StructLayout(
    "BufferPoolStatistics",
    tuple((name, I64) for name in ("hits", "misses", "cached_bytes", "limit_bytes", "live_bytes")),
)
"""The pool's numbers, which Python reads, and whose limit it sets."""

STATISTICS_SYMBOL = "xjit_buffer_statistics"

NUM_CLASSES = 256
MAX_REQUEST = 1 << 46
"""Larger requests fail at once, before sums overflow."""


@dataclass(frozen=True, slots=True)
class BufferVariables:
    """Addresses of the pool's variables."""

    lock: Value  # i32: 1 while a thread works on lists or numbers
    lists: Value  # the first free block of every size class
    statistics: Value


def add_buffer_variables(module: Module) -> BufferVariables:
    """Adds them, all zero: a pool without blocks, whose limit is 0."""
    lists, statistics = array(PTR, NUM_CLASSES), array(I8, STATISTICS.size)
    return BufferVariables(
        lock=module.add_global("xjit_buffer_lock", I32, zero(I32), align=64),
        lists=module.add_global("xjit_buffer_lists", lists, zero(lists), align=64),
        statistics=module.add_global(STATISTICS_SYMBOL, statistics, zero(statistics), align=64, linkage=""),
    )
