"""Which devices a collective joins: the four group modes of XLA, over R replicas times P partitions.

A device is a number, replica * P + partition. What the ids of `replica_groups` are depends on the instruction:

| channel id | use_global_device_ids | ids are | performed |
| --- | --- | --- | --- |
| no | | replicas | in each partition by itself |
| yes | the opcode has no such attribute (or it is false) | partitions | in each replica by itself |
| yes | false | replicas | once, with all partitions of a group's replicas |
| yes | true | devices | once |
"""

from __future__ import annotations

from xjit.hlo import attributes as at
from xjit.hlo.annotations.mesh import Groups
from xjit.hlo.attributes.codecs.meshes import parse_compact_groups
from xjit.hlo.attributes.codecs.value_text import CodecError
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.hlo.diagnostics import HloVerifyError, Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule, HloModuleConfig

__all__ = [
    "GLOBAL_ID_OPCODES",
    "Groups",
    "check_devices",
    "device_count",
    "device_groups",
    "expand_groups",
    "has_several_devices",
    "is_alone",
    "named_counts",
    "participants",
    "permute_peers",
    "permuted_devices",
]

GLOBAL_ID_OPCODES = frozenset({"all-reduce", "all-reduce-start", "all-gather", "all-gather-start", "reduce-scatter"})
"""Opcodes that have `use_global_device_ids`."""

_IDS = frozenset({"replica-id", "partition-id"})
_TRANSFERS = frozenset({"send", "recv"})
_TELLING_APART = _IDS | _TRANSFERS | {name for name, op in OPCODES.items() if op.has(Trait.COLLECTIVE)}


def expand_groups(instruction: HloInstruction) -> tuple[tuple[int, ...], ...]:
    """Returns the replica groups as lists of ids; `[2,4]<=[8]` is written out. () means one group of everyone.

    HloVerifyError if an iota list does not have as many ids as its groups, or a mesh lacks an axis or devices.
    """
    groups = instruction.attributes_as(at.CollectiveAttributes).replica_groups
    if not groups.text:
        return groups.groups
    try:
        found = parse_compact_groups(groups.text).groups()
    except CodecError as error:
        raise HloVerifyError(f"{instruction.opcode}: {error.message}", instruction.span) from None
    if found is None:
        raise HloVerifyError(f"{instruction.opcode}: replica_groups={groups.text} is no list of ids", instruction.span)
    return found


def participants(instruction: HloInstruction, device: int, replicas: int, partitions: int) -> tuple[int, ...]:
    """Returns the devices of the group that a device belongs to, in the order of the group; () if it is in none.

    Unsupported if the groups name more devices than there are.
    """
    a = instruction.attributes_as(at.CollectiveAttributes)
    groups, (replica, partition) = expand_groups(instruction), divmod(device, partitions)
    if a.channel_id is None:
        return tuple(r * partitions + partition for r in _group(instruction, groups, replica, replicas, "replica"))
    if instruction.opcode not in GLOBAL_ID_OPCODES and not a.use_global_device_ids:
        members = _group(instruction, groups, partition, partitions, "partition")
        return tuple(replica * partitions + p for p in members)
    if a.use_global_device_ids:
        return _group(instruction, groups, device, replicas * partitions, "device")
    members = _group(instruction, groups, replica, replicas, "replica")
    return tuple(r * partitions + p for r in members for p in range(partitions))


def device_groups(instruction: HloInstruction) -> Groups:
    """Returns all groups of a collective as lists of devices; Unsupported if they name more than the module has."""
    replicas, partitions = _counts(instruction)
    found = (participants(instruction, device, replicas, partitions) for device in range(replicas * partitions))
    return tuple(dict.fromkeys(group for group in found if group))


def permuted_devices(instruction: HloInstruction) -> Groups:
    """Returns all (source, target) devices of a collective-permute; Unsupported as for groups."""
    replicas, partitions = _counts(instruction)
    found = (permute_peers(instruction, device, replicas, partitions) for device in range(replicas * partitions))
    return tuple(dict.fromkeys(pair for pairs in found for pair in pairs))


def has_several_devices(instruction: HloInstruction) -> bool:
    """Whether the module of an instruction runs on more than one device."""
    replicas, partitions = _counts(instruction)
    return replicas * partitions > 1


def _counts(instruction: HloInstruction) -> tuple[int, int]:
    """How many replicas and partitions the module of an instruction has."""
    config = instruction.module.config if instruction.module is not None else HloModuleConfig()
    return config.replica_count, config.num_partitions


def named_counts(module: HloModule, devices_are_partitions: bool = False) -> tuple[int, int]:
    """Returns (replicas, partitions) by the header, or by the ids that collectives name where these are greater.

    Text without counts says 1 and 1. Devices that it names all the same, by global ids, are replicas of one partition
    or, with the flag, partitions of one replica.
    """
    replicas, partitions = module.config.replica_count, module.config.num_partitions
    in_partitions = devices_are_partitions if replicas == partitions == 1 else replicas > 1 >= partitions
    for instruction in (i for c in module.computations() for i in c.instructions):
        count, across = _named(instruction)
        if across == "replica":
            replicas = max(replicas, count)
        elif across == "partition":
            partitions = max(partitions, count)
        elif in_partitions:
            partitions = max(partitions, -(-count // module.config.replica_count))
        else:
            replicas = max(replicas, -(-count // module.config.num_partitions))
    return replicas, partitions


def _named(instruction: HloInstruction) -> tuple[int, str]:
    """Returns one more than the greatest id that a collective names, and what ids are; 0 if it names none."""
    a = instruction.attributes
    if isinstance(a, at.CollectivePermuteAttributes):
        count = 1 + max((i for pair in a.source_target_pairs for i in pair), default=-1)
        return count, "replica" if a.channel_id is None else "partition"
    if not isinstance(a, at.CollectiveAttributes):
        return 0, "replica"
    count = 1 + max((i for group in expand_groups(instruction) for i in group), default=-1)
    if a.channel_id is not None and a.use_global_device_ids:
        return count, "device"
    is_partition = a.channel_id is not None and instruction.opcode not in GLOBAL_ID_OPCODES
    return count, "partition" if is_partition else "replica"


def permute_peers(
    instruction: HloInstruction, device: int, replicas: int, partitions: int
) -> tuple[tuple[int, int], ...]:
    """Returns the (source, target) devices of the collective-permute that a device belongs to.

    Unsupported if it names more devices than there are.
    """
    a = instruction.attributes_as(at.CollectivePermuteAttributes)
    replica, partition = divmod(device, partitions)
    across_replicas = a.channel_id is None
    count, what = (replicas, "replica") if across_replicas else (partitions, "partition")
    pairs: list[tuple[int, int]] = []
    for source, target in a.source_target_pairs:
        _check_id(instruction, source, count, what)
        _check_id(instruction, target, count, what)
        if across_replicas:
            pairs.append((source * partitions + partition, target * partitions + partition))
        else:
            pairs.append((replica * partitions + source, replica * partitions + target))
    return tuple(pairs)


def device_count(module: HloModule) -> int:
    """Returns how many devices a module needs: replica_count * num_partitions.

    It is 1 for one replica of several partitions in which nothing tells partitions apart: no partitioner has split that
    program yet, and one device can run the whole of it.
    """
    config = module.config
    if config.replica_count == 1 and not _tells_devices_apart(module):
        return 1
    return config.replica_count * config.num_partitions


def check_devices(module: HloModule) -> None:
    """Unsupported if a collective names more devices than the module has."""
    for computation in module.computations():
        for instruction in computation.instructions:
            if isinstance(instruction.attributes, at.CollectiveAttributes):
                device_groups(instruction)
            elif isinstance(instruction.attributes, at.CollectivePermuteAttributes):
                permuted_devices(instruction)


def _tells_devices_apart(module: HloModule) -> bool:
    return any(i.opcode in _TELLING_APART for c in module.computations() for i in c.instructions)


def is_alone(instruction: HloInstruction) -> bool:
    """Whether a collective has one participant as its module has one device; False if it names further ones."""
    config = instruction.module.config if instruction.module is not None else None
    if config is None or config.replica_count * config.num_partitions != 1:
        return False
    if isinstance(instruction.attributes, at.CollectivePermuteAttributes):
        return all(i == 0 for pair in instruction.attributes.source_target_pairs for i in pair)
    if isinstance(instruction.attributes, at.CollectiveAttributes):
        return all(i == 0 for group in expand_groups(instruction) for i in group)
    return True


def _group(
    instruction: HloInstruction, groups: tuple[tuple[int, ...], ...], member: int, count: int, what: str
) -> tuple[int, ...]:
    if not groups:
        return tuple(range(count))
    for group in groups:
        for i in group:
            _check_id(instruction, i, count, what)
    return next((g for g in groups if member in g), ())


def _check_id(instruction: HloInstruction, i: int, count: int, what: str) -> None:
    if not 0 <= i < count:
        have = f"{count} {what}s" if count > 1 else f"one {what}"
        raise Unsupported(f"{instruction.opcode} names {what} {i}, but the module runs on {have}", instruction.span)
