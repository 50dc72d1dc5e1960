"""Packing buffers with known lifetimes into one arena: no two that live at the same time overlap."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from xjit.dataclass import dataclass

ALIGNMENT = 64
"""Bytes. Every offset in the arena is a multiple."""

_EXACT_LIMIT = 6000  # buffers packed by best fit; the many small ones beyond take turns in size classes


@dataclass(frozen=True, slots=True)
class Block:
    """A buffer to place: bytes, and the closed interval of steps during which it lives."""

    size: int
    begin: int
    end: int


def aligned(size: int) -> int:
    """Rounds a size up to the alignment of the arena."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def pack(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """Returns the offset of every block and the size of the arena; blocks of 0 bytes are at 0. Deterministic.

    Large blocks first, each into the tightest gap that its lifetime leaves.
    """
    offsets = [0] * len(blocks)
    order = sorted((i for i, b in enumerate(blocks) if b.size > 0), key=lambda i: (-blocks[i].size, blocks[i].begin, i))
    exact, rest = order[:_EXACT_LIMIT], order[_EXACT_LIMIT:]
    top = _pack_best_fit(blocks, exact, offsets)
    return offsets, _pack_in_turns(blocks, rest, offsets, top)


def _pack_best_fit(blocks: Sequence[Block], order: Sequence[int], offsets: list[int]) -> int:
    begins = np.empty(len(order), np.int64)
    ends, lows, highs = np.empty_like(begins), np.empty_like(begins), np.empty_like(begins)
    top = 0
    for n, i in enumerate(order):
        block, size = blocks[i], aligned(blocks[i].size)
        meets = np.nonzero((begins[:n] <= block.end) & (ends[:n] >= block.begin))[0]
        offset = _best_gap(lows[meets], highs[meets], size)
        offsets[i] = offset
        begins[n], ends[n], lows[n], highs[n] = block.begin, block.end, offset, offset + size
        top = max(top, offset + size)
    return top


def _best_gap(lows: np.ndarray, highs: np.ndarray, size: int) -> int:
    """Returns the start of the smallest gap of at least `size` bytes between the occupied ranges, or their end."""
    if not len(lows):
        return 0
    by_offset = np.argsort(lows, kind="stable")
    lows, reach = lows[by_offset], np.maximum.accumulate(highs[by_offset])
    starts = np.concatenate(([0], reach[:-1]))
    gaps = lows - starts
    fitting = np.nonzero(gaps >= size)[0]
    if not len(fitting):
        return int(reach[-1])
    return int(starts[fitting[np.argmin(gaps[fitting])]])


def _pack_in_turns(blocks: Sequence[Block], order: Sequence[int], offsets: list[int], top: int) -> int:
    """Places blocks by start time; one whose lifetime is over gives its place to the next of its size class."""
    taken: dict[int, list[tuple[int, int]]] = {}  # size class -> a heap of (end of the last tenant, offset)
    for i in sorted(order, key=lambda i: (blocks[i].begin, i)):
        block = blocks[i]
        size = 1 << (aligned(block.size) - 1).bit_length()
        places = taken.setdefault(size, [])
        if places and places[0][0] < block.begin:
            offsets[i] = heappop(places)[1]
        else:
            offsets[i], top = top, top + size
        heappush(places, (block.end, offsets[i]))
    return top
