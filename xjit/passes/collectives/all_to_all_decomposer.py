"""all-to-all of the parts of one array as one of several arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.ops.replica_groups import expand_groups
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class AllToAllDecomposer(OpExpander):
    """Cuts an array along its split dimension, exchanges the slices as a tuple, and joins what arrives."""

    name = "all-to-all-decomposer"
    opcodes = frozenset({"all-to-all"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the joined array; None for an exchange of several arrays, or of a size that is not static."""
        a, operand = instruction.attributes_as(at.CollectiveAttributes), instruction.operand(0)
        if not a.dimensions or not instruction.shape.is_static_array:
            return None
        (axis,), count, sizes = a.dimensions, _group_size(instruction), operand.shape.dimensions
        slices: list[HloInstruction] = []
        for i in range(count):
            starts = [i * size // count if d == axis else 0 for d, size in enumerate(sizes)]
            limits = [(i + 1) * size // count if d == axis else size for d, size in enumerate(sizes)]
            slices.append(into.add(build.slice_(operand, starts, limits)))
        exchanged = into.make("all-to-all", *slices, attributes=replace(a, dimensions=()))
        return into.add(build.concatenate([into.element(exchanged, i) for i in range(count)], axis))


def _group_size(instruction: HloInstruction) -> int:
    """How many devices exchange their parts: a channel makes the ids of groups partitions."""
    groups, module = expand_groups(instruction), instruction.module
    assert module is not None
    if groups:
        return len(groups[0])
    has_channel = instruction.attributes_as(at.CollectiveAttributes).channel_id is not None
    return module.config.num_partitions if has_channel else module.config.replica_count
