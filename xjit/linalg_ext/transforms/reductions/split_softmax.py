"""split_softmax: rows of a softmax in parts side by side, each with a maximum and a sum of its own, which are merged.

The parts are a dimension: what makes them is no loop, and threads may share them out. With m the maximum of a part and
s its sum of exp(x - m), the row's maximum is M = max m, and its sum S = sum of s * exp(m - M): what carrying maximum
and sum from tile to tile gives (`linalg_ext.softmax`), in another order.

            part 0       part 1       part 2
    row |============|============|============|      m0, s0, m1, s1, ...: a part is read once for both
          m0, s0        m1, s1       m2, s2           then M, S, and exp(x - M) * (1 / S) for those who read it

Exponentials are made again for the results, and no part of a row is kept: it goes through memory twice.

A part without a finite maximum sums exp(x) itself, 0 or inf or NaN; what follows is what the plain sum gives: NaN where
an infinity is subtracted from itself, and nothing of parts that are all -inf.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import Builder, FloatType, LinalgError, Operation, Value
from xjit.linalg_ext.structured import StructuredOp, shape_of, structured
from xjit.linalg_ext.structured.creation import is_filled_with
from xjit.linalg_ext.structured.extension import axis_of
from xjit.linalg_ext.structured.scalars import compare, select
from xjit.linalg_ext.transforms.reductions.row_parts import RowParts, binary
from xjit.linalg_ext.transforms.reductions.split_reduction import split_reduction

__all__ = ["SoftmaxSplit", "split_softmax"]


@dataclass(frozen=True, slots=True)
class SoftmaxSplit:
    """`maxima`, `sums`: reductions of the parts; `maximum`, `total`: of the rows."""

    maxima: Operation
    sums: Operation
    maximum: Operation
    total: Operation


def split_softmax(op: Operation, parts: int) -> SoftmaxSplit:
    """Cuts rows of a `linalg_ext.softmax` of tensors into parts, and replaces its results.

    LinalgError, with the place of the op, for rows that cannot be cut into `parts` of one length, for inits that go on
    from a maximum and a sum before, and if the scale is read, which is that of such a sum.
    """
    view = structured(op)
    axis = _checked_axis(view, parts)
    work = RowParts(op, view.inputs[0], axis, parts)
    _, old_maximum, old_total, _ = view.inits
    whole = work.generic([(view.inputs[0], work.whole)], old_maximum, work.whole_rows, _larger)
    maxima = split_reduction(whole, parts, axis)
    cut, part_maxima, maximum = maxima.split.operands[0], maxima.split.result, maxima.merge.result
    finite = work.generic([(part_maxima, work.parts)], work.empty(work.parts), work.parts, _zero_if_infinite)
    sums = work.generic([(cut, work.all), (finite.result, work.parts)], work.zeros(), work.parts, _add_exponential)
    given = [(sums.result, work.parts), (part_maxima, work.parts), (maximum, work.rows)]
    total = work.generic(given, old_total, work.rows, _add_weighted)
    if op.results[0].has_uses:
        op.results[0].replace_all_uses_with(_probabilities(work, view, maximum, total.result))
    op.results[1].replace_all_uses_with(maximum)
    op.results[2].replace_all_uses_with(total.result)
    op.erase()
    return SoftmaxSplit(maxima.split, sums, maxima.merge, total)


def _checked_axis(view: StructuredOp, parts: int) -> int:
    op = view.operation
    if op.name != "linalg_ext.softmax" or not view.has_tensor_semantics:
        raise LinalgError(f"'{op.name}' op is no linalg_ext.softmax of tensors", op.location)
    axis, sizes = axis_of(view), shape_of(view.inputs[0])
    length = sizes[axis]
    if None in sizes or parts < 1 or not length or length % parts:
        message = f"into {parts} parts along dimension {axis}, which has {length if length is not None else 'any size'}"
        raise LinalgError(f"'{op.name}' op cannot be cut {message}", op.location)
    if op.results[3].has_uses:
        raise LinalgError(f"'{op.name}' op cannot be cut: its scale is read", op.location)
    for init, neutral in zip(view.inits[1:3], (float("-inf"), 0.0)):
        if not is_filled_with(init, neutral):
            raise LinalgError(f"'{op.name}' op cannot be cut: it does not start from {neutral}", op.location)
    return axis


def _probabilities(work: RowParts, view: StructuredOp, maximum: Value, total: Value) -> Value:
    """Exponentials times the reciprocal of their sum, which is at least 1: no bits but the last change."""
    rows = work.whole_rows
    reciprocal = work.generic([(total, rows)], work.empty(work.rows), rows, _reciprocal).result
    given = [(view.inputs[0], work.whole), (maximum, rows), (reciprocal, rows)]
    return work.generic(given, view.inits[0], work.whole, _weighted_exponential).result


def _exponential(builder: Builder, a: Value, b: Value) -> Value:
    """exp(a - b)."""
    return builder.create("math.exp", (binary(builder, "arith.subf", a, b),), (a.type,)).result


def _larger(builder: Builder, given: Sequence[Value]) -> Value:
    element, maximum = given
    return binary(builder, "arith.maximumf", maximum, element)


def _zero_if_infinite(builder: Builder, given: Sequence[Value]) -> Value:
    maximum = given[0]
    assert isinstance(maximum.type, FloatType)
    size = builder.create("math.absf", (maximum,), (maximum.type,)).result
    most, zero = (builder.constant_float(x, maximum.type) for x in (float("inf"), 0.0))
    return select(builder, compare(builder, "olt", size, most), maximum, zero)


def _add_exponential(builder: Builder, given: Sequence[Value]) -> Value:
    element, maximum, total = given
    return binary(builder, "arith.addf", total, _exponential(builder, element, maximum))


def _add_weighted(builder: Builder, given: Sequence[Value]) -> Value:
    """Adds a part's sum, by the row's maximum instead of its own."""
    of_part, part, row, total = given
    weighted = binary(builder, "arith.mulf", of_part, _exponential(builder, part, row))
    return binary(builder, "arith.addf", total, weighted)


def _reciprocal(builder: Builder, given: Sequence[Value]) -> Value:
    assert isinstance(given[0].type, FloatType)
    return binary(builder, "arith.divf", builder.constant_float(1.0, given[0].type), given[0])


def _weighted_exponential(builder: Builder, given: Sequence[Value]) -> Value:
    element, maximum, factor, _ = given
    return binary(builder, "arith.mulf", _exponential(builder, element, maximum), factor)
