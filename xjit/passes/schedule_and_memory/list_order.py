"""The greedy order: always the ready instruction that frees most bytes, with a look at what it makes ready."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence

_STEPS_AHEAD = 4
"""How far a chain is followed from an instruction that takes memory to one that frees more."""


class ListOrder:
    """Node i runs after `needs[i]`, defines `size[i]` bytes, and frees a source once the last of its readers has run.

    `sources[i]` are the nodes whose bytes i reads, `readers[s]` counts who reads those of s.
    """

    def __init__(
        self,
        needs: Sequence[Sequence[int]],
        sources: Sequence[Sequence[int]],
        readers: Sequence[int],
        size: Sequence[int],
    ) -> None:
        self._sources, self._size = sources, size
        self._left = list(readers)
        self._waiting = [len(n) for n in needs]
        self._dependents: list[list[int]] = [[] for _ in needs]
        for i, needed in enumerate(needs):
            for n in needed:
                self._dependents[n].append(i)
        self._readers_of: list[list[int]] = [[] for _ in needs]
        for i, read in enumerate(sources):
            for s in read:
                self._readers_of[s].append(i)

    def run(self) -> list[int]:
        """Returns the order. It can be asked for once."""
        heap = [(self._cost(i), i) for i, count in enumerate(self._waiting) if count == 0]
        heapq.heapify(heap)
        order: list[int] = []
        done = [False] * len(self._waiting)
        while heap:
            _, i = heapq.heappop(heap)
            if done[i]:
                continue
            done[i] = True
            order.append(i)
            for s in self._sources[i]:
                self._left[s] -= 1
                if self._left[s] == 1:  # its last reader frees it
                    ready = (r for r in self._readers_of[s] if not done[r] and self._waiting[r] == 0)
                    for reader in ready:
                        heapq.heappush(heap, (self._cost(reader), reader))
            for d in self._dependents[i]:
                self._waiting[d] -= 1
                if self._waiting[d] == 0:
                    heapq.heappush(heap, (self._cost(d), d))
        return order

    def _cost(self, i: int) -> int:
        """The bytes that an instruction adds, or those of the chain that it alone makes ready, where these are fewer:
        a large intermediate result is no reason to put off what ends in a small one.
        """
        left, sources, size = self._left, self._sources, self._size
        freed = 0
        for s in sources[i]:
            if left[s] == 1:
                freed += size[s]
        net = least = size[i] - freed
        if net <= 0:
            return net
        read: Counter[int] = Counter()
        for _ in range(_STEPS_AHEAD):
            following = self._dependents[i]
            if len(following) != 1 or self._waiting[following[0]] != 1:
                break
            read.update(sources[i])
            i = following[0]
            net += size[i] - sum(size[s] for s in sources[i] if left[s] - read[s] == 1)
            least = min(least, net)
            if net <= 0:
                break
        return least
