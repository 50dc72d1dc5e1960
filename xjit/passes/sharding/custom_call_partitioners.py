"""Custom-calls that say themselves how they are partitioned: one function per target, registered by who knows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xjit.hlo import HloInstruction

if TYPE_CHECKING:
    from xjit.passes.sharding.spmd.builder import SpmdBuilder
    from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo

    CustomCallPartitioner = Callable[[HloInstruction, Sequence[PartitionedHlo], SpmdBuilder], list[PartitionedHlo]]
    """(call, arrays of its operands, builder) -> the arrays of its result, with whatever shardings they come in."""

_partitioners: dict[str, CustomCallPartitioner] = {}


def register_custom_call_partitioner(target: str, partitioner: CustomCallPartitioner) -> None:
    """Has the partitioner ask a function for the program of one device of custom-calls to a target."""
    _partitioners[target] = partitioner


def custom_call_partitioner(target: str) -> CustomCallPartitioner | None:
    """Returns the function that is registered for a target; None without one."""
    return _partitioners.get(target)
