"""Gives the instructions of a region the sharding that the domains around it name."""

from __future__ import annotations

from xjit.hlo import HloInstruction, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.annotations.sharding import sharding_of_leaves
from xjit.passes.domains.domain_map import DomainComponent
from xjit.passes.domains.domain_metadata import common_sharding, sharding_of

Leaves = tuple[HloSharding | None, ...]
"""One per leaf of a shape."""


def normalize_sharding(component: DomainComponent, metadata: str) -> None:
    """Sets the sharding of every instruction that has none and whose users agree; the others are left without.

    A single sharding is for all instructions. That of a tuple goes from users to what they read; what leaves the region
    has that which its domain names, whatever else reads it.
    """
    sharding = common_sharding(sharding_of(metadata))
    if sharding is None:
        return
    if not sharding.elements:
        for instruction in component.instructions:
            if instruction.sharding is None:
                instruction.sharding = sharding_of_leaves(instruction.shape, sharding)
        return
    leaving = {d.operand(0) for d in component.exit_domains}
    for instruction in reversed(component.instructions):  # users first: once is enough
        if instruction.sharding is None:
            if instruction in leaving or not instruction.user_count:
                asked = [_leaf_shardings(sharding)]
            else:
                asked = [a for user in instruction.users for a in _asked_by(user, instruction)]
            instruction.sharding = _agreed(asked, instruction.shape)


def _agreed(asked: list[Leaves], shape: Shape) -> HloSharding | None:
    """The sharding of a shape of which users ask this; None if they differ, or don't ask for every leaf."""
    count = shape.leaf_count
    if not asked or any(len(leaves) != count for leaves in asked):
        return None
    merged: list[HloSharding] = []
    for number in range(count):
        wanted = {leaves[number] for leaves in asked} - {None}
        if len(wanted) != 1:
            return None
        merged += [w for w in wanted if w is not None]
    return HloSharding(elements=tuple(merged)) if shape.is_tuple else merged[0]


def _asked_by(user: HloInstruction, operand: HloInstruction) -> list[Leaves]:
    """What a user wants of the leaves of an operand, None where it does not care; once per place it is read at."""
    if user.sharding is None or user.opcode == "domain":
        return []
    count, wanted = operand.shape.leaf_count, _leaf_shardings(user.sharding)
    if len(wanted) == 1:
        wanted *= user.shape.leaf_count
    if user.opcode == "tuple":
        starts = [sum(o.shape.leaf_count for o in user.operands[:n]) for n in range(user.operand_count)]
        return [wanted[start : start + count] for start, o in zip(starts, user.operands, strict=True) if o is operand]
    if user.opcode == "get-tuple-element":
        index = user.attributes_as(at.GetTupleElementAttributes).index
        before = operand.shape.leaf_offsets[index]
        return [(None,) * before + wanted + (None,) * (count - before - len(wanted))]
    return [wanted[:1] * count] if len(set(wanted)) == 1 else []


def _leaf_shardings(sharding: HloSharding) -> Leaves:
    return sharding.elements or (sharding,)
