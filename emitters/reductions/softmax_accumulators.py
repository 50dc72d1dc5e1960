"""A softmax of rows whose scores come some at a time, on accumulators in registers: see the statement SoftmaxStep.

After each step the sums of a row are those with respect to its maximum so far. A row of -inf alone has no sum; scores
of -inf alone change nothing. NaN and +inf make the row NaN, as in a softmax of the whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from xjit.emitters.elemental import RegisterValue, emit_elementwise
from xjit.emitters.reductions.accumulators import AccumulatorTiles
from xjit.emitters.reductions.lane_combining import CombinePair, Values
from xjit.emitters.reductions.reduction_loops import flatten
from xjit.emitters.schedule.statements import Normalize, SoftmaxStep
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value, constant

P = PrimitiveType
CombineLanes = Callable[[Values, CombinePair, int], list[RegisterValue]]
"""Combines what neighbouring threads have, see `WorkSharing.combine_lanes`."""


def emit_softmax_step(
    builder: IRBuilder, tiles: AccumulatorTiles, step: SoftmaxStep, combine_lanes: CombineLanes
) -> None:
    """Emits the step for all rows of a thread."""
    scores, sums = tiles.all_registers(step.instruction), tiles.all_registers(step.sums)
    maxima, totals = tiles.all_registers(step.maximum), tiles.all_registers(step.total)
    rows, rows_of_sums = (
        tiles.numbers(name, row) for name, row in zip((step.instruction, step.sums), step.rows, strict=True)
    )

    def across(value: Value, combine: Callable[[Value, Value], Value]) -> Value:
        def pair(a: Values, b: Values) -> list[RegisterValue]:
            return [combine(x, y) for x, y in zip(flatten(a), flatten(b), strict=True)]

        (found,) = flatten(combine_lanes([value], pair, step.lanes))
        return found

    for row in range(len(maxima)):
        own = [n for n, r in enumerate(rows) if r == row]
        largest = across(reduce(_larger(builder), [scores[n] for n in own]), _larger(builder))
        maximum = _larger(builder)(maxima[row], largest)
        shift = _finite(builder, maximum)
        for n in own:
            scores[n] = _exp(builder, builder.fsub(scores[n], shift))
        added = across(reduce(builder.fadd, [scores[n] for n in own]), builder.fadd)
        scale = _exp(builder, builder.fsub(maxima[row], shift))
        totals[row] = builder.fadd(builder.fmul(totals[row], scale), added)
        maxima[row] = maximum
        for n, r in enumerate(rows_of_sums):
            sums[n] = builder.fmul(sums[n], scale) if r == row else sums[n]
    _write(tiles, (step.instruction, step.sums, step.maximum, step.total), (scores, sums, maxima, totals))


def emit_normalize(builder: IRBuilder, tiles: AccumulatorTiles, statement: Normalize) -> None:
    """Emits the division of sums by their rows' totals."""
    totals = tiles.all_registers(statement.total)
    rows = tiles.numbers(statement.instruction, statement.row)
    sums = [builder.fdiv(a, totals[r]) for a, r in zip(tiles.all_registers(statement.instruction), rows, strict=True)]
    tiles.set_all_registers(statement.instruction, sums)


def _write(tiles: AccumulatorTiles, names: Sequence[str], values: Sequence[Sequence[Value]]) -> None:
    for name, registers in zip(names, values, strict=True):
        tiles.set_all_registers(name, registers)


def _larger(builder: IRBuilder) -> Callable[[Value, Value], Value]:
    """Emits the larger of two numbers; a NaN may get lost, as the sum of its row has it anyway."""
    return lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _finite(builder: IRBuilder, maximum: Value) -> Value:
    """Emits what scores are taken relative to: -inf - -inf would be NaN where there has been no score yet."""
    is_empty = builder.fcmp_ordered("==", maximum, constant(maximum.type, float("-inf")))
    return builder.select(is_empty, constant(maximum.type, 0.0), maximum)


def _exp(builder: IRBuilder, value: Value) -> Value:
    result = emit_elementwise(builder, "exponential", P.F32, [P.F32], [value], at.NO_ATTRIBUTES)
    assert isinstance(result, Value)
    return result
