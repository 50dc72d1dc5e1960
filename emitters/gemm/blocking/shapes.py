"""What a matrix multiplication computes and how it is blocked: plain numbers, no code generation.

`GemmShape` is the mathematical problem with its strides; `GemmParameters` is the record of 64-bit integers that the
emitted function reads: everything about a multiplication except its element types is data, so that one function
serves all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

MAX_BATCH_DIMENSIONS = 3


def numbers_of(record: Any) -> tuple[int, ...]:
    """Returns the fields of a dataclass of numbers, in order. (`astuple` copies each: a tenth of the speed.)"""
    return _getter(type(record))(record)


@cache
def _getter(kind: type[Any]) -> attrgetter[tuple[int, ...]]:
    return attrgetter(*[field.name for field in fields(kind)])


@dataclass(frozen=True, slots=True)
class BatchDimension:
    """One loop around the multiplication: its size, and how far each operand moves per step, in elements."""

    size: int
    lhs_stride: int
    rhs_stride: int
    out_stride: int


@dataclass(frozen=True, slots=True)
class GemmShape:
    """out[b, m, n] = sum over (ko, ki) of lhs[b, m, ko, ki] * rhs[b, ko, ki, n]. Strides are in elements, of any sign.

    k is split in `k_outer` runs of `k_inner`, for contracted dimensions that do not collapse into one.
    """

    m: int
    n: int
    k_inner: int
    lhs_row: int
    lhs_k_inner: int
    rhs_k_inner: int
    rhs_column: int
    out_row: int
    out_column: int = 1
    k_outer: int = 1
    lhs_k_outer: int = 0
    rhs_k_outer: int = 0
    batch: tuple[BatchDimension, ...] = ()

    @property
    def k(self) -> int:
        """The number of products per element."""
        return self.k_outer * self.k_inner

    @property
    def num_batches(self) -> int:
        """The number of multiplications."""
        product = 1
        for dimension in self.batch:
            product *= dimension.size
        return product

    @property
    def flops(self) -> int:
        """Additions and multiplications."""
        return 2 * self.num_batches * self.m * self.n * self.k


def span(extents: Iterable[tuple[int, int]]) -> int:
    """Elements from the first to the last of an array of some (size, stride >= 0)."""
    return 1 + sum((size - 1) * stride for size, stride in extents)


def operand_spans(shape: GemmShape) -> tuple[int, int]:
    """The spans of the left and the right operand."""
    k = (shape.k_outer, shape.lhs_k_outer), (shape.k_inner, shape.lhs_k_inner)
    lhs = span([(shape.m, shape.lhs_row), *k, *((d.size, d.lhs_stride) for d in shape.batch)])
    k = (shape.k_outer, shape.rhs_k_outer), (shape.k_inner, shape.rhs_k_inner)
    return lhs, span([(shape.n, shape.rhs_column), *k, *((d.size, d.rhs_stride) for d in shape.batch)])


def row_major(
    m: int, n: int, k: int, *, transpose_lhs: bool = False, transpose_rhs: bool = False, batch: int = 1
) -> GemmShape:
    """Dense row-major matrices; a transposed operand is stored [k, m] or [n, k]."""
    lhs_row, lhs_k = (1, m) if transpose_lhs else (k, 1)
    rhs_k, rhs_column = (1, k) if transpose_rhs else (n, 1)
    dimensions = (BatchDimension(batch, m * k, k * n, m * n),) if batch != 1 else ()
    return GemmShape(m, n, k, lhs_row, lhs_k, rhs_k, rhs_column, n, batch=dimensions)


@dataclass(frozen=True, slots=True)
class GemmParameters:
    """The record, in order of its fields. Strides are in bytes; the meaning of blocking fields is in `plan.py`."""

    m: int
    n: int
    k_outer: int
    k_inner: int
    lhs_row: int
    lhs_k_outer: int
    lhs_k_inner: int
    rhs_k_outer: int
    rhs_k_inner: int
    rhs_column: int
    out_row: int
    out_column: int
    num_batches: int
    batch_size_0: int
    batch_size_1: int
    batch_lhs_0: int
    batch_lhs_1: int
    batch_lhs_2: int
    batch_rhs_0: int
    batch_rhs_1: int
    batch_rhs_2: int
    batch_out_0: int
    batch_out_1: int
    batch_out_2: int
    method: int
    swap_operands: int  # the transposed product: the few columns of the right operand are the rows of the left one
    block_m: int
    block_n: int
    block_k_outer: int
    block_k_inner: int
    blocks_m: int
    blocks_n: int
    batches_per_task: int
    num_tasks: int
    parallel: int
    pack_lhs: int
    pack_rhs: int
    lhs_leading: int  # bytes between rows of the packed left block
    woven: int  # batches whose matrices lie between each other, row by row, which are fetched together; 1 for none
    woven_rows: int  # rows that are fetched, `woven_stride` apart; 0: as many as a block has columns
    woven_stride: int
    use_scratch: int  # the result goes through a block of `compute` elements in the task's scratch

    def to_array(self) -> np.ndarray:
        """The record as int64."""
        return np.array(numbers_of(self), np.int64)
