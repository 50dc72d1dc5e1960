"""Shardings of some values become shardings of all that they determine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.annotations.mesh import Mesh
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.sharding.acceptance import Acceptance
from xjit.passes.sharding.factor_rows import Factors
from xjit.passes.sharding.manual_regions import begin_regions
from xjit.passes.sharding.mesh_axes import MeshAxes
from xjit.passes.sharding.propagation_rounds import Propagation
from xjit.passes.sharding.sharding_annotations import FoldedAnnotations, fold_annotations, remove_barriers
from xjit.passes.sharding.sharding_slots import ShardingSlots, Slot


@dataclass
class ShardingPropagation(HloModulePass):
    """Annotates instructions with the shardings that follow from those of their operands and users.

    Given annotations stay, but for those of the entry's results and parameters where the options let them be improved.
    Parameters of the entry without annotation get one only by that option. `cse_prevention_only` annotates broadcasts
    of scalars alone, so that equal ones with different uses stay apart. `fixed_outputs` are arrays of the result, by
    number, and `fixed_parameters` parameters, whose annotations stay all the same. What is improved of both has tiles
    of one size only if `even_boundary`; `own_rows` stand for those of `dimension_factors`, by opcode. With a `mesh`,
    shardings pass as Shardy passes them.
    """

    name = "sharding-propagation"
    is_spmd: bool = True
    propagate_metadata: bool = False
    allow_spmd_sharding_propagation_to_output: bool = False
    allow_spmd_sharding_propagation_to_parameters: bool = False
    cse_prevention_only: bool = False
    fixed_outputs: tuple[int, ...] = ()
    fixed_parameters: tuple[int, ...] = ()
    even_boundary: bool = True
    own_rows: Mapping[str, Callable[[HloInstruction], Factors]] = field(
        default_factory=dict[str, Callable[[HloInstruction], Factors]]
    )
    mesh: Mesh | None = None

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Propagates to a fixed point; True if an annotation changed or a custom-call was folded."""
        computations = selected_computations(module, execution_threads)
        folded = fold_annotations(computations, keep_calls=self.cse_prevention_only)
        if all(i.sharding is None for c in computations for i in c.instructions):
            return remove_barriers(computations) | folded.changed
        slots = ShardingSlots(module, computations, has_edges=self.mesh is not None)
        self._free_slots(slots, folded)
        axes = MeshAxes(self.mesh) if self.mesh else None
        if axes:
            begin_regions(slots, axes)
        acceptance = Acceptance(self.is_spmd, self.propagate_metadata, axes)
        propagation = Propagation(slots, acceptance, folded.groups, self.own_rows)
        propagation.run()
        while slots.complete_tuples():
            propagation.run()
        propagation.leave_out_what_does_not_fit()
        changed = slots.write(self._written(slots, folded))
        return remove_barriers(computations) | changed | folded.changed

    def _improvable(self, slots: ShardingSlots) -> dict[HloInstruction, list[Slot]]:
        """The entry's result and parameters whose given annotations may be improved, with their arrays that may."""
        found: dict[HloInstruction, list[Slot]] = {}
        if self.allow_spmd_sharding_propagation_to_output:
            root = slots.entry.root_instruction
            found[root] = [slot for number, slot in enumerate(slots[root]) if number not in self.fixed_outputs]
        if self.allow_spmd_sharding_propagation_to_parameters:
            parameters = enumerate(slots.entry.parameter_instructions)
            found.update((p, slots[p]) for number, p in parameters if number not in self.fixed_parameters)
        return found

    def _free_slots(self, slots: ShardingSlots, folded: FoldedAnnotations) -> None:
        """Unties what may be improved, and ties the entry's parameters without annotation to having none."""
        if slots.entry not in slots.computations:
            return
        for parameter in slots.entry.parameter_instructions:
            for slot in slots[parameter]:
                slot.fixed = slot.fixed or parameter.sharding is None
        for improvable in self._improvable(slots).values():
            for slot in improvable:  # host buffers are split evenly
                slot.fixed, slot.is_even = False, self.even_boundary
        for instruction, dimensions in folded.free_dimensions.items():
            for slot in slots[instruction]:
                slot.fixed, slot.free_dimensions = False, dimensions

    def _written(self, slots: ShardingSlots, folded: FoldedAnnotations) -> Iterable[HloInstruction]:
        if self.cse_prevention_only:
            return [i for i in slots.slots if i.sharding is None and _is_scalar_broadcast(i)]
        members = {i for group in folded.groups.values() for i in group}
        improvable = {*self._improvable(slots), *folded.free_dimensions, *members}
        return [i for i in slots.slots if i.sharding is None or i in improvable]


def _is_scalar_broadcast(instruction: HloInstruction) -> bool:
    return instruction.opcode == "broadcast" and not instruction.operands[0].shape.rank
