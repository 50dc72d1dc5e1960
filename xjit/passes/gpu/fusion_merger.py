"""Merging loop fusions into the fusions that read them, where that moves fewer bytes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import FusionAttributes
from xjit.passes.analysis import fusion_cost
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.fusion.unit_merging import merge_units

MAX_PARAMETERS = 64
"""Operands and outputs that a merged kernel may have."""


@dataclass
class FusionMerger(HloModulePass):
    """Merges a loop fusion into all of its readers, or into none.

    Readers are loop and input fusions. They must not move more bytes than before; per byte that the producer moves it
    may have `max_flops_per_byte` operations, as each reader does them again. What is expensive goes into one reader
    that reads each element once, and what reads across memory into no reduction.
    """

    name = "fusion-merger"
    max_flops_per_byte: float = 1.0

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Merges until nothing more can be; True if anything was."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            while self._merge_in(computation):
                changed = True
        return changed

    def _merge_in(self, computation: HloComputation) -> bool:
        changed, costs = False, HloCostAnalysis()
        for producer in computation.make_instruction_post_order():
            if producer.parent is computation and self._should_merge(producer, costs):
                for reader in producer.users:
                    kind = reader.attributes_as(FusionAttributes).kind
                    merge_units(computation, [producer, reader], [reader], reader, kind, reader.name)
                costs = HloCostAnalysis()  # it knows the readers as they were
                changed = True
        return changed

    def _should_merge(self, producer: HloInstruction, costs: HloCostAnalysis) -> bool:
        readers = producer.users
        if not readers or producer.is_root() or not _may_be_merged(producer):
            return False
        if not all(_may_read(producer, reader) for reader in readers):
            return False
        cost = costs.instruction(producer)
        if cost.flops + cost.transcendentals > self.max_flops_per_byte * cost.bytes_accessed:
            return False
        body = producer.fused_instructions_computation.instructions
        if any(map(fusion_cost.is_expensive, body)) and not _is_read_once(producer):
            return False
        moved = costs.bytes_moved(producer)
        before = moved.total + sum(costs.bytes_moved(reader).total for reader in readers)
        return sum(_bytes_after(producer, reader, costs) for reader in readers) <= before


def _may_be_merged(producer: HloInstruction) -> bool:
    """Whether a producer is a loop fusion of one array that can be computed element by element."""
    if producer.opcode != "fusion" or not producer.is_loop_fusion() or not fusion_cost.is_array_program(producer):
        return False
    body = producer.fused_instructions_computation.instructions
    return all(i.opcode == "parameter" or fusion_cost.may_be_producer(i) for i in body)


def _is_read_once(producer: HloInstruction) -> bool:
    """Whether one loop reads a producer, and computes no more elements than there are."""
    elements = producer.shape.num_elements
    return producer.user_count == 1 and all(
        r.is_loop_fusion() and r.shape.num_elements <= elements for r in producer.users
    )


def _may_read(producer: HloInstruction, reader: HloInstruction) -> bool:
    """Whether a reader may compute the producer's elements itself."""
    if reader.opcode != "fusion" or not (reader.is_loop_fusion() or reader.is_input_fusion()):
        return False
    if has_control_dependencies(reader) or not reader.shape.is_static_array:
        return False
    if len({*producer.operands, *reader.operands}) > MAX_PARAMETERS:
        return False
    across = any(map(fusion_cost.changes_minor_dimension, producer.fused_instructions_computation.instructions))
    if across and any(i.opcode == "reduce" for i in reader.fused_instructions_computation.instructions):
        return False
    parameters = [p for p, o in zip(reader.fused_parameters, reader.operands, strict=True) if o is producer]
    uses = [(u, n) for p in parameters for u in p.users for n, o in enumerate(u.operands) if o is p]
    return all(fusion_cost.may_read_fused(user, position) for user, position in uses)


def _bytes_after(producer: HloInstruction, reader: HloInstruction, costs: HloCostAnalysis) -> float:
    """Returns what a reader moves that computes the producer itself."""
    moved, inner = costs.bytes_moved(reader), costs.bytes_moved(producer)
    kept = sum(n for o, n in zip(reader.operands, moved.read, strict=True) if o is not producer)
    new = sum(n for o, n in zip(producer.operands, inner.read, strict=True) if o not in reader.operands)
    return moved.written + kept + new
