"""Where Shardy passes a sharding on and XLA's propagation does not, or the other way: instead of `dimension_factors`.

Sorts and FFTs themselves need the whole dimension: the partitioner gathers it, and splits their results again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.hlo.attributes.algorithms import SortAttributes
from xjit.passes.sharding.collective_factors import COLLECTIVES, collective_factors
from xjit.passes.sharding.factor_rows import Factors


def _sort(instruction: HloInstruction) -> Factors:
    """The sorted dimension is passed on, too, if there is another that may take its axes meanwhile."""
    along = instruction.attributes_as(SortAttributes).sort_dimension
    sizes = instruction.operands[0].shape.dimensions
    has_others = any(size > 1 for d, size in enumerate(sizes) if d != along)
    dims = tuple(d if d != along or has_others else NO_FACTOR for d in range(len(sizes)))
    return Factors([dims] * instruction.operand_count, [dims] * instruction.operand_count)


def _fft(instruction: HloInstruction) -> Factors:
    sizes = zip(instruction.operand(0).shape.dimensions, instruction.shape.dimensions, strict=True)
    dims = tuple(d if before == after else NO_FACTOR for d, (before, after) in enumerate(sizes))
    return Factors([dims], [dims])


def _dynamic_update_slice(instruction: HloInstruction) -> Factors:
    """What a dimension is a part of has no say in how that is split."""
    sizes = zip(instruction.shape.dimensions, instruction.operand(1).shape.dimensions, strict=True)
    update = tuple(d if size == part else NO_FACTOR for d, (size, part) in enumerate(sizes))
    dims = tuple(range(len(update)))
    return Factors([dims, update, *(None for _ in instruction.operands[2:])], [dims])


FACTORS: Final[Mapping[str, Callable[[HloInstruction], Factors]]] = {
    **dict.fromkeys(COLLECTIVES, collective_factors),
    "sort": _sort,
    "fft": _fft,
    "dynamic-update-slice": _dynamic_update_slice,
}
"""By opcode."""
