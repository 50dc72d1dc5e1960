"""One matrix in memory, for factorizations in line: its elements, and loops along its columns."""

from __future__ import annotations

from collections.abc import Callable

from xjit.dataclass import dataclass
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64, LLVMType, vector
from xjit.llvm.values import Value, const_int


@dataclass(frozen=True, slots=True)
class SmallMatrix:
    """A matrix of f32 or f64 (`kind`) at `start`; strides count elements from row to row and from column to column."""

    builder: StructuredBuilder
    kind: LLVMType
    start: Value
    row_stride: int
    column_stride: int

    def place(self, row: Value, column: Value) -> Value:
        """The address of an element."""
        builder = self.builder
        down = builder.mul(row, builder.i64(self.row_stride))
        across = builder.mul(column, builder.i64(self.column_stride))
        return builder.gep(self.kind, self.start, builder.add(down, across))

    def load(self, row: Value, column: Value, lanes: LLVMType | None = None) -> Value:
        """An element, or a vector of as many as `lanes` has."""
        return self.builder.load(lanes or self.kind, self.place(row, column), self.kind.bits // 8)

    def store(self, value: Value, row: Value, column: Value) -> None:
        """Sets an element, or a vector of them."""
        self.builder.store(value, self.place(row, column), self.kind.bits // 8)

    def for_rows(self, begin: Value, end: Value, body: Callable[[LLVMType, Value], None]) -> None:
        """Emits the body for the rows from `begin` to before `end`: by whole vectors where columns are contiguous, and
        one by one where none is left."""
        builder, width = self.builder, self.builder.target.vector_width(self.kind)
        if self.row_stride == 1:
            middle = builder.add(begin, builder.and_(builder.sub(end, begin), const_int(I64, -width)))
            with builder.loop(begin, middle, width, name="rows") as i:
                body(vector(self.kind, width), i)
            begin = middle
        with builder.loop(begin, end, name="row") as i:
            body(self.kind, i)

    def divide(self, lanes: LLVMType, row: Value, column: Value, divisor: Value) -> None:
        """Divides elements of a column by a number."""
        quotient = self.builder.fdiv(self.load(row, column, lanes), _in_lanes(self.builder, divisor, lanes))
        self.store(quotient, row, column)

    def subtract_multiple(self, lanes: LLVMType, row: Value, column: Value, other: Value, factor: Value) -> None:
        """Subtracts a multiple of another column's elements. Products are rounded: columns that are multiples of others
        mostly become zero then."""
        builder = self.builder
        product = builder.fmul(self.load(row, other, lanes), _in_lanes(builder, factor, lanes))
        self.store(builder.fsub(self.load(row, column, lanes), product), row, column)


def _in_lanes(builder: StructuredBuilder, number: Value, lanes: LLVMType) -> Value:
    return builder.splat(number, lanes.width) if lanes.is_vector else number
