"""Products of a few rows and a matrix, at memory speed: result[i, j] += sum over k of x[i, k] * matrix[k, j].

Two ways, by the direction in which the matrix is contiguous. Along n: eight rows of the matrix at a time are added to a
strip of results that stays in the cache. Along k: dot products, a few columns at a time. Either way the matrix is read
once, in streams, and not packed. Invariant: the sum of an element is formed in an order that the shape decides, not
which columns are computed together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xjit.emitters.gemm.blocking.method import MAX_ROWS, Method
from xjit.emitters.gemm.blocking.storage import has_native_masks, size_of
from xjit.emitters.gemm.packing.conversions import lane_mask, load_as
from xjit.llvm import Function, LLVMType, Module, Target, Value
from xjit.llvm.reductions import vector_sums
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I8, I64, PTR, vector
from xjit.llvm.values import const_int, poison, zero

_MATRIX_ROWS = 8
_HOISTED_FACTORS = 8  # elements of x that stay in registers along the rows of the matrix

VECTOR_PARAMS = (
    (PTR, "result"),
    (I64, "result_row"),
    (PTR, "x"),
    (I64, "x_row"),
    (I64, "x_stride"),
    (PTR, "matrix"),
    (I64, "k_stride"),
    (I64, "column_stride"),
    (I64, "rows"),
    (I64, "k"),
    (I64, "columns"),
)
"""Rows of `result` are contiguous, of the compute type. Strides are in bytes."""


@dataclass(frozen=True, slots=True)
class VectorBlocking:
    """How rows are computed: in groups of `rows`, up to `max_rows`; `chunk` elements of each row of x are converted at
    once and stay in L1; `columns` is the number of columns whose dot products are formed together, `accumulators` the
    vectors of partial sums of each dot product.
    """

    rows: int
    max_rows: int
    chunk: int
    columns: int
    accumulators: int


def vector_blocking(target: Target, rows: int) -> VectorBlocking:
    """The blocking for one of the `ROW_GROUPS`: 16 sums of several rows with 32 vector registers, 8 with 16."""
    sums = 16 if target.vector_bits >= 512 else 8
    return VectorBlocking(1, 1, 2048, 4, 2) if rows == 1 else VectorBlocking(rows, MAX_ROWS, 1024, sums // rows, 1)


def emit_vector_product(
    module: Module, name: str, matrix: LLVMType, compute: LLVMType, pack_x: Function, rows: int, method: Method
) -> Function:
    """Defines the product for groups of `rows` rows by one of the vector methods; `pack_x` is the copy that converts
    x.
    """
    builder = define(module, name, VECTOR_PARAMS)
    emitter = _VectorProduct(builder, matrix, compute, vector_blocking(builder.target, rows))
    emitter.emit(pack_x, method is Method.VECTOR_ALONG_K)
    return builder.function


class _VectorProduct:
    def __init__(
        self, builder: StructuredBuilder, matrix: LLVMType, compute: LLVMType, blocking: VectorBlocking
    ) -> None:
        self.builder = builder
        self.matrix = matrix
        self.compute = compute
        self.blocking = blocking
        self.width = builder.target.vector_width(compute)
        self.type = vector(compute, self.width)
        self.masked = has_native_masks(builder.target, matrix) and has_native_masks(builder.target, compute)

    def emit(self, pack_x: Function, along_k: bool) -> None:
        """The loop over chunks of k."""
        builder, blocking = self.builder, self.blocking
        self.result, self.result_row, x, x_row, x_stride, source, *rest = builder.function.args
        k_stride, column_stride, self.rows, k, columns = rest
        unit = builder.i64(size_of(self.compute))
        row_bytes = blocking.chunk * size_of(self.compute) + 64  # off the power of two: rows share no cache set
        packed_bytes, self.x_row = blocking.max_rows * row_bytes, builder.i64(row_bytes)
        self.x = builder.alloca(I8, packed_bytes, align=64, name="packed_x")
        if blocking.max_rows > 1:
            builder.memset(self.x, const_int(I8, 0), builder.i64(packed_bytes), 64)
        with builder.loop(builder.i64(0), k, blocking.chunk, "chunk") as start:
            length = builder.min(builder.i64(blocking.chunk), builder.sub(k, start))
            place = builder.offset(x, builder.mul(start, x_stride))
            builder.call(pack_x, (self.x, self.x_row, unit, place, x_row, x_stride, self.rows, length))
            block = builder.offset(source, builder.mul(start, k_stride))
            if along_k:
                self._along_k(block, column_stride, length, columns)
            else:
                self._along_n(block, k_stride, length, columns)
        builder.ret_void()

    @contextmanager
    def _groups(self) -> Generator[None]:
        """The loop over groups of rows; their addresses are in `x_rows` and `result_rows`."""
        builder, count = self.builder, self.blocking.rows
        last = self.rows if self.blocking.max_rows > 1 else builder.i64(1)
        with builder.loop(builder.i64(0), last, count, "group") as first:
            numbers = [builder.add(first, builder.i64(i)) for i in range(count)]
            self.x_rows = [builder.offset(self.x, builder.mul(self.x_row, i)) for i in numbers]
            self.result_rows = [builder.offset(self.result, builder.mul(self.result_row, i)) for i in numbers]
            yield

    def _along_n(self, matrix: Value, k_stride: Value, k: Value, columns: Value) -> None:
        """Adds x[:, k] * row k to the results, `_MATRIX_ROWS` rows at a time."""
        builder = self.builder
        full = builder.and_(k, builder.i64(-_MATRIX_ROWS))
        for first, last, count in ((builder.i64(0), full, _MATRIX_ROWS), (full, k, 1)):
            with builder.loop(first, last, count, "k") as i:
                indices = [builder.add(i, builder.i64(r)) for r in range(count)]
                pointers = [builder.offset(matrix, builder.mul(r, k_stride)) for r in indices]
                with self._groups():
                    self._add_rows(pointers, indices, columns)

    def _add_rows(self, rows: list[Value], indices: list[Value], columns: Value) -> None:
        builder, width = self.builder, self.width
        full = builder.and_(columns, builder.i64(-width))
        factors: list[list[Value]] | None = None
        if self.blocking.rows * len(rows) <= _HOISTED_FACTORS:
            factors = [self._elements(index) for index in indices]
        with builder.loop(builder.i64(0), full, width, "column") as j:
            self._add_vector(rows, indices, factors, j, width, None)
        if self.masked:
            left = builder.sub(columns, full)
            with builder.when(builder.icmp_signed(">", left, builder.i64(0))):
                self._add_vector(rows, indices, factors, full, width, lane_mask(builder, left, width))
        else:
            with builder.loop(full, columns, name="tail") as j:
                self._add_vector(rows, indices, factors, j, 1, None)

    def _add_vector(
        self,
        rows: list[Value],
        indices: list[Value],
        factors: list[list[Value]] | None,
        j: Value,
        width: int,
        mask: Value | None,
    ) -> None:
        builder, size = self.builder, size_of(self.compute)
        places = [builder.gep(self.compute, row, j) for row in self.result_rows]
        totals = [load_as(builder, self.compute, self.compute, place, width, mask) for place in places]
        for r, row in enumerate(rows):
            pointer = builder.offset(row, builder.mul(j, builder.i64(size_of(self.matrix))))
            value = load_as(builder, self.compute, self.matrix, pointer, width, mask)
            elements = self._elements(indices[r]) if factors is None else factors[r]
            totals = [
                builder.multiply_add(value, builder.splat(element, width), total)
                for element, total in zip(elements, totals)
            ]
        for total, place in zip(totals, places):
            if mask is None:
                builder.store(total, place, size)
            else:
                builder.masked_store(total, place, mask, size)

    def _along_k(self, matrix: Value, column_stride: Value, k: Value, columns: Value) -> None:
        """Adds dot products of rows of x and columns, a few columns at a time."""
        builder, size = self.builder, size_of(self.compute)
        full = builder.sub(columns, builder.urem(columns, builder.i64(self.blocking.columns)))
        for first, last, count in ((builder.i64(0), full, self.blocking.columns), (full, columns, 1)):
            with builder.loop(first, last, count, "column") as j:
                indices = [builder.add(j, builder.i64(c)) for c in range(count)]
                pointers = [builder.offset(matrix, builder.mul(c, column_stride)) for c in indices]
                with self._groups():
                    for row, totals in zip(self.result_rows, self._dot_products(pointers, k), strict=True):
                        place = builder.gep(self.compute, row, j)
                        before = builder.load(totals.type, place, size)
                        builder.store(builder.fadd(before, totals), place, size)

    def _dot_products(self, columns: list[Value], k: Value) -> list[Value]:
        """The products of all columns with each row, a vector for each row: vectors of partial sums folded by halves,
        then the rest of k.
        """
        builder, accumulators = self.builder, self.blocking.accumulators
        step, count = self.width * accumulators, len(columns) * self.blocking.rows
        full = builder.and_(k, builder.i64(-step))
        zeros = [zero(self.type)] * (count * accumulators)
        with builder.loop_with(builder.i64(0), full, zeros, step, "k") as (k_index, sums, following):
            for part in range(accumulators):
                index = builder.add(k_index, builder.i64(part * self.width))
                following.extend(self._step(columns, index, sums[part * count : (part + 1) * count]))
        folded: list[Value] = list(sums[:count])
        for part in range(1, accumulators):
            folded = [builder.fadd(total, sums[part * count + c]) for c, total in enumerate(folded)]
        with builder.loop_with(full, k, self._folded(folded, len(columns)), 1, "tail") as (k_index, carried, following):
            following.extend(self._tail_step(columns, k_index, carried))
        return list(carried)

    def _folded(self, sums: list[Value], columns: int) -> list[Value]:
        """The sums of the lanes, which are those of all columns for each row: as many at once as a vector has lanes."""
        parts = [vector_sums(self.builder, sums[i : i + self.width]) for i in range(0, len(sums), self.width)]
        while len(parts) > 1 and parts[0].type.width < columns:
            parts = [self.builder.concatenate(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        if len(sums) == columns:
            return parts
        starts, lanes = range(0, len(sums), columns), parts[0].type.width
        return [self.builder.lanes(parts[i // lanes], i % lanes, columns) for i in starts]

    def _tail_step(self, columns: list[Value], index: Value, totals: Sequence[Value]) -> list[Value]:
        """Adds the products of one element of each column and of each row of x."""
        builder = self.builder
        offset = builder.mul(index, builder.i64(size_of(self.matrix)))
        elements = [load_as(builder, self.compute, self.matrix, builder.offset(c, offset), 1) for c in columns]
        values = elements[0]
        if len(elements) > 1:
            values = poison(vector(self.compute, len(elements)))
            for lane, element in enumerate(elements):
                values = builder.insert_element(values, element, lane)
        factors = [builder.splat(x, len(elements)) for x in self._elements(index)]
        return [builder.multiply_add(values, factor, total) for factor, total in zip(factors, totals, strict=True)]

    def _step(self, columns: list[Value], index: Value, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of a vector of elements of each column and of each row of x: the columns of a row first."""
        builder = self.builder
        offset = builder.mul(index, builder.i64(size_of(self.matrix)))
        places = [builder.offset(column, offset) for column in columns]
        values = [load_as(builder, self.compute, self.matrix, place, self.width) for place in places]
        factors = [self._load_x(self.type, row, index) for row in self.x_rows]
        pairs = [(value, factor) for factor in factors for value in values]
        return [builder.multiply_add(*pair, total) for pair, total in zip(pairs, sums, strict=True)]

    def _elements(self, index: Value) -> list[Value]:
        """Element `index` of every row of x."""
        return [self._load_x(self.compute, row, index) for row in self.x_rows]

    def _load_x(self, type: LLVMType, row: Value, index: Value) -> Value:
        return self.builder.load(type, self.builder.gep(self.compute, row, index), size_of(self.compute))
