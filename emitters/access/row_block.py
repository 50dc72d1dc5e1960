"""Columns of short rows in registers, read from memory and written to it.

Where the lanes of a vector are rows that lie behind each other, gathers of one column after the other would touch each
row as often as it is long. Instead the rows are loaded, as many elements of each as the next power of two says, and
turned by shuffles. The first column that is needed loads the block, the others find it. Columns that are written are
turned to rows in the same way. Rows may also lie where data say: a gather's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
    place = _place_in_row(nest, offset, length, size)
    if place is None or rows & rows - 1:
        return None
    start, column = place
    level = nest.levels[nest.depth_of(offset)]
    key = ("rows", pointer.text, kind, start, rows)
    columns = level.cache.get(key)
    if columns is None:
        builder, lanes = level.builder, min(rows, nest.target.vector_bits // kind.bits)
        first = builder.gep(kind, pointer, nest.index_value(start))

        def load(row: int, column: int, width: int) -> Value:
            """Loads elements of a row, and what is behind it; but not what is behind the last one."""
            place = row * length + column
            over = max(0, place + width - rows * length)
            address = builder.gep(kind, first, const_int(I64, place - over))
            loaded = builder.load(vector(kind, width), address, align=kind.bits // 8)
            moved = [min(n + over, width - 1) for n in range(width)]
            return builder.shuffle_vector(loaded, None, moved) if over else loaded

        columns = level.cache[key] = _turned(builder, load, rows, lanes, length)
    return columns[column]


def load_column_from_anywhere(
    nest: LoopNest, address_of: Callable[[AffineExpr], Value], kind: LLVMType, offset: AffineExpr, rows: int, size: int
) -> Value | None:
    """The same where data say where each row lies: `address_of` returns the addresses of the lanes' elements."""
    length = math.gcd(*(factor for _, factor in offset.terms))
    place = _place_in_row(nest, offset, length, size) if 1 < length <= MAX_COLUMNS else None
    if place is None or rows & rows - 1:
        return None
    start, column = place
    level = nest.levels[nest.depth_of(offset)]
    builder, addresses = level.builder, address_of(start)
    key = ("rows", addresses.text, kind)
    columns = level.cache.get(key)
    if columns is None:

        def load(row: int, column: int, width: int) -> Value:
            """Loads elements of a row, and nothing behind it."""
            count = min(width, length - column)
            address = builder.gep(kind, builder.extract_element(addresses, row), const_int(I64, column))
            loaded = builder.load(vector(kind, count), address, align=kind.bits // 8)
            if count == 1:
                return builder.insert_element(poison(vector(kind, width)), loaded, 0)
            present = [n if n < count else -1 for n in range(width)]
            return builder.shuffle_vector(loaded, None, present) if count < width else loaded

        lanes = min(rows, nest.target.vector_bits // kind.bits)
        columns = level.cache[key] = _turned(builder, load, rows, lanes, length)
    return columns[column]


def _place_in_row(nest: LoopNest, offset: AffineExpr, length: int, size: int) -> tuple[AffineExpr, int] | None:
    """Returns where the row of each lane's element begins, all of which is in the array, and the element's column."""
    if any(factor % length for _, factor in offset.terms):
        return None
    column = offset.constant_term % length
    bounds = nest.interval(offset - column)  # of all lanes
    return (offset - column, column) if bounds.lower >= 0 and bounds.upper + length <= size else None


LoadRow = Callable[[int, int, int], Value]
"""Loads from a row and a column on so many elements. What is behind the row's end may be anything."""


def _turned(builder: IRBuilder, load: LoadRow, rows: int, lanes: int, length: int) -> list[Value]:
    """Returns all columns of so many rows, which are turned `lanes` at a time."""
    side = min(1 << (length - 1).bit_length(), lanes)
    pieces: list[list[Value]] = [[] for _ in range(length)]
    for first in range(0, rows, lanes):
        for column in range(0, length, side):
            block = [
                _side_by_side(builder, [load(row, column, side) for row in range(i, first + lanes, side)])
                for i in range(first, first + side)
            ]
            for parts, part in zip(pieces[column:], transpose_blocks(builder, block)):
                parts.append(part)
    return [_side_by_side(builder, parts) for parts in pieces]


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
