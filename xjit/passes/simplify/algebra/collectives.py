"""Collectives of values that are known to be the same everywhere."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CollectiveAttributes
from xjit.hlo.diagnostics import Unsupported
from xjit.ops.replica_groups import expand_groups
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.reductions import operation
from xjit.passes.simplify.algebra.rule import AlgebraRule

MAX_GROUP = 64
"""Sums of more devices than that are left to them: the constant is added up in as many steps."""
_IDEMPOTENT = frozenset({"minimum", "maximum", "and", "or"})
_FOLDED = frozenset({"add", "multiply"})


def _filled_from_scalar(match: Match, into: Expansion) -> HloInstruction | None:
    """The result of moving an array with one value everywhere: that value everywhere."""
    root = match.root
    if root.operand_count != 1 or not root.shape.is_array:
        return None
    return into.like_source("broadcast", [match["c"]], match["array"].attributes)


def _group_size(all_reduce: HloInstruction) -> int | None:
    """Returns the number of devices in each group of an all-reduce; None if they differ or nothing says how many.

    No groups are one of all replicas; a module for one replica does not say how many.
    """
    attributes = all_reduce.attributes_as(CollectiveAttributes)
    if attributes.channel_id is not None and not attributes.use_global_device_ids:
        return None
    try:
        groups = expand_groups(all_reduce)
    except Unsupported:
        return None
    sizes = {len(group) for group in groups}
    module = all_reduce.parent.parent if all_reduce.parent is not None else None
    if not groups and attributes.channel_id is None and module is not None and module.config.replica_count > 1:
        return module.config.replica_count
    return sizes.pop() if len(sizes) == 1 else None


def _fold(match: Match, into: Expansion) -> HloInstruction | None:
    """The constant combined with itself, once for each further device, as the devices would do it."""
    root, c = match.root, match["c"]
    opcode, size = operation(root), _group_size(root)
    if size is None or root.operand_count != 1 or not root.shape.is_array:
        return None
    if opcode in _IDEMPOTENT:
        return into.like_source("broadcast", [c], match["array"].attributes)
    if opcode not in _FOLDED or not 1 <= size <= MAX_GROUP:
        return None
    total = c
    for _ in range(size - 1):
        total = into.make(opcode, total, c)
    if not root.shape.rank:
        return total
    return into.like_source("broadcast", [total], match["array"].attributes)


def _of_constant(opcodes: str) -> m.Pattern:
    scalar = m.op("constant", name="c").where(lambda c: not c.shape.rank)
    return m.op(opcodes, m.op("broadcast", scalar, name="array"))


COLLECTIVES = (
    AlgebraRule("N40", "all-gather, all-to-all of broadcast(c) = broadcast(c)", _of_constant("all-gather|all-to-all"),
                _filled_from_scalar),
    AlgebraRule("N41", "all-reduce, reduce-scatter of broadcast(c) = broadcast(c combined with itself)",
                _of_constant("all-reduce|reduce-scatter"), _fold),
)  # fmt: skip
