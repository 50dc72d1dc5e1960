"""What one blocked product computes and how it is blocked: plain numbers, no code generation.

The emitted function is one for all sizes: it reads the record of 64-bit integers that `ScoreParameters` is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.llvm.target import Target
from xjit.llvm.types import FLOAT, LLVMType
from xjit.passes.analysis.attention.half_planes import MAX_PLANES
from xjit.passes.analysis.attention.masks import NOTHING_MASKED, Masked

COMPUTE = FLOAT
COMPUTE_BYTES = 4
PRODUCTS = GemmTypes(COMPUTE, COMPUTE, COMPUTE)
"""Operands are packed to the type of the sums, and multiplied by multiply-adds."""
MAX_DEPTH = 512
"""The longest rows of operands: scratch memory holds blocks of them."""
LEFT_BYTES = 128 << 10
"""Of a block of rows of a left operand, and of the sums: beside what is below, in the second-level cache."""
RIGHT_BYTES = 64 << 10
"""Of a block of columns of a right operand: all rows of a block are multiplied with it."""
MAX_ROWS = 512
MAX_COLUMNS = 512
ALIGNMENT = 64
ENOUGH_UNITS = 8
"""Units that a product is cut into, if it has the rows: shared out by a few threads."""


@dataclass(frozen=True, slots=True)
class ScoreTypes:
    """Storage types: of both operands of each product that scores are made from, of the right operand, the result.

    With `softmax` the scores are the exponentials of one along the columns, whose sums the result `divides` by, if it
    does; its maxima and sums may be stored, too. If it is `scaled`, differences to the maxima are times a number.
    """

    tiles: tuple[tuple[LLVMType, LLVMType], ...]
    right: LLVMType
    out: LLVMType
    softmax: bool
    divides: bool = True
    scaled: bool = False

    @property
    def mangled(self) -> str:
        """The types as part of a name."""
        kinds = [*(kind for pair in self.tiles for kind in pair), self.right, self.out]
        name = ("softmax" if self.divides else "exponentials") if self.softmax else "scores"
        return "_".join((name, *(("scaled",) if self.scaled else ()), *(kind.mangled for kind in kinds)))


@dataclass(frozen=True, slots=True)
class TileStrides:
    """One product that scores are made from: left[row, k] * right[column, k]. Strides in elements."""

    depth: int
    left_row: int
    left_k: int
    right_column: int
    right_k: int


@dataclass(frozen=True, slots=True)
class ScoreShape:
    """A batch of products of scores [rows, columns] with right [columns, width]. Strides in elements."""

    num_batches: int
    rows: int
    columns: int
    width: int
    tiles: tuple[TileStrides, ...]
    right_row: int
    right_column: int
    out_row: int
    out_column: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.num_batches * self.rows * self.columns * (self.width + sum(t.depth for t in self.tiles))


@dataclass(frozen=True, slots=True)
class Blocking:
    """Rows of a unit of work, and columns of a block of scores. Sums are added block by block, so `columns` decides
    about bits, and `rows` does not.
    """

    rows: int
    columns: int
    units_per_batch: int


def plan_blocks(shape: ScoreShape, target: Target) -> Blocking:
    """Returns the blocks for a shape: by the sizes of caches, and for enough units of work."""
    tile = register_tile(target, PRODUCTS)
    widest = padded(max(shape.width, *(t.depth for t in shape.tiles)), tile.width)
    columns = min(MAX_COLUMNS, RIGHT_BYTES // (COMPUTE_BYTES * widest))
    columns = max(tile.columns, columns // tile.columns * tile.columns)
    rows = min(MAX_ROWS, LEFT_BYTES // left_row_bytes(widest))
    while rows > 8 * tile.rows and shape.num_batches * -(-shape.rows // rows) < ENOUGH_UNITS:
        rows //= 2
    units = -(-shape.rows // rows)
    rows = padded(-(-shape.rows // units), tile.rows)
    return Blocking(rows, columns, -(-shape.rows // rows))


def padded(size: int, multiple: int) -> int:
    """The next multiple."""
    return -(-size // multiple) * multiple


def left_row_bytes(depth: int) -> int:
    """Bytes between packed rows: whole lines, an odd number of them, so that rows fall into different cache sets."""
    lines = -(-depth * COMPUTE_BYTES // 64)
    return 64 * (lines + 1 - lines % 2)


PLANE_FIELDS = tuple(f"plane_{n}_{name}" for n in range(MAX_PLANES) for name in ("row", "column", "offset"))
"""Fields of a record that say where scores are masked."""


def plane_numbers(masked: Masked) -> list[int]:
    """Returns the values of PLANE_FIELDS; half-planes that are not there have nothing in them."""
    planes = [(plane.row, plane.column, plane.offset) for plane in masked.planes]
    return [number for plane in planes + [(0, 0, -1)] * (MAX_PLANES - len(planes)) for number in plane]


@dataclass(frozen=True, slots=True)
class ScoreParameters:
    """The record, in order of its fields. Strides are in bytes; those of a second tile are 0 if there is none.

    `bound` is the bits of a number that no masked score exceeds, `slope` those of what products may add to it,
    `factor` those of what differences to the maxima are times.
    """

    columns: int
    block_columns: int
    width: int
    depth_0: int
    left_row_0: int
    left_k_0: int
    right_column_0: int
    right_k_0: int
    depth_1: int
    left_row_1: int
    left_k_1: int
    right_column_1: int
    right_k_1: int
    right_row: int
    right_column: int
    out_row: int
    out_column: int
    maximum_row: int
    total_row: int
    bound: int
    slope: int
    factor: int
    plane_0_row: int
    plane_0_column: int
    plane_0_offset: int
    plane_1_row: int
    plane_1_column: int
    plane_1_offset: int

    @staticmethod
    def of(
        shape: ScoreShape,
        types: ScoreTypes,
        blocking: Blocking,
        statistics: tuple[int, int] = (0, 0),
        masked: Masked = NOTHING_MASKED,
        factor: float = 1.0,
    ) -> ScoreParameters:
        """Returns the record for a shape; `statistics` are the strides of maxima and sums, in elements."""
        tiles: list[int] = []
        for strides, (left, right) in zip(shape.tiles, types.tiles, strict=True):
            a, b = left.bits // 8, right.bits // 8
            tiles += [strides.depth, strides.left_row * a, strides.left_k * a]
            tiles += [strides.right_column * b, strides.right_k * b]
        tiles += [0] * (10 - len(tiles))
        right, out = types.right.bits // 8, types.out.bits // 8
        numbers = (
            *(shape.columns, blocking.columns, shape.width, *tiles),
            *(shape.right_row * right, shape.right_column * right, shape.out_row * out, shape.out_column * out),
            *(COMPUTE_BYTES * stride for stride in statistics),
            *(int(np.float32(number).view(np.uint32)) for number in (masked.bound, masked.slope, factor)),
            *plane_numbers(masked),
        )
        return ScoreParameters(*numbers)

    def to_array(self) -> np.ndarray:
        """The record as int64."""
        return np.array(dataclasses.astuple(self), np.int64)
