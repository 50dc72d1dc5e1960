"""Where Shardy passes a sharding on and XLA's propagation does not: rows beside those of `dimension_factors`.

The operations themselves need the whole dimension: the partitioner gathers it, and splits their results again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.passes.sharding.factor_rows import Factors


def _sort(instruction: HloInstruction) -> Factors:
    dims = tuple(range(instruction.operands[0].shape.rank))
    return Factors([dims] * instruction.operand_count, [dims] * instruction.operand_count)


def _fft(instruction: HloInstruction) -> Factors:
    sizes = zip(instruction.operand(0).shape.dimensions, instruction.shape.dimensions, strict=True)
    dims = tuple(d if before == after else NO_FACTOR for d, (before, after) in enumerate(sizes))
    return Factors([dims], [dims])


FACTORS: Final[Mapping[str, Callable[[HloInstruction], Factors]]] = {"sort": _sort, "fft": _fft}
"""By opcode."""
