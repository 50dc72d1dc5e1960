"""What the threads of one block touch with an access: requests of warps, and the sectors of memory behind them.

Places are computed from the access's indexing map for every thread of some blocks of the grid, so this needs no code.
Loops that would take too many places are followed for their first steps only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.affine import evaluate
from xjit.dataclass import dataclass
from xjit.emitters.schedule.accesses import Access, ScheduleAccesses, Steps, variables_of
from xjit.emitters.schedule.statements import Role
from xjit.llvm.gpu_models import SECTOR_BYTES, WARP_SIZE

NUM_BANKS, BANK_BYTES = 32, 4
MAX_PLACES = 1 << 17
_THREAD_ROLES = (Role.THREAD, Role.WARP, Role.LANE)
_HASH = np.int64(0x9E3779B97F4A7C1)  # scatters what is read at run time

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class BlockPlaces:
    """The places of one block: `places[warp, step, lane, element]`, -1 where nothing is touched.

    Of the steps that the block does, one in `left_out` was followed if the place changes with them.
    """

    places: Array
    left_out: float


def block_places(
    accesses: ScheduleAccesses, access: Access, threads: int, block: int, max_places: int = MAX_PLACES
) -> BlockPlaces:
    """Returns what a block of so many threads touches, by its number within the part; about so many places of it."""
    return _Block(accesses, access, threads, block).places(max_places)


class _Block:
    """The values of variables as arrays: threads along the first axis, then one axis for the rounds of each loop."""

    def __init__(self, accesses: ScheduleAccesses, access: Access, threads: int, block: int) -> None:
        self._accesses = accesses
        self._access = access
        self._threads = threads
        self._block = block
        used = variables_of(access.place, accesses.runtime).union(*(e.dims for e, _ in access.conditions))
        self._loops = [steps for steps in access.within if steps.variable in used or steps.role in _THREAD_ROLES]
        self._values: dict[int, Array] = {}
        self._valid: Array | np.bool_ = np.True_

    def __getitem__(self, variable: int) -> Array:
        """The value of a variable; an element that is read at run time is some value within its bounds."""
        if variable not in self._values:
            value = self._accesses.runtime[variable]
            key: Any = np.int64(variable)
            for expr in value.place:
                key = key * np.int64(31) + evaluate(expr, self)  # type: ignore[arg-type]
            with np.errstate(over="ignore"):
                mixed = (np.asarray(key, np.int64) * _HASH) >> np.int64(17)
            self._values[variable] = value.bounds.lower + mixed % (value.bounds.upper - value.bounds.lower + 1)
        return self._values[variable]

    def places(self, max_places: int) -> BlockPlaces:
        threads, loops = self._threads, self._loops
        rounds = [self._rounds(steps) for steps in loops]
        vector = max((n for n, steps in enumerate(loops) if steps.lanes > 1), default=-1)
        lanes = loops[vector].lanes if vector >= 0 else 1
        budget, taken = max(1, max_places // (threads * lanes)), list[int]()
        for count in reversed(rounds):
            taken.insert(0, min(count, budget))
            budget = max(1, budget // taken[0])
        for axis, steps in enumerate(loops):
            self._bind(steps, axis, taken[axis], len(loops), steps.lanes if axis == vector else 1)
        shape = (threads, *taken, lanes)
        found = np.broadcast_to(np.asarray(evaluate(self._access.place, self), np.int64), shape)  # type: ignore[arg-type]
        size = self._accesses.array_bytes.get(self._access.array)
        inside = found >= 0
        if size is not None:
            inside &= found < max(1, size // self._access.element_bytes)
        for expr, bounds in self._access.conditions:
            value = np.asarray(evaluate(expr, self), np.int64)  # type: ignore[arg-type]
            inside = inside & (bounds.lower <= value) & (value <= bounds.upper)
        found = np.where(np.broadcast_to(self._valid, shape) & inside, found, -1)
        left_out = float(np.prod([n / t for n, t in zip(rounds, taken, strict=True)], initial=1.0))
        by_warp = found.reshape(threads // WARP_SIZE, WARP_SIZE, -1, lanes)
        return BlockPlaces(np.swapaxes(by_warp, 1, 2), left_out)

    def _who(self, role: Role) -> tuple[Array, int]:
        thread = np.arange(self._threads, dtype=np.int64)
        if role is Role.LANE:
            return thread % WARP_SIZE, WARP_SIZE
        if role is Role.WARP:
            return thread // WARP_SIZE, self._threads // WARP_SIZE
        return thread, self._threads

    def _steps(self, steps: Steps) -> int:
        bounds = self._accesses.intervals[steps.variable]
        return -(-(bounds.upper - bounds.lower + 1) // steps.lanes)

    def _rounds(self, steps: Steps) -> int:
        """How many steps one thread does."""
        if steps.role is Role.BLOCK:
            return 1
        count = self._steps(steps)
        return -(-count // self._who(steps.role)[1]) if steps.role in _THREAD_ROLES else count

    def _bind(self, steps: Steps, axis: int, rounds: int, axes: int, lanes: int) -> None:
        """Gives a variable its values: for each thread, each round, and each of the lanes of a vector."""
        count = self._steps(steps)
        if steps.role is Role.BLOCK:
            number = np.full((1,) * (axes + 2), min(self._block, count - 1), np.int64)
        else:
            shape = [1] * (axes + 2)
            shape[1 + axis] = rounds
            number = np.arange(rounds, dtype=np.int64).reshape(shape)
            if steps.role in _THREAD_ROLES:
                own, others = self._who(steps.role)
                number = number * others + own.reshape(-1, *(1,) * (axes + 1))
            self._valid = self._valid & (number < count)
        element = np.arange(lanes, dtype=np.int64).reshape(*(1,) * (axes + 1), -1)
        self._values[steps.variable] = self._accesses.intervals[steps.variable].lower + number * steps.lanes + element


def sectors_of(places: Array, element_bytes: int) -> Array:
    """Returns the distinct sectors behind some places."""
    found = places[places >= 0]
    first = found * element_bytes // SECTOR_BYTES
    last = (found * element_bytes + element_bytes - 1) // SECTOR_BYTES
    return np.unique(first) if element_bytes <= SECTOR_BYTES else np.unique(np.concatenate([first, last]))


def request_sectors(places: Array, element_bytes: int) -> tuple[float, float]:
    """Returns the sectors that requests of warps touch, and as few as would hold what they ask for, on average."""
    requests = _requests(places)
    if not requests.size:
        return 0.0, 0.0
    sectors = _distinct(np.where(requests < 0, -1, requests * element_bytes // SECTOR_BYTES))
    wanted = -(-_distinct(requests) * element_bytes // SECTOR_BYTES)
    return float(sectors.mean()), float(wanted.mean())


def bank_conflicts(places: Array, element_bytes: int) -> int:
    """Returns how often the worst request to shared memory must wait: one less than its words in one bank.

    Wide elements are served by halves or quarters of a warp at a time.
    """
    warps, steps, lanes, elements = places.shape
    per_thread = max(1, elements * element_bytes // BANK_BYTES)
    together = max(1, lanes // per_thread)
    groups = places.reshape(warps * steps * (lanes // together), together * elements)
    words = np.where(groups < 0, -1, groups * element_bytes // BANK_BYTES)
    worst = 1
    for request in words:
        distinct = np.unique(request[request >= 0])
        if distinct.size:
            worst = max(worst, int(np.bincount(distinct % NUM_BANKS).max()))
    return worst - 1


def _requests(places: Array) -> Array:
    """One row for each request that touches anything: the places of all its lanes."""
    warps, steps, lanes, elements = places.shape
    rows = places.reshape(warps * steps, lanes * elements)
    return rows[(rows >= 0).any(axis=1)]


def _distinct(rows: Array) -> Array:
    """The number of distinct values, -1 left out, of each row."""
    ordered = np.sort(rows, axis=1)
    first = np.ones_like(ordered, bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return (first & (ordered >= 0)).sum(axis=1)
