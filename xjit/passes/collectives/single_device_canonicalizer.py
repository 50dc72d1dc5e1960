"""Removes what only means something on several devices or to an optimizer that xjit is not."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, Literal
from xjit.hlo import attributes as at
from xjit.ops.custom_call_targets import IDENTITY_TARGETS
from xjit.passes.framework import match as m
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.framework.rewriting import Rule, apply_rules, rule_table


@dataclass
class SingleDeviceCanonicalizer(HloModulePass):
    """Sharding annotations, domains and optimization barriers become their operand.

    With one replica and one partition `replica-id` and `partition-id` are 0. Collectives are collective-expander's.
    """

    name = "single-device-canonicalizer"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites, inside of fusions, too; True if something changed."""
        alone = module.config.replica_count * module.config.num_partitions == 1
        changed = False
        for computation in module.computations(execution_threads):
            changed |= apply_rules(computation, ON_ONE_DEVICE if alone else ANYWHERE)
        return changed


def _operand(match: Match, _into: Expansion) -> HloInstruction:
    return match.root.operand(0)


def _zero(match: Match, into: Expansion) -> HloInstruction:
    name = match.root.opcode.replace("-", "_")
    return into.add(HloInstruction.create_constant(Literal.from_array(np.uint32(0)), name=name))


def _keeps_shape(instruction: HloInstruction) -> bool:
    return instruction.operand_count == 1 and instruction.operand(0).shape.compatible(instruction.shape)


def _is_annotation(custom_call: HloInstruction) -> bool:
    return custom_call.attributes_as(at.CustomCallAttributes).custom_call_target in IDENTITY_TARGETS and _keeps_shape(
        custom_call
    )


_ANNOTATIONS = (
    Rule("opt-barrier(x) = x, domain(x) = x", m.op("opt-barrier|domain"), _operand),
    Rule("custom-call(x) to a target that annotates = x", m.op("custom-call").where(_is_annotation), _operand),
)
_IDS = (Rule("replica-id() = 0, partition-id() = 0", m.op("replica-id|partition-id"), _zero),)
ANYWHERE = rule_table(_ANNOTATIONS)
ON_ONE_DEVICE = rule_table(_ANNOTATIONS, _IDS)
