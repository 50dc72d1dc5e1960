"""A graph of what must run before what, to which wishes are added as long as they make no cycle."""

from __future__ import annotations

from collections.abc import Sequence


class GrowingNeeds:
    """Node i needs `needs[i]`, all of lower numbers at first.

    Nodes keep ranks, higher than those of what they need (Pearce and Kelly's algorithm): an edge that agrees with them
    costs nothing, one that does not a look at what lies between. `budget` bounds the nodes looked at in all; after that
    only edges that agree are taken.
    """

    def __init__(self, needs: list[list[int]], budget: int) -> None:
        self.needs = needs
        self._needed_by: list[list[int]] = [[] for _ in needs]
        for node, needed in enumerate(needs):
            for n in needed:
                self._needed_by[n].append(node)
        self._known: dict[int, set[int]] = {}  # the needs of what has got more of them
        self._rank = list(range(len(needs)))
        self._budget = budget

    def add(self, first: int, then: int) -> None:
        """Makes `then` need `first`, unless that must run after it."""
        if self._rank[first] > self._rank[then] and not self._reorder(first, then):
            return
        known = self._known.get(then)
        if known is None:
            known = self._known[then] = set(self.needs[then])
        if first not in known:
            known.add(first)
            self.needs[then].append(first)
            self._needed_by[first].append(then)

    def _reorder(self, first: int, then: int) -> bool:
        """Gives `first`, and what it needs, lower ranks than `then`; False if it needs that, or a look is too dear."""
        rank = self._rank
        low, high = rank[then], rank[first]
        if self._budget <= 0:
            return False
        after = self._between(then, self._needed_by, low, high)
        before = self._between(first, self.needs, low, high)
        self._budget -= len(after) + len(before)
        if first in after:
            return False
        nodes = [*sorted(before, key=rank.__getitem__), *sorted(after, key=rank.__getitem__)]
        for node, new in zip(nodes, sorted(rank[n] for n in nodes), strict=True):
            rank[node] = new
        return True

    def _between(self, start: int, edges: Sequence[Sequence[int]], low: int, high: int) -> set[int]:
        """Returns what is reached from a node along edges without leaving a range of ranks."""
        seen, stack = {start}, [start]
        while stack:
            for node in edges[stack.pop()]:
                if node not in seen and low <= self._rank[node] <= high:
                    seen.add(node)
                    stack.append(node)
        return seen
