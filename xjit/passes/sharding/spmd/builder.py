"""Writing the program of one device: where it is, and what it exchanges with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import DeviceSharding
from xjit.hlo.attributes.values import ReplicaGroups
from xjit.ops import build
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion
from xjit.passes.sharding.spmd.placement import Groups, Table

INDEX = PrimitiveType.S32
"""Type of offsets."""

NOTHING: Final = -0.0
"""What changes no number that it is added to: 0 would make -0 another."""


@dataclass(slots=True)
class SpmdModule:
    """What all of a module's devices have in common.

    Channels count on from the last of the module. `offsets` are the numbers that differ from device to device, by
    their values, `moved` the arrays that were given other shardings.
    """

    module: HloModule
    first_channel: int = 0
    last_channel: int = 0
    offsets: dict[tuple[HloComputation, bytes], HloInstruction] = field(
        default_factory=dict["tuple[HloComputation, bytes]", HloInstruction]
    )

    moved: dict[tuple[HloInstruction, DeviceSharding], HloInstruction] = field(
        default_factory=dict["tuple[HloInstruction, DeviceSharding]", HloInstruction]
    )

    def __post_init__(self) -> None:
        ids = [i.channel_id for c in self.module.computations() for i in c.instructions]
        self.first_channel = self.last_channel = max((n for n in ids if n is not None), default=0)

    @property
    def devices(self) -> int:
        """The number of partitions."""
        return self.module.config.num_partitions

    def channel(self) -> int:
        """Returns a channel id that no other collective has."""
        self.last_channel += 1
        return self.last_channel

    def made(self, instruction: HloInstruction) -> bool:
        """Whether an instruction is a collective that was made here."""
        return (instruction.channel_id or 0) > self.first_channel

    def global_groups(self, groups: Groups) -> ReplicaGroups:
        """Returns groups of partitions as groups of devices, in each replica by itself."""
        count = self.module.config.replica_count
        return ReplicaGroups(tuple(tuple(r * self.devices + p for p in g) for r in range(count) for g in groups))


class SpmdBuilder(Writer):
    """Adds the instructions that take the place of one. Groups and pairs are of partitions."""

    def __init__(self, spmd: SpmdModule, source: HloInstruction) -> None:
        super().__init__(Expansion(source))
        self.spmd = spmd

    def number(self, per_device: Table | Sequence[int]) -> HloInstruction:
        """A scalar that is another number on each device, by its partition id."""
        values = np.asarray(per_device, dtype=INDEX.dtype)
        if (values == values[0]).all():
            return self.constant(int(values[0]), INDEX)
        key = (self.into.computation, values.tobytes())
        known = self.spmd.offsets.get(key)
        if known is None:
            own = self.make("partition-id")
            known = self.reshape(self.dynamic_slice(self.constant(values, INDEX), [own], (1,)), ())
            self.spmd.offsets[key] = known
        return known

    def is_on(self, device: int) -> HloInstruction:
        """Whether this is some device."""
        return self.compare("EQ", self.make("partition-id"), self.constant(device, PrimitiveType.U32))

    def slice_at(self, operand: HloInstruction, starts: Table, sizes: Sequence[int]) -> HloInstruction:
        """The part of some sizes that begins at `starts[p]` on device p; zeros where that is beyond the operand."""
        missing = [int(starts[:, d].max()) + n - operand.shape.dimensions[d] for d, n in enumerate(sizes)]
        if any(n > 0 for n in missing):
            operand = self.pad(operand, [(0, max(n, 0)) for n in missing], 0)
        if operand.shape.dimensions == tuple(sizes):
            return operand
        return self.dynamic_slice(operand, [self.number(starts[:, d]) for d in range(len(sizes))], sizes)

    def pad(self, operand: HloInstruction, edges: Sequence[tuple[int, int]], value: float) -> HloInstruction:
        """The operand with more elements before and behind."""
        filling = self.constant(value, operand.shape.element_type)
        return self.add(build.pad(operand, filling, [(low, high, 0) for low, high in edges]))

    def positions(self, sizes: Sequence[int], dimension: int, first: HloInstruction) -> HloInstruction:
        """`first` plus the index along a dimension, for every element of an array."""
        index = self.iota(INDEX, sizes, dimension)
        return self.make("add", index, self.broadcast(first, sizes))

    def select(self, pred: HloInstruction, chosen: HloInstruction, other: HloInstruction) -> HloInstruction:
        """The elements of one array or another; a scalar stands for an array of equal elements."""
        sizes = pred.shape.dimensions
        arrays = [x if x.shape.dimensions == sizes else self.broadcast(x, sizes) for x in (chosen, other)]
        return self.make("select", pred, *arrays)

    # -- collectives

    def all_gather(self, operand: HloInstruction, groups: Groups, dimension: int) -> HloInstruction:
        """The operands of a group, one after the other along a dimension."""
        sizes = list(operand.shape.dimensions)
        sizes[dimension] *= len(groups[0])
        attributes = at.CollectiveAttributes(
            self.spmd.channel(), self.spmd.global_groups(groups), use_global_device_ids=True, dimensions=(dimension,)
        )
        return self.add(
            HloInstruction.create("all-gather", operand.shape.with_dimensions(sizes), [operand], attributes)
        )

    def all_reduce(self, operand: HloInstruction, groups: Groups, reducer: HloComputation) -> HloInstruction:
        """The operands of a group, combined."""
        attributes = at.CollectiveAttributes(
            self.spmd.channel(), self.spmd.global_groups(groups), use_global_device_ids=True
        )
        return self.add(HloInstruction.create("all-reduce", operand.shape, [operand], attributes, [reducer]))

    def all_to_all(self, operand: HloInstruction, groups: Groups, dimension: int) -> HloInstruction:
        """Part k along a dimension, of as many parts as a group has members, is exchanged with the k-th member's."""
        attributes = at.CollectiveAttributes(self.spmd.channel(), ReplicaGroups(groups), dimensions=(dimension,))
        return self.add(HloInstruction.create("all-to-all", operand.shape, [operand], attributes))

    def collective_permute(self, operand: HloInstruction, pairs: Sequence[tuple[int, int]]) -> HloInstruction:
        """The operand of another device, by (source, target); zeros where nobody sends."""
        attributes = at.CollectivePermuteAttributes(self.spmd.channel(), tuple(pairs))
        return self.add(HloInstruction.create("collective-permute", operand.shape, [operand], attributes))

    def sum_over(self, operand: HloInstruction, groups: Groups) -> HloInstruction:
        """The sum over a group; of predicates, whether one holds."""
        kind = operand.shape.element_type
        opcode = "or" if kind is PrimitiveType.PRED else "add"
        return self.all_reduce(operand, groups, self.into.embed(build.make_binary_computation(opcode, kind)))
