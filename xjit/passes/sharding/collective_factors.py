"""Which dimensions collectives leave alone: over manual axes of a region that leaves others to the compiler."""

from __future__ import annotations

from typing import Final

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.sharding_algebra import NO_FACTOR
from xjit.passes.sharding.factor_rows import Factors

COLLECTIVES: Final = frozenset(
    {"all-gather", "all-to-all", "collective-broadcast", "collective-permute", "reduce-scatter"}
)


def collective_factors(instruction: HloInstruction) -> Factors:
    """Returns the row of a collective: all dimensions but those it gathers, scatters or exchanges tiles along."""
    moved = instruction.attributes_as(at.CollectiveAttributes).dimensions if _has_dimensions(instruction) else ()
    ranks = [shape.rank for _, shape in instruction.shape.leaves()]
    rows = [tuple(NO_FACTOR if d in moved else d for d in range(rank)) for rank in ranks]
    operands = [tuple(NO_FACTOR if d in moved else d for d in range(o.shape.rank)) for o in instruction.operands]
    return Factors(operands, rows, level=0)


def _has_dimensions(instruction: HloInstruction) -> bool:
    return instruction.opcode in ("all-gather", "all-to-all", "reduce-scatter")
