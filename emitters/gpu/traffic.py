"""How a kernel uses memory, read off its schedule: bytes moved against the minimum, coalescing, bank conflicts.

What is counted are sectors of 32 bytes. Those that a block touches more than once count once: its caches keep them.
Blocks run about in the order of their numbers, so those that a block shares with an earlier one count once, too, if
what the blocks between touch fits into the second-level cache. The minimum is the sectors that hold what is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from xjit.affine import AffineExprKind, nodes_of
from xjit.dataclass import dataclass
from xjit.emitters.access.access_analysis import MapCache
from xjit.emitters.gpu.warp_requests import (
    Array,
    BlockPlaces,
    bank_conflicts,
    block_places,
    request_sectors,
    sectors_of,
)
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.variables import VariableTable, factor_of
from xjit.emitters.schedule.accesses import Access, ScheduleAccesses, schedule_accesses, variables_of
from xjit.emitters.schedule.schedule import Schedule
from xjit.emitters.schedule.statements import Role
from xjit.llvm.gpu_models import SECTOR_BYTES

SHARED_PLACES = 1 << 12  # of an access to shared memory: what follows is the same pattern again
CACHED_BYTES = 16 << 20  # well within the second-level cache of a data-centre GPU since sm_80: 40 MiB and more
GOOD_SHARE = 0.9
MAX_EXTRA_SECTORS = 1.25  # f32 that starts anywhere: five sectors for four


@dataclass(frozen=True, slots=True)
class ArrayTraffic:
    """One array of a kernel: bytes that are needed, bytes of the sectors that move, and why there are more of these.

    Of its `accesses` so many are `coalesced`: a warp touches about as few sectors as hold what it asks for.
    """

    array: str
    needed: int
    moved: int
    accesses: int
    coalesced: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class KernelTraffic:
    """The arrays of one kernel in global memory, and the waits of its worst access to shared memory."""

    arrays: tuple[ArrayTraffic, ...]
    bank_conflicts: int

    @property
    def needed(self) -> int:
        """The minimum, in bytes."""
        return sum(array.needed for array in self.arrays)

    @property
    def moved(self) -> int:
        """Bytes of the sectors that move."""
        return sum(array.moved for array in self.arrays)

    @property
    def efficiency(self) -> float:
        """The minimum as a part of what moves."""
        return self.needed / self.moved if self.moved else 1.0

    @property
    def accesses(self) -> int:
        """How many accesses to global memory the schedule has."""
        return sum(array.accesses for array in self.arrays)

    @property
    def coalesced(self) -> int:
        """How many of them are coalesced."""
        return sum(array.coalesced for array in self.arrays)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why more moves than must, where that is much: the arrays that cost most first."""
        if self.efficiency >= GOOD_SHARE:
            return ()
        costly = sorted(self.arrays, key=lambda array: array.needed - array.moved)
        return tuple(f"{a.array}: {a.reason}" for a in costly if a.needed < GOOD_SHARE * a.moved)


def kernel_traffic(schedule: Schedule, view: KernelView, maps: MapCache) -> KernelTraffic:
    """Returns what a schedule of the view moves through memory."""
    accesses = schedule_accesses(schedule, view, maps)
    shared = [
        bank_conflicts(block_places(accesses, a, schedule.threads, 0, SHARED_PLACES).places, a.element_bytes)
        for part in accesses.parts
        for a in part
        if a.is_shared
    ]
    sums: dict[str, _Sum] = {}
    for part, found in zip(schedule.parts, accesses.parts, strict=True):
        _add_part(sums, [a for a in found if not a.is_shared], accesses, schedule.threads, schedule.units_of(part))
    traffic = tuple(_array_traffic(array, total, accesses) for array, total in sums.items())
    return KernelTraffic(traffic, max(shared, default=0))


@dataclass(slots=True)
class _Sum:
    """What the blocks of all parts need and move of one array, in bytes."""

    needed: float = 0.0
    moved: float = 0.0
    touched: float = 0.0  # needed, had blocks nothing in common
    coalesced: int = 0
    accesses: list[Access] = field(default_factory=list)


def _array_traffic(array: str, total: _Sum, accesses: ScheduleAccesses) -> ArrayTraffic:
    size = accesses.array_bytes[array]
    whole = _whole_sectors(size)
    needed = min(_whole_sectors(total.needed), whole)
    moved = max(int(total.moved), needed)
    if size <= CACHED_BYTES:
        moved = min(moved, whole)
    reason = _reason(total.accesses, accesses, total.touched / max(size, 1)) if needed < GOOD_SHARE * moved else ""
    return ArrayTraffic(array, needed, moved, len(total.accesses), total.coalesced, reason)


def _whole_sectors(count: float) -> int:
    return math.ceil(count / SECTOR_BYTES) * SECTOR_BYTES


def _add_part(
    sums: dict[str, _Sum], found: Sequence[Access], accesses: ScheduleAccesses, threads: int, units: int
) -> None:
    """Adds what the blocks of one part touch, from what two of them do."""
    by_array: dict[str, list[Access]] = {}
    for access in found:
        by_array.setdefault(access.array, []).append(access)
    blocks = sorted({min(units // 3 + 1, units - 1), 2 * units // 3})  # neither at edges nor the first ones of rows
    for block in blocks:
        touched = {array: _BlockTouch.of(accesses, own, threads, block) for array, own in by_array.items()}
        footprint = sum(touch.sectors.size * touch.left_out for touch in touched.values()) * SECTOR_BYTES
        reach = int(CACHED_BYTES / footprint) if footprint else 0
        for array, own in by_array.items():
            total = sums.setdefault(array, _Sum())
            touch, width = touched[array], own[0].element_bytes
            sectors, elements = touch.sectors, touch.elements
            shares = sectors.size * SECTOR_BYTES * touch.left_out * units > accesses.array_bytes[array]
            for distance in _distances(own, min(reach, block)) if shares else ():
                if not sectors.size:
                    break
                earlier = _BlockTouch.of(accesses, own, threads, block - distance)
                sectors = np.setdiff1d(sectors, earlier.sectors, assume_unique=True)
                elements = np.setdiff1d(elements, earlier.elements, assume_unique=True)
            weight = units / len(blocks) * touch.left_out
            needed = max(weight * elements.size, touch.elements.size / len(blocks))
            if elements.size < touch.elements.size:  # of what several blocks touch, others may have been the first
                needed = max(needed, min(weight * touch.elements.size, _reach(own, accesses) / len(blocks)))
            total.needed += needed * width
            total.moved += max(weight * sectors.size, touch.sectors.size / len(blocks)) * SECTOR_BYTES
            total.touched += weight * touch.elements.size * width
            if block == blocks[0]:
                total.accesses += own
                total.coalesced += sum(_is_coalesced(p, width) for p in touch.places)


def _reach(own: Sequence[Access], accesses: ScheduleAccesses) -> int:
    """From the first to the last element of an array that the grid may touch."""
    table = VariableTable(accesses.intervals)
    intervals = [table.interval(access.place) for access in own]
    last = accesses.array_bytes[own[0].array] // own[0].element_bytes - 1
    lower, upper = min(i.lower for i in intervals), max(i.upper for i in intervals)
    return max(0, min(upper, last) - max(lower, 0) + 1)


@dataclass(frozen=True, slots=True)
class _BlockTouch:
    """The distinct elements and sectors of an array that one block touches, by `left_out` as many as were followed."""

    places: tuple[BlockPlaces, ...]  # of each access
    elements: Array
    sectors: Array
    left_out: float

    @staticmethod
    def of(accesses: ScheduleAccesses, own: Sequence[Access], threads: int, block: int) -> _BlockTouch:
        """Of the accesses to one array."""
        found = tuple(block_places(accesses, access, threads, block) for access in own)
        elements = np.unique(np.concatenate([p.places.reshape(-1) for p in found]))
        elements = elements[elements >= 0]
        sectors = sectors_of(elements, own[0].element_bytes)
        return _BlockTouch(found, elements, sectors, max(p.left_out for p in found))


def _distances(own: Sequence[Access], reach: int) -> list[int]:
    """How many blocks earlier the same elements may have been touched: powers of two, and what places divide by."""
    divisors = {
        node.rhs
        for node in nodes_of([access.place for access in own])
        if node.kind in (AffineExprKind.FLOORDIV, AffineExprKind.MOD)
    }
    products = {a * b for a in divisors for b in divisors}
    powers = {1 << n for n in range(reach.bit_length())}
    return sorted(d for d in divisors | products | powers if 0 < d <= reach)


def _is_coalesced(found: BlockPlaces, element_bytes: int) -> bool:
    sectors, wanted = request_sectors(found.places, element_bytes)
    return sectors <= MAX_EXTRA_SECTORS * wanted


def _reason(own: Sequence[Access], accesses: ScheduleAccesses, passes: float) -> str:
    """Returns why more of an array moves than is needed of it."""
    for access in own:
        used = variables_of(access.place, accesses.runtime)
        if used & accesses.runtime.keys():
            return "which elements are needed is read at run time"
    if passes >= 1.5:
        return f"blocks read the array {passes:.1f} times, and what lies between is too much for the cache"
    for access in own:
        step = _lane_step(access)
        if step is None:
            return "neighbouring threads take elements of several rows"
        if abs(step) > 1:
            return f"neighbouring threads take elements {abs(step) * access.element_bytes} bytes apart"
    if all(a.is_store for a in own) and not any(_lanes(a) for a in own):
        return "each warp or block stores one element"
    return "the pieces of a block are no whole sectors of 32 bytes"


def _lanes(access: Access) -> list[int]:
    """The variables whose steps neighbouring threads take, in this access."""
    own = (steps.variable for steps in access.within if steps.role in (Role.THREAD, Role.LANE))
    return [variable for variable in own if access.place.uses_dim(variable)]


def _lane_step(access: Access) -> int | None:
    """How far apart neighbouring threads are, in elements, per element of their vectors; None if that varies."""
    for variable in _lanes(access):
        return factor_of(access.place, variable)
    return 0
