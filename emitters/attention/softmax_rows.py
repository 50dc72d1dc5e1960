"""Softmax of rows that come in blocks of columns: the running maximum and sum of each row, and how they change.

After each block a row's sums so far are those with respect to the maximum so far. A row of -inf alone has no sum; a
block of them changes nothing. NaN and +inf make the row NaN, as in a softmax of the whole row.
"""

from __future__ import annotations

from dataclasses import dataclass

from xjit.emitters.attention.shapes import COMPUTE, COMPUTE_BYTES
from xjit.llvm import Function, Module, Value
from xjit.llvm.math.exponential import exp
from xjit.llvm.math.vec import Vec
from xjit.llvm.reductions import reduce_tree, vector_reduce_add
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR, vector
from xjit.llvm.values import Value as LLVMValue
from xjit.llvm.values import constant

PARAMS = (
    (PTR, "scores"), (I64, "row_bytes"), (PTR, "maxima"), (PTR, "totals"), (PTR, "sums"), (I64, "sums_row"),
    (I64, "rows"), (I64, "columns"), (I64, "width"),
)  # fmt: skip
SCALED_PARAMS = (*PARAMS, (COMPUTE, "factor"))
"""A strip of logits, which becomes exponentials, and the state of its rows: maxima, totals, and the product's sums.

Rows are padded to whole vectors, what lies there becomes zero. Before the first block of columns, maxima are -inf, and
the rest is zero.
"""


@dataclass(frozen=True, slots=True)
class _Row:
    scores: Value
    maximum: Value
    total: Value
    sums: Value


def emit_softmax_rows(module: Module, name: str, is_scaled: bool = False) -> Function:
    """Defines the function with `PARAMS`, or with `SCALED_PARAMS` if differences to the maxima are times a number."""
    builder = define(module, name, SCALED_PARAMS if is_scaled else PARAMS)
    scores, row_bytes, maxima, totals, sums, sums_row, rows, columns, width = builder.function.args[: len(PARAMS)]
    factor = builder.function.args[-1] if is_scaled else None
    with builder.loop(builder.i64(0), rows, name="row") as i:
        place = builder.mul(i, builder.i64(COMPUTE_BYTES))
        row = _Row(
            builder.offset(scores, builder.mul(i, row_bytes)),
            builder.offset(maxima, place),
            builder.offset(totals, place),
            builder.offset(sums, builder.mul(i, sums_row)),
        )
        _RowEmitter(builder, row, columns, width, factor).emit()
    builder.ret_void()
    return builder.function


class _RowEmitter:
    """The code of one row."""

    def __init__(
        self, builder: StructuredBuilder, row: _Row, columns: Value, width: Value, factor: Value | None
    ) -> None:
        self.builder = builder
        self.row = row
        self.factor = factor
        self.lanes = builder.target.vector_width(COMPUTE)
        self.kind = vector(COMPUTE, self.lanes)
        self.step = self.lanes * COMPUTE_BYTES
        self.columns = columns
        self.bytes = self._padded_bytes(columns)
        self.width_bytes = self._padded_bytes(width)

    def _padded_bytes(self, count: Value) -> Value:
        builder = self.builder
        padded = builder.and_(builder.add(count, builder.i64(self.lanes - 1)), builder.i64(-self.lanes))
        return builder.mul(padded, builder.i64(COMPUTE_BYTES))

    def emit(self) -> None:
        """Emits the row: its padding, the new maximum, exponentials and their sum, the old sums in its terms."""
        builder = self.builder
        minus_inf = constant(COMPUTE, float("-inf"))
        self._fill_padding()
        old = builder.load(COMPUTE, self.row.maximum, COMPUTE_BYTES)
        maximum = self._larger(old, self._maximum())
        builder.store(maximum, self.row.maximum, COMPUTE_BYTES)
        is_empty = builder.fcmp_ordered("==", maximum, minus_inf)
        shift = builder.select(is_empty, constant(COMPUTE, 0.0), maximum)
        total = self._exponentials(shift)
        scale = self._exponential(builder.fsub(old, shift), self.factor)
        before = builder.load(COMPUTE, self.row.total, COMPUTE_BYTES)
        builder.store(builder.fadd(builder.fmul(before, scale), total), self.row.total, COMPUTE_BYTES)
        with builder.when(builder.fcmp_unordered("!=", scale, constant(COMPUTE, 1.0))):
            self._scale_sums(scale)

    def _exponential(self, difference: Value, factor: Value | None) -> Value:
        exponent = difference if factor is None else self.builder.fmul(difference, factor)
        return exp(Vec(self.builder, exponent)).v

    def _larger(self, a: LLVMValue, b: LLVMValue) -> LLVMValue:
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def _load(self, base: Value, place: Value) -> Value:
        return self.builder.load(self.kind, self.builder.offset(base, place), COMPUTE_BYTES)

    def _store(self, value: Value, base: Value, place: Value) -> None:
        self.builder.store(value, self.builder.offset(base, place), COMPUTE_BYTES)

    def _fill_padding(self) -> None:
        builder = self.builder
        last = builder.sub(self.bytes, builder.i64(self.step))
        first_lane = builder.sdiv(last, builder.i64(COMPUTE_BYTES))
        present = builder.sub(self.columns, first_lane)
        with builder.when(builder.icmp_signed("<", present, builder.i64(self.lanes))):
            lanes = builder.vector_iota(vector(I64, self.lanes))
            mask = builder.icmp_signed("<", lanes, builder.splat(present, self.lanes))
            padding = constant(self.kind, float("-inf"))
            self._store(builder.select(mask, self._load(self.row.scores, last), padding), self.row.scores, last)

    def _maximum(self) -> Value:
        builder = self.builder
        start = constant(self.kind, float("-inf"))
        with builder.loop_with(builder.i64(0), self.bytes, (start,), self.step, "m") as (place, carried, following):
            following.append(self._larger(self._load(self.row.scores, place), carried[0]))
        return reduce_tree(builder, carried[0], self._larger)

    def _exponentials(self, shift: Value) -> Value:
        builder = self.builder
        shifts = builder.splat(shift, self.lanes)
        factors = None if self.factor is None else builder.splat(self.factor, self.lanes)
        start = constant(self.kind, 0.0)
        with builder.loop_with(builder.i64(0), self.bytes, (start,), self.step, "e") as (place, carried, following):
            logits = self._load(self.row.scores, place)
            value = self._exponential(builder.fsub(logits, shifts), factors)
            self._store(value, self.row.scores, place)
            following.append(builder.fadd(carried[0], value))
        return vector_reduce_add(builder, carried[0])

    def _scale_sums(self, scale: Value) -> None:
        builder = self.builder
        scales = builder.splat(scale, self.lanes)
        with builder.loop(builder.i64(0), self.width_bytes, self.step, "s") as place:
            self._store(builder.fmul(self._load(self.row.sums, place), scales), self.row.sums, place)
