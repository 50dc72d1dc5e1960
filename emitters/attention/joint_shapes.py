"""What the products of one set of scores compute and how they are blocked: plain numbers, no code generation.

As `shapes`, for several products whose scores are made once. Sums over rows are those of a block of columns, which stay
in the cache; sums over columns are those of all rows, to which each block of columns comes back.
"""

from __future__ import annotations

import numpy as np

from xjit.dataclass import dataclass
from xjit.emitters.attention.shapes import (
    COMPUTE_BYTES,
    ENOUGH_UNITS,
    MAX_DEPTH,
    PLANE_FIELDS,
    PRODUCTS,
    TileStrides,
    left_row_bytes,
    padded,
    plane_numbers,
)
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.llvm.target import Target
from xjit.llvm.types import LLVMType
from xjit.passes.analysis.attention.masks import NOTHING_MASKED, Masked

JOINT_ROWS = 96
JOINT_COLUMNS = 128
PANEL_BYTES = 32 << 10
"""Of a block of an operand: several of them, and two of scores, lie in the second-level cache."""
PLANE_BYTES = JOINT_ROWS * left_row_bytes(JOINT_COLUMNS)


@dataclass(frozen=True, slots=True)
class MemberTypes:
    """Storage types of a product's right operand and result. Sums are over rows or over columns of `scores`."""

    scores: int
    over_rows: bool
    right: LLVMType
    out: LLVMType

    @property
    def mangled(self) -> str:
        """The types as part of a name."""
        return f"{'rows' if self.over_rows else 'columns'}{self.scores}_{self.right.mangled}_{self.out.mangled}"


@dataclass(frozen=True, slots=True)
class JointTypes:
    """Storage types: of both operands of each product that scores are made from, and of the products.

    `levels` is how often all scores of a block of columns are gone over for what is to be known of them first, as a
    softmax's maxima and sums; 0 if nothing is.
    """

    tiles: tuple[tuple[LLVMType, LLVMType], ...]
    members: tuple[MemberTypes, ...]
    levels: int = 0

    @property
    def planes(self) -> int:
        """How many products' scores there are at a time."""
        return max(len(self.tiles), 1 + max(m.scores for m in self.members))

    @property
    def mangled(self) -> str:
        """The types as part of a name."""
        kinds = [kind.mangled for pair in self.tiles for kind in pair]
        return "_".join((f"joint{self.levels or ''}", *kinds, *(member.mangled for member in self.members)))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names in the record of 64-bit integers that the emitted function reads; strides are in bytes."""
        tile_fields = ("depth", "left_row", "left_k", "right_column", "right_k")
        member_fields = ("width", "right_k", "right_column", "out_row", "out_column")
        names = ["columns", "block_rows", "block_columns", "plane_bytes", "needs_score_bound"]
        names += [f"tile_{n}_{name}" for n in range(len(self.tiles)) for name in tile_fields]
        names += [f"member_{n}_{name}" for n in range(len(self.members)) for name in member_fields]
        return (*names, *PLANE_FIELDS)


@dataclass(frozen=True, slots=True)
class MemberStrides:
    """One product: right[k, column], k being what is summed over, and out[row, column]. Strides in elements."""

    width: int
    right_k: int
    right_column: int
    out_row: int
    out_column: int


@dataclass(frozen=True, slots=True)
class JointShape:
    """A batch of sets of products of scores [rows, columns]."""

    num_batches: int
    rows: int
    columns: int
    tiles: tuple[TileStrides, ...]
    members: tuple[MemberStrides, ...]

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        depths = sum(t.depth for t in self.tiles) + sum(m.width for m in self.members)
        return 2 * self.num_batches * self.rows * self.columns * depths


@dataclass(frozen=True, slots=True)
class JointBlocking:
    """Rows and columns of a block of scores; rows of a unit of work. Sums are added block by block, in order: the sizes
    of blocks decide about bits, and `unit_rows` does not. `plane_bytes` are from the scores of one product to those of
    the next: the program's part counts on it.
    """

    rows: int
    columns: int
    unit_rows: int
    units_per_batch: int
    plane_bytes: int = PLANE_BYTES


def plan_joint_blocks(shape: JointShape, types: JointTypes, target: Target) -> JointBlocking:
    """Returns the blocks for a shape. A unit has all rows if something is summed over them."""
    tile = register_tile(target, PRODUCTS)
    widest = max(*(t.depth for t in shape.tiles), *(m.width for m in shape.members))
    fitting = PANEL_BYTES // (COMPUTE_BYTES * padded(widest, tile.width))
    columns = max(tile.columns, min(JOINT_COLUMNS, fitting) // tile.columns * tile.columns)
    fitting = PANEL_BYTES // left_row_bytes(widest)
    rows = max(tile.rows, min(JOINT_ROWS, fitting) // tile.rows * tile.rows)
    if types.levels:
        return JointBlocking(rows, columns, shape.rows, 1, shape.rows * left_row_bytes(columns))
    if any(member.over_rows for member in types.members):
        return JointBlocking(rows, columns, shape.rows, 1)
    blocks = -(-shape.rows // rows)
    wanted = -(-ENOUGH_UNITS // shape.num_batches)
    unit_rows = max(1, blocks // wanted) * rows
    return JointBlocking(rows, columns, unit_rows, -(-shape.rows // unit_rows))


def panel_bytes(target: Target) -> int:
    """Returns the most that a packed right operand takes: what is planned, and the padding of its last panel."""
    tile = register_tile(target, PRODUCTS)
    return PANEL_BYTES + COMPUTE_BYTES * MAX_DEPTH * tile.columns


def rows_bytes(target: Target) -> int:
    """Returns the most that the packed rows of a left operand, or sums, of a block take."""
    tile = register_tile(target, PRODUCTS)
    most = max(tile.rows, tile.columns) * left_row_bytes(MAX_DEPTH)
    return max(most, PANEL_BYTES + JOINT_COLUMNS * 2 * left_row_bytes(1))


def joint_parameters(
    shape: JointShape, types: JointTypes, blocking: JointBlocking, masked: Masked = NOTHING_MASKED
) -> np.ndarray:
    """Returns the record of a shape, as int64."""
    numbers = [shape.columns, blocking.rows, blocking.columns, blocking.plane_bytes, int(masked.needs_score_bound)]
    for tile, (left, right) in zip(shape.tiles, types.tiles, strict=True):
        a, b = left.bits // 8, right.bits // 8
        numbers += [tile.depth, tile.left_row * a, tile.left_k * a, tile.right_column * b, tile.right_k * b]
    for member, kinds in zip(shape.members, types.members, strict=True):
        a, b = kinds.right.bits // 8, kinds.out.bits // 8
        numbers += [member.width, member.right_k * a, member.right_column * a, member.out_row * b]
        numbers.append(member.out_column * b)
    return np.array([*numbers, *plane_numbers(masked)], np.int64)
