"""Stable sort of (unsigned key, position) pairs in scratch memory: by radix, or short lines by merging."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.kernels.loops.lines import Line
from xjit.emitters.kernels.sort.merge_sort import emit_merge_sort
from xjit.emitters.kernels.sort.radix_sort import emit_radix_sort, histogram_bytes
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.values import Value

MIN_RADIX_SIZE = 768


def is_by_radix(size: int) -> bool:
    """Whether lines of that many pairs are sorted by radix."""
    return size >= MIN_RADIX_SIZE


def work_bytes(size: int, key_bits: int) -> int:
    """Scratch memory that a sort needs besides two sets of pairs, in bytes."""
    return histogram_bytes(key_bits) if is_by_radix(size) else 0


def emit_pair_sort(
    builder: StructuredBuilder, size: int, pairs: Sequence[Line], other: Sequence[Line], work: Value
) -> list[Line]:
    """Emits the sort of `size` pairs by key; returns which of the two sets holds the result."""
    if is_by_radix(size):
        return emit_radix_sort(builder, size, pairs, other, work)
    return emit_merge_sort(builder, size, pairs, other, lambda a, b: builder.icmp_unsigned("<", a[0], b[0]))
