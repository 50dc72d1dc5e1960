"""Sums and maxima over all rows of what is computed from the same tiles: what a softmax's gradient knows of a column.

Each is at a level: those of level 0 are of what is computed from the tiles alone, others of what lower levels know.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.affine import dim
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.passes.analysis.attention.joint import JointProducts
from xjit.passes.analysis.attention.places import Place, Space
from xjit.passes.analysis.attention.products import is_elementwise
from xjit.passes.analysis.attention.softmax import is_reduction

OPCODES = frozenset(("add", "maximum"))


@dataclass(frozen=True, slots=True)
class Statistic:
    """A reduction of `reduced` by `opcode` over all rows; `place` is its result for a column."""

    place: Place
    reduced: Place
    opcode: str
    level: int


def find_statistics(joint: JointProducts, reduces: Collection[HloInstruction]) -> tuple[Statistic, ...] | None:
    """Returns what the scores need of some reduces, by levels; None if one is no statistic of columns."""
    finder = _Finder(joint, reduces)
    if any(finder.level_of(place) is None for place in joint.scores):
        return None
    return tuple(sorted(finder.found.values(), key=lambda s: s.level))


class _Finder:
    """The search; `found` are the statistics by their places."""

    def __init__(self, joint: JointProducts, reduces: Collection[HloInstruction]) -> None:
        self.space = Space(joint.sizes)
        self.row, self.column = joint.row, joint.column
        self.tiles = {tile.place for tile in joint.tiles}
        self.reduces = reduces
        self.found: dict[Place, Statistic] = {}
        self._levels: dict[Place, int | None] = {}

    def level_of(self, place: Place) -> int | None:
        """Returns the first level at which an element can be computed; None if it cannot."""
        if place not in self._levels:
            self._levels[place] = None
            self._levels[place] = self._compute(place)
        return self._levels[place]

    def _compute(self, place: Place) -> int | None:
        if place in self.tiles:
            return 0
        if place.instruction in self.reduces:
            statistic = self._statistic(place)
            if statistic is None:
                return None
            self.found[place] = statistic
            return statistic.level + 1
        if not is_elementwise(place.instruction):
            return 0  # it is in memory
        level = 0
        for number in range(place.instruction.operand_count):
            operand = self.space.operand(place, number)
            above = None if operand is None else self.level_of(operand)
            if above is None:
                return None
            level = max(level, above)
        return level

    def _statistic(self, place: Place) -> Statistic | None:
        """Returns what a reduction is of, if that is all rows of a column."""
        reduce = place.instruction
        if any(e.uses_dim(self.row) for e in place.index) or reduce.shape.element_type is not PrimitiveType.F32:
            return None
        if not any(e.uses_dim(self.column) for e in place.index):
            return None
        opcode = next((opcode for opcode in OPCODES if is_reduction(reduce, opcode)), None)
        if opcode is None:
            return None
        if self.space.ranges(place) != (self.space.sizes[self.row],):
            return None
        reduced = self.space.operand(place, 0, (dim(self.row),))
        level = None if reduced is None else self.level_of(reduced)
        return None if reduced is None or level is None else Statistic(place, reduced, opcode, level)
