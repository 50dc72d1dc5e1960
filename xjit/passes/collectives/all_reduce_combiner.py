"""Several small all-reduces as one: each has a fixed cost, whatever its size."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.types.physical import physical_byte_size
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.analysis.reachability import HloReachability, HloReachabilityMap
from xjit.passes.domains.domain_map import domain_metadata
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations

SCHEDULING_GROUP = "_scheduling_group_id"
"""The frontend attribute that names instructions which are scheduled together."""


@dataclass
class AllReduceCombiner(HloModulePass):
    """Merges independent all-reduces of one kind into one of several operands.

    A group takes all-reduces of one reducer, element type, group list and domain metadata, up to
    `combine_threshold_in_bytes` and `combine_threshold_count` of them, and to the first that depends on one of them; a
    limit of 0 or less turns the pass off. Nothing changes in a module where the layout of an all-reduce is constrained.
    """

    combine_threshold_in_bytes: int = 30 * 1024 * 1024
    combine_threshold_count: int = 256

    name = "all-reduce-combiner"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Combines in every computation; True if something changed."""
        if self.combine_threshold_in_bytes <= 0 or self.combine_threshold_count <= 0:
            return False
        reduces = [i for c in module.computations() for i in c.instructions if i.opcode == "all-reduce"]
        if any(i.attributes_as(at.CollectiveAttributes).constrain_layout for i in reduces):
            return False
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= self._combine(module, computation)
        return changed

    def _combine(self, module: HloModule, computation: HloComputation) -> bool:
        reduces = [i for i in computation.make_instruction_post_order() if i.opcode == "all-reduce"]
        if len(reduces) < 2:
            return False
        kinds: dict[Hashable, list[HloInstruction]] = {}
        domains = domain_metadata(computation)
        for instruction in reduces:
            if (kind := _kind(instruction)) is not None:
                kinds.setdefault((kind, domains[instruction]), []).append(instruction)
        if all(len(members) < 2 for members in kinds.values()):
            return False
        reachability, changed = analyses.get(HloReachability, module).map(computation), False
        for waiting in kinds.values():
            waiting = [i for i in waiting if physical_byte_size(i.shape) <= self.combine_threshold_in_bytes]
            while len(waiting) > 1:
                group, waiting = self._split(waiting, reachability)
                if len(group) > 1:
                    _merge(group, reachability)
                    changed = True
        return changed

    def _split(
        self, waiting: list[HloInstruction], reachability: HloReachabilityMap
    ) -> tuple[list[HloInstruction], list[HloInstruction]]:
        """Returns those from the first on that fit together, and the others: what needs one of a group ends it."""
        size = 0
        for number, item in enumerate(waiting):
            size += physical_byte_size(item.shape)
            full = size > self.combine_threshold_in_bytes or number == self.combine_threshold_count
            if full or any(reachability.is_connected(member, item) for member in waiting[:number]):
                return waiting[:number], waiting[number:]
        return waiting, []


def _kind(all_reduce: HloInstruction) -> Hashable | None:
    """What must agree of all-reduces that are merged, but for the domain; None for one that is left alone."""
    opcode = simple_opcode(all_reduce.to_apply)
    if opcode is None or not all_reduce.shape.is_static_array or all_reduce.operand_count != 1:
        return None
    if has_control_dependencies(all_reduce) or SCHEDULING_GROUP in all_reduce.frontend_attributes:
        return None
    a = all_reduce.attributes_as(at.CollectiveAttributes)
    accumulates = all_reduce.to_apply.root_instruction.operand(0).shape.element_type
    has_channel = a.channel_id is not None
    return (opcode, accumulates, all_reduce.shape.element_type, a.replica_groups, has_channel, a.use_global_device_ids)


def _merge(group: list[HloInstruction], reachability: HloReachabilityMap) -> None:
    """Puts one all-reduce in the place of several, and its elements where they were read."""
    first = group[0]
    assert first.parent is not None
    computation = first.parent
    shape = Shape.tuple_of([i.shape for i in group])
    operands = [i.operand(0) for i in group]
    combined = HloInstruction.create("all-reduce", shape, operands, first.attributes, [first.to_apply], first.name)
    computation.add_instruction(combined)
    combined.metadata, combined.place = first.metadata, first.place
    if all(i.raw_backend_config == first.raw_backend_config for i in group):
        combined.raw_backend_config = first.raw_backend_config
    combined.frontend_attributes = dict(first.frontend_attributes)
    if any(i.sharding is not None for i in group):  # what has none is on all devices, as everywhere in XLA
        combined.sharding = HloSharding(elements=tuple(i.sharding or HloSharding("replicated") for i in group))
    elements = [HloInstruction.create_get_tuple_element(combined, n) for n in range(len(group))]
    for item, element in zip(group, elements, strict=True):
        computation.add_instruction(element)
        computation.replace_instruction(item, element)
    for new in (combined, *elements):
        reachability.update_through(new)
