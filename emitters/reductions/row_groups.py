"""The same reduction of several rows, whose lanes become results together (`ReduceRows`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from xjit.affine import dim
from xjit.emitters.access.guards import EVERYWHERE
from xjit.emitters.fused import Element, FusedIrEmitter
from xjit.emitters.nested import splat_register
from xjit.emitters.reductions.lane_combining import combine_rows, combine_sets
from xjit.emitters.reductions.reduction_loops import Accumulation, round_promoted
from xjit.emitters.reductions.stack_row import StackRow
from xjit.emitters.schedule.statements import Reduction
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.types import I64
from xjit.llvm.values import Value, const_int


def emit_row_group(fused: FusedIrEmitter, instruction: HloInstruction, reduction: Reduction, variable: int) -> None:
    """Emits the reduction of a row for each value of a variable. Loops over it find the elements from now on."""
    nest, lanes = fused.nest, reduction.lanes
    assert lanes is not None, "a reduction by lanes"
    count = nest.table.size(variable)
    accumulation, kept = Accumulation(fused, instruction, reduction, EVERYWHERE), list[StackRow]()

    def row(_: Sequence[Value]) -> Sequence[Value]:
        values = combine_sets(accumulation.lane_sets(), accumulation.combine_lanes)
        kept.extend(StackRow.like(nest.builder, value, count * lanes.width) for value in values)
        place = nest.index_value(dim(variable) * lanes.width)
        for array, value in zip(kept, values, strict=True):
            array.store(nest.builder, place, value)
        return ()

    with fused.rows.recording(reduction.keeps, lanes.variable, variable) if reduction.keeps else nullcontext():
        nest.scalar_loop(variable, row)
    builder = nest.builder
    places = [const_int(I64, row * lanes.width) for row in range(count)]
    parts = [[array.load(builder, place, lanes.width) for array in kept] for place in places]
    total = combine_rows(builder, parts, accumulation.combine_lanes)
    inits = [fused.element(init, ())[0] for init in instruction.operands[len(kept) :]]
    total = accumulation.completed([splat_register(builder, init, count) for init in inits], total)
    results: list[StackRow] = []
    for value in round_promoted(builder, accumulation.types, total):
        results.append(StackRow.like(builder, value, count))
        results[-1].store(builder, const_int(I64, 0), value)

    def element(output: int) -> Element:
        depth = max(nest.depth_of(e) for e in reduction.index)
        vector = nest.vector
        width = vector.width if vector is not None and vector.position == variable else 0
        return results[output].load(nest.levels[depth].builder, nest.index_value(dim(variable)), width), depth

    fused.staged[instruction, reduction.index] = element
