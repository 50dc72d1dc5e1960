"""A sequence of instructions that grows, and knows where each of them stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from xjit.hlo import HloInstruction


class GrowingOrder:
    """Instructions in order. An insertion renumbers what is behind it in one step over an array."""

    def __init__(self, instructions: Iterable[HloInstruction]) -> None:
        self.instructions = list(instructions)
        self._number = {instruction: n for n, instruction in enumerate(self.instructions)}  # as they came
        self._positions = np.arange(len(self.instructions))  # by that number

    def position(self, instruction: HloInstruction) -> int:
        """Returns where an instruction stands."""
        return int(self._positions[self._number[instruction]])

    def insert(self, place: int, new: Sequence[HloInstruction]) -> None:
        """Inserts instructions in front of the one at a place."""
        self.instructions[place:place] = new
        self._positions[self._positions >= place] += len(new)
        self._positions = np.append(self._positions, np.arange(place, place + len(new)))
        for instruction in new:
            self._number[instruction] = len(self._number)
