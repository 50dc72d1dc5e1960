"""Which values are the same on all devices of a kind: on every replica, or on every partition.

A forward analysis over the whole module, one fact per leaf. It starts with everything the same and takes back what it
cannot prove, until nothing more changes; so what a loop carries is the same if it was so before and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo import attributes as at
from xjit.hlo.cached_property import cached_property
from xjit.hlo.diagnostics import HloError
from xjit.hlo.types.shape import ShapeIndex
from xjit.ops.replica_groups import GLOBAL_ID_OPCODES, named_counts, participants
from xjit.passes.analysis.forwarding import forwarded_leaves, forwards

Facts = tuple[bool, ...]
"""One per leaf of a shape, in order: whether it is the same on all devices of the kind."""


class Across(Enum):
    """Which devices are compared: the replicas of each partition, or the partitions of each replica."""

    REPLICAS = "replicas"
    PARTITIONS = "partitions"


class HloReplicationAnalysis:
    """What is known of a module, across replicas or across partitions.

    `replicas` and `partitions` are how many there are; 0 takes them from the header and from the groups of collectives.
    """

    def __init__(
        self, module: HloModule, across: Across = Across.REPLICAS, replicas: int = 0, partitions: int = 0
    ) -> None:
        self._across = across
        named = named_counts(module, devices_are_partitions=across is Across.PARTITIONS)
        self._replicas, self._partitions = replicas or named[0], partitions or named[1]
        self._facts: dict[HloInstruction, Facts] = {}
        self._parameters: dict[HloComputation, list[Facts]] = {}
        self._everyone: dict[Hashable, bool] = {}
        order = module.make_computation_post_order()
        self._changed = (self._replicas if across is Across.REPLICAS else self._partitions) > 1
        while self._changed:
            self._changed = False
            for computation in reversed(order):  # callers first: they say what parameters are
                for instruction in computation.make_instruction_post_order():
                    self._visit(instruction)

    def is_replicated_at(self, instruction: HloInstruction, index: ShapeIndex = ()) -> bool:
        """Whether every leaf at or below an index is the same on all devices of the kind."""
        leaves = zip(instruction.shape.leaves(), self.facts(instruction), strict=True)
        return all(same for (leaf, _), same in leaves if leaf[: len(index)] == index)

    def facts(self, instruction: HloInstruction) -> Facts:
        """Returns what is known so far of the leaves of an instruction (for the rules)."""
        known = self._facts.get(instruction)
        return known if known is not None else (True,) * instruction.shape.leaf_count

    def differs(self, instruction: HloInstruction) -> bool:
        """Whether replica-id or partition-id is different on the devices that are compared (for the rules)."""
        return instruction.opcode == ("replica-id" if self._across is Across.REPLICAS else "partition-id")

    def joins_everyone(self, collective: HloInstruction) -> bool:
        """Whether the devices that are compared all belong to one group of a collective (for the rules)."""
        a = collective.attributes_as(at.CollectiveAttributes)
        ids = (a.channel_id is None, a.use_global_device_ids, collective.opcode in GLOBAL_ID_OPCODES)
        key = (a.replica_groups, *ids)
        known = self._everyone.get(key)
        if known is None:
            known = self._everyone[key] = self._joins_everyone(collective)
        return known

    def entry_facts(self, parameter: HloInstruction) -> Facts:
        """Returns what the module says of an entry parameter (for the rules)."""
        count = parameter.shape.leaf_count
        if self._across is Across.REPLICAS:
            flags = parameter.attributes_as(at.ParameterAttributes).parameter_replication
            return flags if len(flags) == count else (False,) * count
        sharding = parameter.sharding
        parts = () if sharding is None else sharding.elements or (sharding,) * count
        return tuple(p.text == "replicated" for p in parts) if len(parts) == count else (False,) * count

    def passed_to(self, parameter: HloInstruction) -> Facts:
        """Returns what all callers pass to a parameter of a called computation (for the rules)."""
        assert parameter.parent is not None
        number = parameter.attributes_as(at.ParameterAttributes).parameter_number
        passed = self._parameters.get(parameter.parent)
        return passed[number] if passed is not None else (True,) * parameter.shape.leaf_count

    def _joins_everyone(self, collective: HloInstruction) -> bool:
        replicas, partitions = self._replicas, self._partitions
        try:
            groups = [set(participants(collective, d, replicas, partitions)) for d in range(replicas * partitions)]
        except HloError:
            return False
        if self._across is Across.REPLICAS:
            families = [range(p, replicas * partitions, partitions) for p in range(partitions)]
        else:
            families = [range(r * partitions, (r + 1) * partitions) for r in range(replicas)]
        return all(groups[family[0]].issuperset(family) for family in families)

    def _visit(self, instruction: HloInstruction) -> None:
        old = self.facts(instruction)
        new = tuple(a and b for a, b in zip(old, self._evaluate(instruction), strict=True))
        if new != old or instruction not in self._facts:
            self._changed = self._changed or new != old
            self._facts[instruction] = new
        if instruction.op.called:
            self._bind(instruction)

    def _evaluate(self, instruction: HloInstruction) -> Facts:
        rule = _RULES.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction)
        if forwards(instruction):
            return forwarded_leaves(instruction, self.facts)
        same = not (instruction.op.may_have_side_effect or instruction.op.has(Trait.ASYNC))
        same = same and all(all(self.facts(o)) for o in instruction.operands)
        same = same and all(all(self.facts(c.root_instruction)) for c in instruction.called_computations)
        return (same,) * instruction.shape.leaf_count

    def _bind(self, caller: HloInstruction) -> None:
        """Tells the parameters of what an instruction calls what it passes to them."""
        for number, callee in enumerate(caller.called_computations):
            for parameter, facts in zip(callee.parameter_instructions, self._passed(caller, number, callee)):
                self._lower(parameter, facts)

    def _passed(self, caller: HloInstruction, number: int, callee: HloComputation) -> Iterable[Facts]:
        if caller.opcode == "while":
            return [self.facts(caller)]
        if caller.opcode == "conditional":
            return [self.facts(caller.operand(number + 1))]
        if caller.opcode in ("call", "fusion", "async-start"):
            return [self.facts(o) for o in caller.operands]
        same = all(all(self.facts(o)) for o in caller.operands)
        return [(same,) * p.shape.leaf_count for p in callee.parameter_instructions]

    def _lower(self, parameter: HloInstruction, facts: Facts) -> None:
        assert parameter.parent is not None
        known = self._parameters.setdefault(
            parameter.parent, [(True,) * p.shape.leaf_count for p in parameter.parent.parameter_instructions]
        )
        number = parameter.attributes_as(at.ParameterAttributes).parameter_number
        lowered = tuple(a and b for a, b in zip(known[number], facts, strict=True))
        if lowered != known[number]:
            known[number] = lowered
            self._changed = True


Rule = Callable[[HloReplicationAnalysis, HloInstruction], Facts]


def _parameter(analysis: HloReplicationAnalysis, parameter: HloInstruction) -> Facts:
    assert parameter.parent is not None
    if parameter.parent.is_entry_computation():
        return analysis.entry_facts(parameter)
    return analysis.passed_to(parameter)


def _device_id(analysis: HloReplicationAnalysis, instruction: HloInstruction) -> Facts:
    return (not analysis.differs(instruction),)


def _never(_: HloReplicationAnalysis, instruction: HloInstruction) -> Facts:
    return (False,) * instruction.shape.leaf_count


def _called(analysis: HloReplicationAnalysis, instruction: HloInstruction) -> Facts:
    return analysis.facts(instruction.to_apply.root_instruction)


def _while(analysis: HloReplicationAnalysis, loop: HloInstruction) -> Facts:
    if not all(analysis.facts(loop.while_condition.root_instruction)):
        return (False,) * loop.shape.leaf_count
    ends = zip(analysis.facts(loop.while_init), analysis.facts(loop.while_body.root_instruction), strict=True)
    return tuple(start and end for start, end in ends)


def _conditional(analysis: HloReplicationAnalysis, conditional: HloInstruction) -> Facts:
    if not all(analysis.facts(conditional.operand(0))):
        return (False,) * conditional.shape.leaf_count
    branches = [analysis.facts(c.root_instruction) for c in conditional.called_computations]
    return tuple(all(leaf) for leaf in zip(*branches, strict=True))


def _gathered(analysis: HloReplicationAnalysis, collective: HloInstruction) -> Facts:
    """What a collective gives to all members of a group alike."""
    return (analysis.joins_everyone(collective),) * collective.shape.leaf_count


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "parameter": _parameter,
        "replica-id": _device_id,
        "partition-id": _device_id,
        "call": _called,
        "fusion": _called,
        "while": _while,
        "conditional": _conditional,
        "all-reduce": _gathered,
        "all-reduce-start": _gathered,
        "all-gather": _gathered,
        "collective-broadcast": _gathered,
        "custom-call": _never,
        "reduce-scatter": _never,
        "all-to-all": _never,
        "ragged-all-to-all": _never,
        "collective-permute": _never,
    }
)


class HloReplication:
    """The analyses of a module, each made when it is first asked for."""

    def __init__(self, module: HloModule) -> None:
        self._module = module

    @classmethod
    def of(cls, module: HloModule) -> HloReplication:
        """Returns the analyses of a module as it is now."""
        return cls(module)

    @cached_property
    def across_replicas(self) -> HloReplicationAnalysis:
        """What is the same on all replicas."""
        return HloReplicationAnalysis(self._module, Across.REPLICAS)

    @cached_property
    def across_partitions(self) -> HloReplicationAnalysis:
        """What is the same on all partitions."""
        return HloReplicationAnalysis(self._module, Across.PARTITIONS)
