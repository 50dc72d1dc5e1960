"""The sharding of an instruction: setting it, and whether it survives a change of shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction


def has_sharding(instruction: HloInstruction) -> bool:
    """Whether there is a sharding."""
    return instruction.sharding is not None


def clear_sharding(instruction: HloInstruction) -> None:
    """Removes the sharding."""
    instruction.sharding = None


def set_single_sharding(instruction: HloInstruction, sharding: HloSharding) -> None:
    """Gives all leaves of the value one sharding; InvalidArgument if it is the sharding of a tuple."""
    if sharding.elements:
        raise InvalidArgument(f"{instruction.name}: {sharding} is the sharding of a tuple")
    leaves = sum(1 for _ in instruction.shape.leaves())
    instruction.sharding = HloSharding(elements=(sharding,) * leaves) if instruction.shape.is_tuple else sharding


def sharding_fits(sharding: HloSharding | None, old: Shape, new: Shape) -> bool:
    """Whether a sharding of an old shape says something about a new one: same tuple structure and ranks."""
    if sharding is None:
        return True
    before, after = list(old.leaves()), list(new.leaves())
    if [index for index, _ in before] != [index for index, _ in after]:
        return False
    return all(x.rank == y.rank for (_, x), (_, y) in zip(before, after)) or "devices=" not in str(sharding)
