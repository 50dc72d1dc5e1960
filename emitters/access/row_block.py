"""Columns of short rows in registers, read from memory and written to it.

Where the lanes of a vector are rows that lie behind each other, gathers of one column after the other would touch each
row as often as it is long. Instead the rows are loaded, as many elements of each as the next power of two says, and
turned by shuffles. The first column that is needed loads the block, the others find it. Columns that are written are
turned to rows in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineExpr
from xjit.emitters.loops.iteration_space import MAX_COLUMNS
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.llvm.builder import IRBuilder
from xjit.llvm.transpose import transpose_blocks
from xjit.llvm.types import I64, LLVMType, vector
from xjit.llvm.values import Value, const_int, poison


def row_length(pattern: Sequence[int]) -> int:
    """How long the rows of a block are, one element of which is in each lane; 0 if lanes lie otherwise."""
    step = pattern[1] - pattern[0] if len(pattern) > 1 else 0
    is_block = 1 < step <= MAX_COLUMNS and tuple(pattern) == tuple(range(0, step * len(pattern), step))
    return step if is_block else 0


def load_column(
    nest: LoopNest, pointer: Value, kind: LLVMType, offset: AffineExpr, rows: int, length: int, size: int
) -> Value | None:
    """Returns one element of each of `rows` rows of `length`, the first one at `offset`; None if that is no column.

    `size`: elements of the array. Nothing behind it is read.
    """
    if rows & rows - 1 or any(factor % length for _, factor in offset.terms):
        return None
    column = offset.constant_term % length
    start = offset - column
    bounds = nest.interval(start)  # of all lanes
    if bounds.lower < 0 or bounds.upper + length > size:
        return None
    level = nest.levels[nest.depth_of(offset)]
    key = ("rows", pointer.text, kind, start, rows)
    columns = level.cache.get(key)
    if columns is None:
        block = _Block(level.builder, pointer, kind, nest.index_value(start), length)
        lanes = min(rows, nest.target.vector_bits // kind.bits)
        columns = level.cache[key] = block.columns(rows, lanes)
    return columns[column]


class _Block:
    """Rows behind each other in memory, from `start` on."""

    def __init__(self, builder: IRBuilder, pointer: Value, kind: LLVMType, start: Value, length: int) -> None:
        self._builder, self._kind, self._length = builder, kind, length
        self._first = builder.gep(kind, pointer, start)

    def columns(self, rows: int, lanes: int) -> list[Value]:
        """Returns all columns of that many rows, which are turned `lanes` at a time."""
        pieces = [self._turned(first, lanes, rows) for first in range(0, rows, lanes)]
        return [_side_by_side(self._builder, parts) for parts in zip(*pieces, strict=True)]

    def _turned(self, first: int, lanes: int, rows: int) -> list[Value]:
        builder, side = self._builder, min(1 << (self._length - 1).bit_length(), lanes)
        columns: list[Value] = []
        for column in range(0, self._length, side):
            vectors = [
                _side_by_side(builder, [self._row(row, column, side, rows) for row in range(i, first + lanes, side)])
                for i in range(first, first + side)
            ]
            columns += transpose_blocks(builder, vectors)
        return columns[: self._length]

    def _row(self, row: int, column: int, width: int, rows: int) -> Value:
        """Loads `width` elements of a row; what they are behind the last row is not read."""
        builder, place = self._builder, row * self._length + column
        over = max(0, place + width - rows * self._length)
        address = builder.gep(self._kind, self._first, const_int(I64, place - over))
        loaded = builder.load(vector(self._kind, width), address, align=self._kind.bits // 8)
        return (
            builder.shuffle_vector(loaded, None, [min(n + over, width - 1) for n in range(width)]) if over else loaded
        )


def store_columns(builder: IRBuilder, address: Value, columns: Sequence[Value], lanes: int) -> None:
    """Writes vectors of as many lanes as there are rows, from an address on: row after row, one element of each.

    `lanes`: those of a register. What is written behind a row's end is overwritten by the next row, and nothing is
    written behind the last one.
    """
    rows, length, kind = columns[0].type.width, len(columns), columns[0].type.elem
    lanes = min(rows, lanes)
    side = min(1 << (length - 1).bit_length(), lanes)
    for first in range(0, rows, lanes):
        pieces: dict[tuple[int, int], Value] = {}
        for column in range(0, length, side):
            block = [builder.lanes(c, first, lanes) if lanes < rows else c for c in columns[column : column + side]]
            block += [poison(block[0].type)] * (side - len(block))
            for i, turned in enumerate(transpose_blocks(builder, block)):
                for lane in range(0, lanes, side):
                    pieces[first + lane + i, column] = builder.lanes(turned, lane, side) if side < lanes else turned
        for (row, column), piece in sorted(pieces.items(), key=lambda item: item[0]):
            place = builder.gep(kind, address, const_int(I64, row * length + column))
            if row == rows - 1 and column + side > length:
                builder.store_first(piece, length - column, place, kind.bits // 8)
            else:
                builder.store(piece, place, align=kind.bits // 8)


def _side_by_side(builder: IRBuilder, parts: Sequence[Value]) -> Value:
    while len(parts) > 1:
        parts = [builder.concatenate(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
