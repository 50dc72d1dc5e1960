"""The same reduction of several rows, whose lanes become results together (`ReduceRows`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from xjit.affine import dim
from xjit.emitters.access.memory import EVERYWHERE
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
    assert lanes is not None and instruction.operand_count == 2, "a reduction of one array by lanes"
    count, kind = nest.table.size(variable), instruction.operand(0).shape.element_type
    accumulation, kept = Accumulation(fused, instruction, reduction, EVERYWHERE), list[StackRow]()

    def row(_: Sequence[Value]) -> Sequence[Value]:
        (value,) = combine_sets(accumulation.lane_sets(), accumulation.combined)
        kept.append(StackRow.like(nest.builder, value, count * lanes.width))
        kept[0].store(nest.builder, nest.index_value(dim(variable) * lanes.width), value)
        return ()

    with fused.rows.recording(reduction.keeps, lanes.variable, variable) if reduction.keeps else nullcontext():
        nest.scalar_loop(variable, row)
    builder = nest.builder
    parts = [[kept[0].load(builder, const_int(I64, n * lanes.width), lanes.width)] for n in range(count)]
    total = combine_rows(builder, parts, accumulation.combined)
    start, _ = fused.element(instruction.operand(1), ())
    total = accumulation.completed([splat_register(builder, start, count)], total)
    (result,) = round_promoted(builder, [kind], total)
    results = StackRow.like(builder, result, count)
    results.store(builder, const_int(I64, 0), result)

    def element() -> Element:
        depth = max(nest.depth_of(e) for e in reduction.index)
        vector = nest.vector
        width = vector.width if vector is not None and vector.position == variable else 0
        return results.load(nest.levels[depth].builder, nest.index_value(dim(variable)), width), depth

    fused.staged[instruction, reduction.index] = element
