"""Merging loop fusions into what reads them, where that moves fewer bytes."""

from __future__ import annotations

from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.types.physical import physical_byte_size
from xjit.passes.analysis import fusion_cost
from xjit.passes.analysis.cost_analysis import HloCostAnalysis
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.fusion.unit_merging import merge_units
from xjit.passes.gpu.fusion_heroes import parameters_of, reads_once

MAX_TRANSPOSED = 0.5
"""The share of a producer's bytes that may be read across memory in front of a reduction."""

MAX_PARAMETERS = 64
"""Operands and outputs that a merged kernel may have."""


@dataclass
class FusionMerger(HloModulePass):
    """Merges a loop fusion into all of its readers, or into none.

    Readers are loop and input fusions, and instructions that can be the root of one. They must not move more bytes than
    before; per byte that the producer moves it may have `max_flops_per_byte` operations, as each reader does them
    again. What is expensive goes into one reader that reads each element once, and what reads half of its bytes across
    memory into no reduction.
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
                    merge_units(computation, [producer, reader], [reader], reader, _kind_with(reader), reader.name)
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
        if any(map(fusion_cost.is_expensive, body)) and not (len(readers) == 1 and reads_once(readers[0], producer)):
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


def _kind_with(reader: HloInstruction) -> str:
    """The kind of the fusion of a reader and what it reads."""
    if reader.opcode == "fusion":
        return reader.attributes_as(FusionAttributes).kind
    return "kInput" if reader.opcode == "reduce" else "kLoop"


def _may_read(producer: HloInstruction, reader: HloInstruction) -> bool:
    """Whether a reader may compute the producer's elements itself."""
    is_fusion = reader.opcode == "fusion"
    if not (reader.is_loop_fusion() or reader.is_input_fusion() if is_fusion else fusion_cost.may_be_root(reader)):
        return False
    if has_control_dependencies(reader) or not all(leaf.is_static_array for _, leaf in reader.shape.leaves()):
        return False
    if len({*producer.operands, *reader.operands}) - 1 + sum(1 for _ in reader.shape.leaves()) > MAX_PARAMETERS:
        return False
    members = reader.fused_instructions_computation.instructions if is_fusion else [reader]
    if _transposed_share(producer) >= MAX_TRANSPOSED and any(i.opcode == "reduce" for i in members):
        return False
    values = parameters_of(reader, producer) if is_fusion else [producer]
    uses = [(u, n) for v in values for u in members for n, o in enumerate(u.operands) if o is v]
    return all(fusion_cost.may_read_fused(user, position) for user, position in uses)


def _transposed_share(producer: HloInstruction) -> float:
    """Returns how much of what a producer reads it reads across memory, in bytes."""
    across = [i for i in producer.fused_instructions_computation.instructions if fusion_cost.changes_minor_dimension(i)]
    read = sum(physical_byte_size(o.shape) for o in producer.unique_operands())
    return sum(physical_byte_size(i.operand(0).shape) for i in across) / read if read else 0


def _bytes_after(producer: HloInstruction, reader: HloInstruction, costs: HloCostAnalysis) -> float:
    """Returns what a reader moves that computes the producer itself."""
    moved, inner = costs.bytes_moved(reader), costs.bytes_moved(producer)
    kept = sum(n for o, n in zip(reader.operands, moved.read, strict=True) if o is not producer)
    new = sum(n for o, n in zip(producer.operands, inner.read, strict=True) if o not in reader.operands)
    return moved.written + kept + new
