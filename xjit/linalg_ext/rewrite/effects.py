"""What operations do besides giving results: whether they may go, move or be shared."""

from __future__ import annotations

from xjit.linalg_ext.dialects.registry import definition_of
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import MemRefType, UnrankedMemRefType

__all__ = ["is_dead", "is_pure"]

_ONLY_READ = frozenset({"memref.load"})


def is_pure(op: Operation) -> bool:
    """Whether the operation, with all that is inside, only computes its results."""
    definition = definition_of(op.name)
    if definition is None:
        return False
    traits = definition.traits
    if "structured" in traits:
        if any(isinstance(v.type, MemRefType | UnrankedMemRefType) for v in op.operands):
            return False
    elif "pure" not in traits and "recursive" not in traits:
        return False
    return all(is_pure(inner) for region in op.regions for block in region.blocks for inner in block.operations)


def is_dead(op: Operation) -> bool:
    """Whether nothing is lost without the operation: nobody uses its results and it does nothing else."""
    if any(result.has_uses for result in op.results):
        return False
    definition = definition_of(op.name)
    if definition is None or "terminator" in definition.traits or not op.results:
        return False
    return op.name in _ONLY_READ or "allocates" in definition.traits or is_pure(op)
