"""Classifies what one warp touches in a single access instruction, from the map of work items to physical offsets."""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import Any, Final

import numpy as np

from xjit.affine.errors import IndexingError
from xjit.affine.indexing_map import IndexingMap
from xjit.affine.interval import Interval
from xjit.affine.pool import dim
from xjit.affine.simplify import RangeContext
from xjit.affine.walks import substitute
from xjit.dataclass import dataclass

__all__ = ["AccessKind", "WarpAccess", "classify_warp_access"]

SECTOR_BYTES: Final = 32
_SAMPLED_WARPS: Final = 4096


class AccessKind(Enum):
    """How the offsets of neighbouring lanes relate."""

    BROADCAST = "broadcast"  # all lanes read one element
    CONTIGUOUS = "contiguous"  # lane i + 1 follows lane i in memory, in either direction
    STRIDED = "strided"  # a constant step that leaves gaps
    SCATTERED = "scattered"  # anything else
    NONE = "none"  # no lane is inside the domain


@dataclass(frozen=True, slots=True)
class WarpAccess:
    """`stride`: elements from lane to lane (None if scattered). `sectors`: 32-byte sectors of the worst warp examined.

    `exact`: every warp was covered, by proof or enumeration; otherwise the answer comes from a sample.
    """

    kind: AccessKind
    stride: int | None
    sectors: int
    exact: bool = True


def classify_warp_access(
    access: IndexingMap,
    element_bytes: int,
    *,
    thread_dim: int = 0,
    vector_dim: int | None = None,
    warp_size: int = 32,
) -> WarpAccess:
    """Returns how the warps of `access` touch memory.

    Shapes: one result, the linear physical offset in elements. Dim `thread_dim` is the thread id; lanes of a warp are
    `warp_size` consecutive ones. Dim `vector_dim`, if given, holds the elements that a lane takes in one instruction;
    all other variables are the same for all lanes. The buffer starts on a sector.
    """
    if access.is_unknown:
        return WarpAccess(AccessKind.SCATTERED, None, warp_size, exact=False)
    if len(access.results) != 1:
        raise IndexingError(f"coalescing needs one result, the physical offset, found {len(access.results)}")
    access = access.simplify()
    if access.is_known_empty:
        return WarpAccess(AccessKind.NONE, None, 0)
    if not access.constraints and vector_dim is None and access.dim_bounds[thread_dim].lower % warp_size == 0:
        proved = _linear_access(access, element_bytes, thread_dim, warp_size)
        if proved is not None:
            return proved
    return _enumerated_access(access, element_bytes, thread_dim, vector_dim, warp_size)


def _linear_access(access: IndexingMap, element_bytes: int, thread_dim: int, warp_size: int) -> WarpAccess | None:
    """Proof for offset = stride * lane + base, with base free of the lane."""
    threads = access.dim_bounds[thread_dim]
    lanes = min(warp_size, threads.size)
    warp, lane = dim(thread_dim), dim(access.num_dims)
    warps = Interval(threads.lower // warp_size, threads.upper // warp_size)
    bounds = [warps if i == thread_dim else b for i, b in enumerate(access.dim_bounds)]
    context = RangeContext([*bounds, Interval(0, lanes - 1)], access.symbol_bounds)
    offset = context.simplify(substitute(access.results[0], {thread_dim: warp * warp_size + lane}))
    base = [(t, k) for t, k in offset.terms if not t.uses_dim(access.num_dims)]
    moving = [(t, k) for t, k in offset.terms if t.uses_dim(access.num_dims)]
    if len(moving) > 1 or (moving and moving[0][0] is not lane):
        return None
    stride = moving[0][1] if moving else 0
    parts = [(k, context.range_of(t)) for t, k in base]
    residues = _residues(offset.constant_term, parts, element_bytes)
    steps = np.arange(lanes, dtype=np.int64) * stride * element_bytes
    sectors = max(_count_sectors(steps + r, element_bytes) for r in residues)
    return WarpAccess(_kind_of(stride, 1), stride, sectors)


def _residues(constant_term: int, parts: list[tuple[int, tuple[int, int]]], element_bytes: int) -> set[int]:
    """Byte offsets in a sector that constant + sum of k * t may have, each t in its range, independently."""
    found = {constant_term * element_bytes % SECTOR_BYTES}
    for k, (low, high) in parts:
        values = range(low, min(high, low + SECTOR_BYTES - 1) + 1)
        found = {(r + k * v * element_bytes) % SECTOR_BYTES for r in found for v in values}
    return found


def _count_sectors(byte_offsets: Any, element_bytes: int) -> int:
    first = byte_offsets // SECTOR_BYTES
    last = (byte_offsets + element_bytes - 1) // SECTOR_BYTES
    return len(np.unique(np.concatenate([first, last])))


def _kind_of(stride: int, per_lane: int) -> AccessKind:
    if stride == 0:
        return AccessKind.BROADCAST
    return AccessKind.CONTIGUOUS if abs(stride) == per_lane else AccessKind.STRIDED


def _enumerated_access(
    access: IndexingMap, element_bytes: int, thread_dim: int, vector_dim: int | None, warp_size: int
) -> WarpAccess:
    """Looks at every warp, or at evenly spread ones if there are too many."""
    threads = access.dim_bounds[thread_dim]
    first_warp = threads.lower // warp_size
    warps = threads.upper // warp_size - first_warp + 1
    used = access.results[0]
    others: list[tuple[bool, int, Interval]] = []
    for is_symbol, all_bounds in ((False, access.dim_bounds), (True, access.symbol_bounds)):
        for i, bounds in enumerate(all_bounds):
            is_own = not is_symbol and i in (thread_dim, vector_dim)
            free = access.constraints or (used.uses_symbol(i) if is_symbol else used.uses_dim(i))
            if not is_own and free:
                others.append((is_symbol, i, bounds))
    total = warps * prod(b.size for _, _, b in others)
    exact = total <= _SAMPLED_WARPS
    samples = range(total) if exact else [i * (total - 1) // (_SAMPLED_WARPS - 1) for i in range(_SAMPLED_WARPS)]
    vector = access.dim_bounds[vector_dim] if vector_dim is not None else Interval(0, 0)
    lanes = np.arange(warp_size, dtype=np.int64)[:, None]
    elements = np.arange(vector.lower, vector.upper + 1, dtype=np.int64)[None, :]
    strides: set[int | None] = set()
    worst = 0
    for sample in samples:
        dims: list[Any] = [b.lower for b in access.dim_bounds]
        symbols: list[Any] = [b.lower for b in access.symbol_bounds]
        sample, warp = divmod(sample, warps)
        for is_symbol, i, bounds in others:
            sample, at = divmod(sample, bounds.size)
            (symbols if is_symbol else dims)[i] = bounds.lower + at
        dims[thread_dim] = lanes + (first_warp + warp) * warp_size
        if vector_dim is not None:
            dims[vector_dim] = elements
        shape = (warp_size, vector.size)
        inside = np.broadcast_to(access.contains(dims, symbols), shape)
        offsets = np.broadcast_to(access.evaluate(dims, symbols)[0], shape)
        if inside.any():
            worst = max(worst, _count_sectors(offsets[inside] * element_bytes, element_bytes))
            strides |= _lane_strides(offsets, inside, vector.size)
    return _summary(strides, worst, vector.size, exact)


def _lane_strides(offsets: Any, inside: Any, per_lane: int) -> set[int | None]:
    """Steps between neighbouring active lanes; None if a lane's own elements are not consecutive."""
    active = inside.all(axis=1)
    if per_lane > 1 and (np.diff(offsets[active], axis=1) != 1).any():
        return {None}
    lanes = np.flatnonzero(inside.any(axis=1))
    first = offsets[lanes, inside[lanes].argmax(axis=1)]
    steps, gaps = np.diff(first), np.diff(lanes)
    if (steps % gaps).any():
        return {None}
    return {int(s) for s in np.unique(steps // gaps)}


def _summary(strides: set[int | None], sectors: int, per_lane: int, exact: bool) -> WarpAccess:
    if not sectors:
        return WarpAccess(AccessKind.NONE, None, 0, exact)
    stride = next(iter(strides)) if len(strides) == 1 else 0 if not strides else None
    if stride is None:
        return WarpAccess(AccessKind.SCATTERED, None, sectors, exact)
    return WarpAccess(_kind_of(stride, per_lane), stride, sectors, exact)
