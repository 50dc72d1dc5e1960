"""Which method multiplies matrices of given types, sizes and strides: tiles, or one of the two for a few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from xjit.emitters.gemm.blocking.shapes import BatchDimension, GemmShape
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.blocking.units import (
    TILE_LANES,
    LaneFacts,
    Unit,
    best_unit,
    lane_facts,
    num_planes,
    plane_products,
)
from xjit.llvm.target import Target
from xjit.llvm.types import DOUBLE, FLOAT, I32, LLVMType

MIN_PLANE_SIZE = 256  # rows and columns (`gains_by_planes`)
MIN_PLANE_TERMS = 1024
SKINNY_K = 32
NARROW_ROWS = 4  # times as many as `MAX_ROWS`: of a product whose columns are rather its rows
MAX_ROWS = 8
"""Rows that a vector method takes. All of a chunk of them are packed, and stay in the cache with the piece of the
matrix at hand.
"""


class Method(IntEnum):
    """How a multiplication is done."""

    ZERO = 0  # k == 0: fill with zeros
    TILES = 1
    VECTOR_ALONG_N = 2  # few rows, rhs contiguous along n: axpy over its rows
    VECTOR_ALONG_K = 3  # few rows, rhs contiguous along k: dot products


SKINNY_BYTES = {Method.VECTOR_ALONG_N: 2 << 20, Method.VECTOR_ALONG_K: 64 << 10}
"""Of a matrix that is worth reading once, in streams, for a few rows."""


@dataclass(frozen=True, slots=True)
class GemmTypes:
    """Storage types of the operands and the result, and the unit that forms products."""

    lhs: LLVMType = FLOAT
    rhs: LLVMType = FLOAT
    out: LLVMType = FLOAT
    unit: Unit = Unit.FMA

    @property
    def compute(self) -> LLVMType:
        """The type that sums are kept in."""
        return self.lanes.sums

    @property
    def lanes(self) -> LaneFacts:
        """What operands are packed to. Multiply-adds: f64 if anything is f64, f32 for other floats, the widest integer,
        of 32 bits at least.
        """
        types = (self.lhs, self.rhs, self.out)
        if any(type.is_float for type in types):
            widest = DOUBLE if DOUBLE in types else FLOAT
        else:
            widest = max(I32, *types, key=lambda type: type.bits)
        return lane_facts(self.unit, self.lhs, self.rhs, widest)

    @property
    def planes(self) -> tuple[int, int]:
        """Planes that are packed of the left and the right operand."""
        return num_planes(self.unit, self.lhs), num_planes(self.unit, self.rhs)

    @property
    def plane_products(self) -> list[tuple[int, int]]:
        """The planes that are multiplied with each other."""
        return plane_products(*self.planes)

    @property
    def name(self) -> str:
        """A part of the names of functions."""
        storage = f"{self.lhs.mangled}_{self.rhs.mangled}_{self.out.mangled}"
        return storage if self.unit is Unit.FMA else f"{storage}_{self.unit.value}"


def gains_by_planes(rows: int, columns: int, terms: int) -> bool:
    """Whether a product of floats is so large that a matrix unit gains by taking them apart.

    With measured rates of 145 GFLOP/s for multiply-adds and 1,680 / 6 for six products of planes, n columns save
    0.0067 n ns of each element of the left operand. Making its planes and looking at its range takes 1 ns or so, hence
    pays from 150 columns (or rows) on. Shorter sums are less exact than those of multiply-adds where neighbouring
    products cancel (docs/dots.md).
    """
    return min(rows, columns) >= MIN_PLANE_SIZE and terms >= MIN_PLANE_TERMS


def with_unit(types: GemmTypes, target: Target, shape: GemmShape | None = None, *, planes: bool = False) -> GemmTypes:
    """The types with the best unit that the target has for them, for a shape (None: one that fills any unit).

    `planes`: floats may be taken apart, and without a shape: they are worth it.
    """
    tiles = True
    if shape is not None:
        if vector_method(shape, types) is not None or prefers_swap(shape, types):
            return types
        tiles = shape.m >= TILE_LANES and shape.n >= TILE_LANES and shape.k >= 2 * TILE_LANES
        planes = planes and gains_by_planes(shape.m, shape.n, shape.k)
    return replace(types, unit=best_unit(target, types.lhs, types.rhs, types.out, tiles=tiles, planes=planes))


def prefers_swap(shape: GemmShape, types: GemmTypes) -> bool:
    """Whether the transposed product, with the operands in each other's place, has one of the vector methods, or else
    reads a large operand along vectors where this one would multiply a few columns at a time.
    """
    if shape.n >= shape.m or types.lhs is not types.rhs:
        return False
    fills_vectors = shape.n <= MAX_ROWS <= shape.m // NARROW_ROWS and shape.lhs_row == 1 and shape.k >= SKINNY_K
    return shape.n == 1 or fills_vectors or vector_method(transposed(shape), types) is not None


def lies_transposed(shape: GemmShape, types: GemmTypes) -> bool:
    """Whether the transposed product is the one whose rows are contiguous: of images with channels first."""
    return types.lhs is types.rhs and shape.out_row == 1 < shape.out_column and min(shape.m, shape.n) > 1


def transposed(shape: GemmShape) -> GemmShape:
    """The transposed product, with the operands in each other's place (their batch strides too)."""
    batch = tuple(BatchDimension(d.size, d.rhs_stride, d.lhs_stride, d.out_stride) for d in shape.batch)
    return GemmShape(
        m=shape.n, n=shape.m, k_inner=shape.k_inner, k_outer=shape.k_outer,
        lhs_row=shape.rhs_column, lhs_k_inner=shape.rhs_k_inner, lhs_k_outer=shape.rhs_k_outer,
        rhs_column=shape.lhs_row, rhs_k_inner=shape.lhs_k_inner, rhs_k_outer=shape.lhs_k_outer,
        out_row=shape.out_column, out_column=shape.out_row, batch=batch,
    )  # fmt: skip


def vector_method(shape: GemmShape, types: GemmTypes) -> Method | None:
    """How a vector, or a few rows, are multiplied with a matrix that is contiguous along n or k; None for TILES."""
    if types.unit is not Unit.FMA or not types.out.is_float or shape.k_outer != 1 or shape.n == 1 or shape.k == 0:
        return None
    if shape.rhs_column != 1 and shape.rhs_k_inner != 1:
        return None
    method = Method.VECTOR_ALONG_N if shape.rhs_column == 1 else Method.VECTOR_ALONG_K
    large = shape.n * shape.k * size_of(types.rhs) >= SKINNY_BYTES[method]
    long = method is Method.VECTOR_ALONG_N or shape.k >= SKINNY_K
    few = 1 < shape.m <= MAX_ROWS < shape.n
    return method if shape.m == 1 or (few and large and long) else None
