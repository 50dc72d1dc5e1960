"""An all-reduce over the partitions of a replica, then one over replicas, as one over both.

In XLA's words the first is a cross-module all-reduce (it has a channel), the second a cross-replica one (it has none).
What lies between is linear in the value: the first is dropped, what is added meanwhile is divided by the number of
partitions, and the second gets the channel, so that it joins all partitions of its replicas.
"""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, PrimitiveType
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.ops.replica_groups import expand_groups
from xjit.passes.analysis.replication import Across, HloReplication, HloReplicationAnalysis
from xjit.passes.collectives.same_on_all_cores import SameValues
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

MIN_REPLICAS_PER_PARTITION = 8
"""From that ratio on, a sum over replicas of a value that partitions share is split over the partitions."""

_MOVES_DATA = frozenset({"bitcast", "transpose", "reshape"})
_LINEAR = frozenset({"add", "subtract", "multiply"})


@dataclass(frozen=True, slots=True)
class _Chain:
    """From an all-reduce over partitions through what reads it to one over replicas."""

    over_partitions: HloInstruction
    between: tuple[HloInstruction, ...]
    over_replicas: HloInstruction


@dataclass
class ArCrsCombiner(HloModulePass):
    """Combines all-reduces over partitions with those over replicas that follow.

    `num_spatial_partitions` is the number of partitions; 0 takes it from the module. With `spmd_partition` one program
    runs on all partitions, and everything between must be the same on all of them. Without, or where the all-reduces
    of one channel sit on several devices, each partition has instructions of its own, proven to compute one value.
    """

    num_spatial_partitions: int = 0
    spmd_partition: bool = True

    name = "ar-crs-combiner"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Combines; True if something changed."""
        channels: dict[int, list[HloInstruction]] = {}
        computations = selected_computations(module, execution_threads)
        reduces = [i for c in computations for i in c.instructions if i.opcode == "all-reduce"]
        for item in reduces:
            if item.channel_id is not None:
                channels.setdefault(item.channel_id, []).append(item)
        changed = False
        for chains in self._chosen(module, channels):
            partitions = self._partitions(chains[0].over_partitions, len(chains))
            for chain in chains:
                _combine(chain, partitions)
            changed = True
        return changed | self._share_sums(module, reduces)

    def _partitions(self, start: HloInstruction, members: int) -> int:
        """How many partitions an all-reduce sums over, that is one of so many with its channel."""
        module = start.module
        assert module is not None
        known = self.num_spatial_partitions or max(module.config.num_partitions, members)
        names_devices = start.attributes_as(at.CollectiveAttributes).use_global_device_ids
        if known == 1 and module.config.replica_count == 1 and names_devices:  # the header does not say how many
            return max((len(group) for group in expand_groups(start)), default=1)
        return known

    def _replication(self, module: HloModule) -> HloReplicationAnalysis:
        if self.num_spatial_partitions:
            return HloReplicationAnalysis(module, Across.PARTITIONS, partitions=self.num_spatial_partitions)
        return analyses.get(HloReplication, module).across_partitions

    def _chosen(self, module: HloModule, channels: dict[int, list[HloInstruction]]) -> list[list[_Chain]]:
        """Returns the chains of every channel whose rewriting is proven right; each all-reduce ends one of them."""
        by_channel: dict[int, list[_Chain]] = {}
        for channel, members in channels.items():
            found = [self._chain(m, channels) for m in members]
            if all(c is not None for c in found):
                by_channel[channel] = [c for c in found if c is not None]
        farthest: dict[HloInstruction, tuple[int, int]] = {}
        for channel, chains in by_channel.items():
            for chain in chains:
                known = farthest.get(chain.over_replicas)
                if known is None or known[0] < len(chain.between):
                    farthest[chain.over_replicas] = (len(chain.between), channel)
        return [
            chains
            for channel, chains in by_channel.items()
            if all(farthest[c.over_replicas][1] == channel for c in chains) and self._is_proven(module, chains)
        ]

    def _is_proven(self, module: HloModule, chains: list[_Chain]) -> bool:
        if len(chains) == 1 and self.spmd_partition:
            known = self._replication(module)
            return all(known.is_replicated_at(i) for i in chains[0].between)
        devices = {c.over_partitions.sharding for c in chains}
        if len(chains) < 2 or (self.spmd_partition and (None in devices or len(devices) < len(chains))):
            return False
        if len(chains) != self._partitions(chains[0].over_partitions, len(chains)):
            return False
        return all(_is_same_chain(chains[0], c) for c in chains[1:])

    def _chain(self, start: HloInstruction, channels: dict[int, list[HloInstruction]]) -> _Chain | None:
        """The chain that an all-reduce over the partitions of a replica begins, if nothing on it is in the way."""
        if not self._is_over_partitions(start, len(channels[start.channel_id or 0])) or start.is_root():
            return None
        between: list[HloInstruction] = []
        item = start
        while True:
            if item.user_count != 1 or item.is_root() or has_control_dependencies(item):
                return None
            value, item = item, item.users[0]
            if item.opcode == "all-reduce" and item.channel_id is None:
                break
            if not _may_move_past(value, item):
                return None
            between.append(item)
        if item.operand_count != 1 or not _is_sum(item) or _is_alone(item):
            return None
        return _Chain(start, tuple(between), item)

    def _is_over_partitions(self, item: HloInstruction, members: int) -> bool:
        """Whether an all-reduce sums, for each replica, over all of its partitions and nothing else."""
        if item.channel_id is None or item.operand_count != 1 or not item.shape.is_array or not _is_sum(item):
            return False
        module, groups = item.module, expand_groups(item)
        assert module is not None
        replicas = module.config.replica_count
        if not item.attributes_as(at.CollectiveAttributes).use_global_device_ids:
            named = {i for group in groups for i in group}
            return all(len(g) == 1 for g in groups) and (replicas == 1 or len(named) == replicas) and bool(groups)
        partitions = self._partitions(item, members)
        families = [{d // partitions for d in group} for group in groups]
        is_whole = all(len(set(g)) == len(g) == partitions for g in groups) and all(len(f) == 1 for f in families)
        return is_whole and (replicas == 1 or len(groups) == replicas)

    def _share_sums(self, module: HloModule, reduces: list[HloInstruction]) -> bool:
        """Sums over all replicas of what the partitions of each share become sums over all devices, divided by P."""
        partitions = self.num_spatial_partitions or module.config.num_partitions
        is_worth_it = module.config.replica_count >= MIN_REPLICAS_PER_PARTITION * partitions
        if not self.spmd_partition or partitions == 1 or not is_worth_it:
            return False
        known = self._replication(module)
        alike = [
            i for i in reduces if i.parent is not None and _is_shareable(i) and known.is_replicated_at(i.operand(0))
        ]
        channel = 1 + max((i.channel_id or 0 for c in module.computations() for i in c.instructions), default=0)
        for number, item in enumerate(alike):
            _share(item, channel + number, partitions)
        return bool(alike)


def _is_sum(all_reduce: HloInstruction) -> bool:
    reducer = all_reduce.to_apply
    return reducer.instruction_count == 3 and reducer.root_instruction.opcode == "add"


def _is_alone(all_reduce: HloInstruction) -> bool:
    return all(len(group) == 1 for group in expand_groups(all_reduce))


def _may_move_past(value: HloInstruction, user: HloInstruction) -> bool:
    """Whether a sum over partitions may as well be taken of what a user of it makes."""
    if user.opcode in _MOVES_DATA:
        return True
    kinds = (value.shape.element_type, user.shape.element_type)
    if user.opcode == "convert":
        if all(k.is_integer for k in kinds):
            return kinds[1].bit_width <= kinds[0].bit_width  # a sum that wrapped around is wide afterwards, too
        return all(k.is_float for k in kinds)
    if user.opcode == "multiply":
        return kinds[1].is_float and user.operands.count(value) == 1
    return user.opcode in _LINEAR and kinds[1].is_float


def _is_same_chain(a: _Chain, b: _Chain) -> bool:
    if len(a.between) != len(b.between):
        return False
    proof = SameValues()
    pairs = zip((*a.between, a.over_replicas), (*b.between, b.over_replicas), strict=True)
    return all(proof.same(x, y) for x, y in pairs)


def _combine(chain: _Chain, partitions: int) -> None:
    start, previous = chain.over_partitions, chain.over_partitions
    assert start.parent is not None
    for item in chain.between:
        if item.opcode in ("add", "subtract"):
            for other in item.unique_operands():
                if other is not previous:
                    _share_operand(item, other, start, partitions)
        previous = item
    source, channel = start.operand(0), start.channel_id
    if source.shape.element_type is not start.shape.element_type:
        source = start.parent.add_instruction(build.convert(source, start.shape.element_type))
    start.replace_all_uses_with(source)
    start.parent.remove_instruction(start)
    chain.over_replicas.update_attributes(channel_id=channel)


def _share_operand(item: HloInstruction, other: HloInstruction, start: HloInstruction, partitions: int) -> None:
    """Makes what is added on the way such that its sum over partitions is what it was."""
    assert item.parent is not None
    alike = other.opcode == "all-reduce" and other.channel_id is not None and _alike_groups(other, start)
    if alike and _is_sum(other) and other.user_count == 1 and not has_control_dependencies(other):
        source = other.operand(0)
        if source.shape.element_type is not other.shape.element_type:
            source = item.parent.add_instruction(build.convert(source, other.shape.element_type))
        other.replace_use_with(item, source)
        item.parent.remove_instruction(other)
        return
    into = Expansion(item)
    quotient = into.add(build.binary("divide", other, into.add(build.constant_like(other, partitions))))
    other.replace_use_with(item, quotient)


def _alike_groups(a: HloInstruction, b: HloInstruction) -> bool:
    x, y = (i.attributes_as(at.CollectiveAttributes) for i in (a, b))
    ids = x.use_global_device_ids == y.use_global_device_ids
    return ids and {frozenset(g) for g in expand_groups(a)} == {frozenset(g) for g in expand_groups(b)}


def _is_shareable(item: HloInstruction) -> bool:
    is_plain = item.channel_id is None and item.operand_count == 1 and item.shape.is_array
    if not is_plain or item.shape.element_type is not PrimitiveType.F32 or not _is_sum(item):
        return False
    return len(expand_groups(item)) <= 1


def _share(item: HloInstruction, channel: int, partitions: int) -> None:
    computation = item.parent
    assert computation is not None
    item.update_attributes(channel_id=channel)
    users, was_root, into = item.users, item.is_root(), Expansion(item)
    quotient = into.add(build.binary("divide", item, into.full(item.shape, partitions)))
    for user in users:
        item.replace_use_with(user, quotient)
    if was_root:
        computation.set_root_instruction(quotient)
