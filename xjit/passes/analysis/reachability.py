"""Which instructions of a computation must run before which others: along operands and control edges.

One set of bits per instruction, so that questions cost nothing; building them takes time and memory in the square of
the instructions, divided by 64: 20,000 instructions take some hundredths of a second. A pass that changes the graph
tells the map with `update_through`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.ir.post_order import needs_of


class HloReachabilityMap:
    """The dependences of one computation. An instruction reaches itself, and what must run after it."""

    def __init__(self, computation: HloComputation) -> None:
        self._numbers: dict[HloInstruction, int] = {}
        self._before: list[int] = []  # by number: the bits of all that must run before, and its own
        for instruction in computation.make_instruction_post_order():
            self._add(instruction)

    def is_reachable(self, start: HloInstruction, end: HloInstruction) -> bool:
        """Whether `end` is `start` or must run after it. KeyError for what is not in the map."""
        return bool(self._before[self._numbers[end]] >> self._numbers[start] & 1)

    def is_connected(self, a: HloInstruction, b: HloInstruction) -> bool:
        """Whether one of two instructions must run after the other."""
        return self.is_reachable(a, b) or self.is_reachable(b, a)

    def reaches_any(self, start: HloInstruction, ends: Iterable[HloInstruction]) -> bool:
        """Whether any of `ends` is `start` or must run after it."""
        return any(self.is_reachable(start, end) for end in ends)

    def __contains__(self, instruction: HloInstruction) -> bool:
        return instruction in self._numbers

    def update_through(self, instruction: HloInstruction) -> None:
        """Takes in a new instruction, or one whose operands or control edges have changed, and what follows from it."""
        if instruction not in self._numbers:
            self._add(instruction)
            changed = deque(_dependents(instruction))
        else:
            changed = deque([instruction])
        while changed:
            item = changed.popleft()
            number = self._numbers.get(item)
            if number is None:
                continue  # new as well: its own update is still to come
            bits = self._bits(item, number)
            if bits != self._before[number]:
                self._before[number] = bits
                changed.extend(_dependents(item))

    def _add(self, instruction: HloInstruction) -> None:
        number = self._numbers[instruction] = len(self._before)
        self._before.append(0)
        self._before[number] = self._bits(instruction, number)

    def _bits(self, instruction: HloInstruction, number: int) -> int:
        bits = 1 << number
        for needed in needs_of(instruction):
            if (known := self._numbers.get(needed)) is not None:  # else it is new as well
                bits |= self._before[known]
        return bits


def _dependents(instruction: HloInstruction) -> tuple[HloInstruction, ...]:
    return (*instruction.users, *instruction.control_successors)


class HloReachability:
    """The maps of a module's computations, each made when it is first asked for.

    Who changes a computation may go on with its map if it updates it: nobody else gets that map any more.
    """

    def __init__(self) -> None:
        self._maps: dict[HloComputation, HloReachabilityMap] = {}

    @classmethod
    def of(cls, module: HloModule) -> HloReachability:
        """Returns the maps of a module as it is now."""
        del module
        return cls()

    def map(self, computation: HloComputation) -> HloReachabilityMap:
        """Returns the map of one computation."""
        known = self._maps.get(computation)
        if known is None:
            known = self._maps[computation] = HloReachabilityMap(computation)
        return known
