"""A module with shardings becomes the program that each of its partitions runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding, read_sharding
from xjit.hlo.annotations.metadata import HloSharding
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.sharding.sharding_slots import leaf_shapes, leaves_of
from xjit.passes.sharding.spmd.builder import SpmdModule
from xjit.passes.sharding.spmd.computations import Boundary, boundaries_of, partition_computation
from xjit.passes.sharding.spmd.leaves import annotated_leaves
from xjit.passes.sharding.spmd.summands import groups_of_leaves

_REPLICATED = HloSharding("replicated")


@dataclass
class SpmdPartitioner(HloModulePass):
    """Gives each device its tiles of all arrays, and the collectives that bring tiles where they are needed.

    Parameters and results of the entry become tiles, too; without `allow_module_signature_change` they stay whole on
    every device. Values without annotation are whole. The header keeps the shardings of parameters and result; a
    module that has them is partitioned already.
    """

    name = "spmd-partitioner"
    allow_module_signature_change: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Partitions the whole module; True if it has several partitions and something is annotated."""
        annotated = any(i.sharding is not None for c in module.computations() for i in c.instructions)
        if module.config.num_partitions < 2 or not annotated or module.has_spmd_output_sharding():
            return False
        FlattenCallGraph().run_impl(module, execution_threads)
        entry = module.entry_computation
        given = [p.sharding or _REPLICATED for p in entry.parameter_instructions]
        result = entry.root_instruction.sharding or replicated_sharding(entry.root_instruction.shape)
        spmd = SpmdModule(module)
        sequential = analyses.get(CallGraph, module).sequential
        boundaries = boundaries_of(sequential, self._entry_boundary(entry, spmd.devices))
        for computation in sequential:
            partition_computation(computation, boundaries, spmd)
        _finish(module, given)
        module.spmd_parameters_shardings = given
        module.spmd_output_sharding = result
        return True

    def _entry_boundary(self, entry: HloComputation, devices: int) -> Boundary:
        parameters = [annotated_leaves(p) for p in entry.parameter_instructions]
        root = annotated_leaves(entry.root_instruction)
        if not self.allow_module_signature_change:
            parameters = [[_shared(s) for s in leaves] for leaves in parameters]
            root = [_shared(s) for s in root]
        owners = [_owners(p) for p in entry.parameter_instructions]
        *summed, root_summed = (
            groups_of_leaves(i.sharding, i.shape, devices)
            for i in (*entry.parameter_instructions, entry.root_instruction)
        )
        return Boundary(parameters, root, owners, summed, root_summed)


def replicated_sharding(shape: Shape) -> HloSharding:
    """The sharding of a value that is whole on every device; of each array, for tuples."""
    return HloSharding(elements=(_REPLICATED,) * len(list(leaf_shapes(shape)))) if shape.is_tuple else _REPLICATED


def _shared(sharding: DeviceSharding) -> DeviceSharding:
    return sharding if sharding.kind == "manual" else REPLICATED


def _owners(parameter: HloInstruction) -> list[int | None]:
    """Returns, for each array, the only device that has it; None: all have."""
    shapes = list(leaf_shapes(parameter.shape))
    if parameter.sharding is None:
        return [None] * len(shapes)
    given = [read_sharding(leaf) for leaf in leaves_of(parameter.sharding)]
    given = given * len(shapes) if len(given) == 1 else given
    return [s.devices[0] if s.kind == "maximal" else None for s in given]


def _finish(module: HloModule, given: list[HloSharding]) -> None:
    """Annotations go but for the entry's parameters; the header gets the new signature."""
    for computation in module.computations():
        for instruction in computation.instructions:
            instruction.sharding = None
    entry = module.entry_computation
    for parameter, sharding in zip(entry.parameter_instructions, given, strict=True):
        parameter.sharding = sharding
    module.remove_unused_computations()
    module.config.entry_computation_layout = module.compute_computation_layout()
