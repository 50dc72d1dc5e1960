"""Regions that are manual on some axes of a mesh: devices along these have arrays of their own, the others share them.

Such a region is a call that names its axes. Its arrays are whole along the others, until axes pass over its edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.mesh_axes import Axes, MeshAxes
from xjit.passes.sharding.sharding_slots import ShardingSlots, Slot

MANUAL_AXES: Final = "xjit.manual_axes"
"""The frontend attribute of a region's call: its axes, and those of the regions around it, by comma."""

MANUAL_PART: Final = "xjit.manual_part"
"""The frontend attribute of a step over an edge: the sharding outside by the region's own axes alone."""

TO_REGION: Final = "SPMDFullToShardShape"
"""The target of the custom-call that steps into a region."""


def begin_regions(slots: ShardingSlots, axes: MeshAxes) -> None:
    """Has all arrays of regions begin whole along the axes that these leave to the compiler."""
    calls = [i for i in slots.slots if i.opcode == "call" and MANUAL_AXES in i.frontend_attributes]
    named = {call: call.frontend_attributes[MANUAL_AXES].split(",") for call in calls}
    begun: set[Slot] = set()
    for call in sorted(calls, key=lambda call: len(named[call])):  # regions within others name more
        manual = axes.named(named[call])
        for instruction in _instructions_of(call):
            for slot in slots[instruction] if instruction in slots.slots else ():
                if slot.shape.is_array and (slot.sharding is None or slot in begun):
                    slot.sharding = axes.sharding([()] * slot.shape.rank, manual)
                    begun.add(slot)


def _instructions_of(call: HloInstruction) -> Iterator[HloInstruction]:
    """A region's call, the elements of its result, and all that runs in it."""
    yield call
    yield from (user for user in call.users if user.opcode == "get-tuple-element")
    for computation in computations_of(call, of_control_flow=True):
        yield from computation.instructions


def computations_of(call: HloInstruction, *, of_control_flow: bool = False) -> Iterator[HloComputation]:
    """The computations that an instruction runs, and those that they run, in kernels, too; or those of control flow."""
    pending, seen = list(call.called_computations), set[HloComputation]()
    while pending:
        computation = pending.pop()
        if computation not in seen:
            seen.add(computation)
            yield computation
            callers = [i for i in computation.instructions if not of_control_flow or i.op.has(Trait.CONTROL_FLOW)]
            pending += [c for i in callers for c in i.called_computations]


def pass_free_axes(axes: MeshAxes, outside: Slot, inside: Slot) -> bool:
    """Passes the axes that a region does not have over its edge, both ways; True if an array got more of them.

    Outside, those of the region come first. Only tiles of one size are the same on both sides.
    """
    manual, around = axes.manual(inside.sharding), axes.manual(outside.sharding)
    before, after = (axes.of(slot.sharding, slot.shape.rank) for slot in (outside, inside))
    if manual is None or around is None or before is None or after is None:
        return False
    own = [tuple(a for a in split if a in manual and a not in around) for split in before]
    into = [_even(axes, inside, d, split[len(own[d]) :]) for d, split in enumerate(before)]
    out = [own[d] + _even(axes, inside, d, split) for d, split in enumerate(after)]
    changed = False
    for slot, wanted in ((inside, into), (outside, out)):
        dimensions = axes.extended(slot, list(enumerate(wanted)))
        if dimensions is not None:
            axes.set_axes(slot, dimensions)
            changed = True
    return changed


def _even(axes: MeshAxes, inside: Slot, dimension: int, split: Axes) -> Axes:
    while inside.shape.dimensions[dimension] % axes.count(split):
        split = split[:-1]
    return split
