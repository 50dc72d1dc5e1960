"""Collectives whose result one device can tell by itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, PrimitiveType
from xjit.hlo.diagnostics import Unsupported
from xjit.ops import build
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.ops.replica_groups import device_groups, expand_groups, named_counts
from xjit.passes.analysis.replication import Across, HloReplication, HloReplicationAnalysis
from xjit.passes.framework import analyses
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table

_IDEMPOTENT = frozenset({"minimum", "maximum", "and", "or"})


@dataclass
class AllReduceSimplifier(HloModulePass):
    """An all-reduce of values that are equal on all replicas needs none of the others.

    A sum is a multiplication by the number of summands, a minimum or maximum is the operand. A collective in groups of
    one, or whose shape shows that, is its operand. An all-reduce of a tuple is left, and one with a channel unless its
    groups are of one device and the module has partitions: else a channel may join modules.
    `replica_count` is the number of replicas; 0 takes it from the module.
    """

    name = "all-reduce-simplifier"
    replica_count: int = 0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Simplifies in every computation; True if something changed."""
        count = self.replica_count
        if count:
            replication = HloReplicationAnalysis(module, Across.REPLICAS, replicas=count)
        else:
            count, replication = named_counts(module)[0], analyses.get(HloReplication, module).across_replicas
        rules = rule_table(_KEEPS_SHAPE, [_alone(count), _replicated(module, replication, count)])
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= apply_rules(computation, rules, in_async=True)
        return changed


def _operand(match: Match, _into: Expansion) -> HloInstruction:
    return match.root.operand(0)


def _keeps_shape(instruction: HloInstruction) -> bool:
    return instruction.operand_count == 1 and instruction.operand(0).shape == instruction.shape


def _group_size(all_reduce: HloInstruction, replicas: int) -> int | None:
    """Returns the number of replicas in each group of an all-reduce without a channel; None if they differ."""
    try:
        sizes = {len(group) for group in expand_groups(all_reduce)} or {replicas}
    except Unsupported:
        return None
    return sizes.pop() if len(sizes) == 1 else None


def _is_of_array(all_reduce: HloInstruction) -> bool:
    return all_reduce.shape.is_array and all_reduce.operand_count == 1


def _may_simplify(all_reduce: HloInstruction) -> bool:
    return _is_of_array(all_reduce) and all_reduce.channel_id is None


def _alone(replicas: int) -> Rule:
    def rewrite(match: Match, _into: Expansion) -> HloInstruction | None:
        all_reduce = match.root
        if all_reduce.channel_id is None:
            alone = _group_size(all_reduce, replicas) == 1
        else:
            alone = _is_alone_among_partitions(all_reduce)
        return all_reduce.operand(0) if alone else None

    return Rule("all-reduce(x) in groups of one = x", m.op("all-reduce").where(_is_of_array), rewrite)


def _is_alone_among_partitions(all_reduce: HloInstruction) -> bool:
    module = all_reduce.module
    if module is None or module.config.num_partitions == 1:
        return False
    try:
        return all(len(group) == 1 for group in device_groups(all_reduce))
    except Unsupported:
        return False


def _replicated(module: HloModule, replication: HloReplicationAnalysis, replicas: int) -> Rule:
    """The rule that asks an analysis. It was asked before: what is made meanwhile is the same on all replicas, too."""
    same = {i for c in module.computations() for i in c.instructions if replication.is_replicated_at(i)}

    def rewrite(match: Match, into: Expansion) -> HloInstruction | None:
        all_reduce, x = match.root, match.root.operand(0)
        size = _group_size(all_reduce, replicas)
        if size is None or x not in same:
            return None
        opcode = simple_opcode(all_reduce.to_apply)
        if opcode in _IDEMPOTENT:
            return x
        if opcode != "add" or x.shape.element_type is PrimitiveType.PRED:
            return None
        count = into.add(build.convert(into.add(build.make_constant(size, PrimitiveType.S32)), x.shape.element_type))
        factor = into.add(build.broadcast_scalar(count, x.shape)) if x.shape.rank else count
        product = into.make("multiply", x, factor)
        same.add(product)
        return product

    return Rule("all-reduce(x) of equal x = x * group size, or x", m.op("all-reduce").where(_may_simplify), rewrite)


_KEEPS_SHAPE = (
    Rule(
        "all-gather(x), reduce-scatter(x) of the shape of x = x",
        m.op("all-gather|reduce-scatter").where(_keeps_shape),
        _operand,
    ),
)
