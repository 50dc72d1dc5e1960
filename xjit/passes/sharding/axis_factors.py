"""How Shardy passes shardings through an instruction: all its arrays agree on the axes of each factor at once.

Of each factor, its arrays agree on the axes that all have, and those of one array that the others may take. Each then
takes what does not split another of its dimensions: the factors of the largest arrays come first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.factor_rows import Dims, Factors
from xjit.passes.sharding.mesh_axes import Axes, MeshAxes
from xjit.passes.sharding.sharding_slots import DataFlowEdge, ShardingSlots, Slot
from xjit.passes.sharding.slot_uses import SlotUses

FIRST: Final = -1
"""The priority of the first round: only what is not used elsewhere is passed on."""


class Direction(Enum):
    """Which side's axes may become those of the other."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class _Array:
    """An operand or a result, the factors of its dimensions, and the axes of these."""

    slot: Slot
    dims: Dims
    axes: tuple[Axes, ...]

    def axes_of(self, factor: int) -> Axes:
        return self.axes[self.dims.index(factor)]

    @property
    def size(self) -> int:
        return math.prod(self.slot.shape.dimensions)


class AxisFactors:
    """The step of one instruction, for all arrays whose shardings are axes of the mesh."""

    def __init__(self, axes: MeshAxes, slots: ShardingSlots) -> None:
        self.axes = axes
        self.slots = slots
        self.uses = SlotUses(slots)

    def can_say(self, instruction: HloInstruction, row: Factors) -> bool:
        """Whether the shardings of all arrays that a row names are axes of the mesh."""
        return all(
            self.axes.of(slot.sharding, slot.shape.rank) is not None for slot, _ in self._named(instruction, row)
        )

    def _named(self, instruction: HloInstruction, row: Factors) -> Iterator[tuple[Slot, Dims]]:
        operands = [
            self.slots[o][0] if dims is not None else None for o, dims in zip(instruction.operands, row.operands)
        ]
        for slot, dims in zip((*operands, *self.slots[instruction]), (*row.operands, *row.results)):
            if slot is not None and dims is not None and slot.shape.is_array and len(dims) == slot.shape.rank:
                yield slot, dims

    def agree(self, instruction: HloInstruction, row: Factors, priority: int) -> bool:
        """Lets the arrays of an instruction agree; True if one got more axes. See `_direction` for `priority`."""
        results = {id(slot) for slot in self.slots[instruction]}
        arrays = [
            _Array(slot, dims, self.axes.of(slot.sharding, slot.shape.rank) or ())
            for slot, dims in self._named(instruction, row)
        ]
        before = [a for a in arrays if id(a.slot) not in results]
        after = [a for a in arrays if id(a.slot) in results]
        passed = {f for a in before for f in a.dims} & {f for a in after for f in a.dims} - row.changed
        agreed: dict[int, Axes] = {}
        for factor in sorted({f for a in arrays for f in a.dims if f != NO_FACTOR}):
            direction = self._direction(instruction, priority, is_passed=factor in passed)
            if direction is not Direction.NONE:
                agreed[factor] = _agreed(factor, before, after, direction)
        is_elementwise = instruction.op.has(Trait.ELEMENTWISE)
        order = self._by_preference([*before, *after], agreed, is_elementwise)
        changed = self._give(after, order, {})
        kept: dict[int, Axes] = {}  # operands that are combined elementwise get no axes that their result cannot have
        for array in after if is_elementwise else ():
            kept.update(zip(array.dims, self.axes.of(array.slot.sharding, array.slot.shape.rank) or ()))
        return changed | self._give(before, order, kept)

    def _direction(self, instruction: HloInstruction, priority: int, *, is_passed: bool) -> Direction:
        """Elementwise operations and transposes are passed first, then factors that both sides have, then all.

        Of all, the first are those whose operands have no other use.
        """
        opcode = instruction.opcode
        if priority > 1:
            return Direction.BACKWARD if opcode == "broadcast" and priority == 2 else Direction.BOTH
        if opcode in ("transpose", "copy") or instruction.op.has(Trait.ELEMENTWISE):
            return Direction.BOTH if priority > FIRST or not self.uses.is_shared(instruction) else Direction.BACKWARD
        if opcode == "dynamic-update-slice" and priority < 1 and not self.uses.is_shared(instruction):
            return Direction.FORWARD
        if opcode in ("dynamic-slice", "dynamic-update-slice") and priority == 0:
            return Direction.FORWARD
        if priority < 1 or not is_passed:
            return Direction.NONE
        return Direction.BACKWARD if opcode == "broadcast" else Direction.BOTH

    def can_say_along(self, edge: DataFlowEdge) -> bool:
        """Whether the shardings of an edge's arrays are axes of the mesh."""
        return all(self.axes.of(s.sharding, s.shape.rank) is not None for s in (*edge.sources, edge.target))

    def agree_along(self, edge: DataFlowEdge) -> None:
        """Lets what an array is on some paths agree with the array."""
        rank = edge.target.shape.rank
        *before, after = (
            _Array(slot, tuple(range(rank)), self.axes.of(slot.sharding, rank) or ())
            for slot in (*edge.sources, edge.target)
        )
        agreed = {factor: _agreed(factor, before, [after], Direction.BOTH) for factor in range(rank)}
        order = self._by_preference([*before, after], agreed, is_elementwise=False)
        self._give([after], order, {})
        self._give(before, order, {})

    def _by_preference(
        self, arrays: list[_Array], agreed: dict[int, Axes], is_elementwise: bool
    ) -> list[tuple[int, Axes]]:
        """The factors of the largest array that has all of the axes first, of elementwise operations the most split."""
        ranks: dict[int, tuple[int, int, int, int]] = {}
        for factor, axes in agreed.items():
            if not axes:
                continue
            sources = [
                (a.size, -number)
                for number, a in enumerate(arrays)
                if factor in a.dims and a.axes_of(factor)[: len(axes)] == axes
            ]
            size, number = max(sources, default=(0, 0))
            tiles = self.axes.count(axes) if is_elementwise else 0
            ranks[factor] = -size, -tiles, -number, factor
        return [(factor, agreed[factor]) for factor in sorted(ranks, key=ranks.__getitem__)]

    def _give(self, arrays: list[_Array], order: list[tuple[int, Axes]], limits: dict[int, Axes]) -> bool:
        """Gives arrays the axes of factors in order; of those that continue a factor's `limits`, these only."""
        changed = False
        for array in arrays:
            wanted = [
                (array.dims.index(f), limits[f] if f in limits and limits[f] == axes[: len(limits[f])] else axes)
                for f, axes in order
                if f in array.dims
            ]
            dimensions = self.axes.extended(array.slot, wanted)
            if dimensions is not None:
                self.axes.set_axes(array.slot, dimensions)
                changed = True
        return changed


def _agreed(factor: int, before: list[_Array], after: list[_Array], direction: Direction) -> Axes:
    """The axes of a factor that its arrays agree on: those of a side that may not say more only bound them."""
    first, second = (after, before) if direction is Direction.BACKWARD else (before, after)
    found: Axes = ()
    grows = True
    for side, may_grow in ((first, True), (second, direction is Direction.BOTH)):
        grows = grows and may_grow
        for axes in (a.axes_of(factor) for a in side if factor in a.dims):
            common = next((i for i, (a, b) in enumerate(zip(found, axes)) if a != b), min(len(found), len(axes)))
            if common < min(len(found), len(axes)):
                found, grows = found[:common], False
            elif grows and len(axes) > len(found):
                found = axes
    return found
