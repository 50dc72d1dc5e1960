"""Transposes in registers: rows of a matrix become its columns by shuffles alone."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import FLOAT, vector
from xjit.llvm.values import Value

UNPACKED_BITS = 128
"""Parts of a vector in which x86 interleaves the halves of two others by one instruction."""


def transpose_blocks(builder: IRBuilder, rows: Sequence[Value]) -> list[Value]:
    """Transposes the square blocks that `len(rows)` vectors form side by side: log2(len(rows)) rounds of exchanges.

    The number of rows is a power of two that divides the vectors' width; as many rows as lanes are one block.
    """
    tile = list(rows)
    part = UNPACKED_BITS // rows[0].type.elem.bits
    distance = 1
    if 1 < part <= len(rows):
        tile = [_fenced(builder, row) for row in _transpose_parts(builder, tile, part)]
        distance = part
    width = rows[0].type.width
    by_halves = len(rows) == width and distance > 1
    while distance < len(rows):
        lanes = _halves(width, part) if by_halves else _places(width, distance)
        _shuffle_pairs(builder, tile, distance, *lanes)
        distance *= 2
    return tile


def _transpose_parts(builder: IRBuilder, tile: list[Value], part: int) -> list[Value]:
    """The first log2(part) rounds: blocks of `part` rows and lanes are transposed where they are.

    Each round interleaves groups of lanes of two rows, where an exchange would take two instructions. That leaves the
    rows of a block in the order of their numbers' reversed bits.
    """
    width, rounds, group = tile[0].type.width, part.bit_length() - 1, 1
    while group < part:
        low: list[int] = []
        for lane in range(width):
            first, place = lane & -part, lane & (part - 1)
            source = first + place // (2 * group) * group + place % group
            low.append(source + width if place & group else source)
        _shuffle_pairs(builder, tile, group, low, [lane + part // 2 for lane in low])
        group *= 2
    return [tile[(i & -part) + _reversed_bits(i & (part - 1), rounds)] for i in range(len(tile))]


def _fenced(builder: IRBuilder, row: Value) -> Value:
    """The same vector, through which instruction selection does not look: combining chains of shuffles, of which
    nothing comes, took half of the time that a program with one transpose is compiled in.
    """
    fenced = vector(FLOAT, row.type.bits // FLOAT.bits)
    return builder.bitcast(builder.intrinsic("arithmetic.fence", fenced, [builder.bitcast(row, fenced)]), row.type)


def _halves(width: int, part: int) -> tuple[list[int], list[int]]:
    """Lanes of the even, and of the odd parts of two vectors behind each other: x86 has one instruction for that.

    A round makes the lowest bit of a part's number that of its row, and the row's bit the highest of the number; as
    many rounds as a number has bits transpose a square.
    """
    even = [first + lane for first in range(0, 2 * width, 2 * part) for lane in range(part)]
    return even, [lane + part for lane in even]


def _places(width: int, distance: int) -> tuple[list[int], list[int]]:
    """Lanes that exchange every second group of `distance` lanes with the vector that far behind."""
    low = [lane if not lane & distance else lane - distance + width for lane in range(width)]
    return low, [lane + distance if not lane & distance else lane + width for lane in range(width)]


def _shuffle_pairs(builder: IRBuilder, tile: list[Value], distance: int, low: list[int], high: list[int]) -> None:
    """Replaces each row and the one `distance` behind it by two shuffles of both."""
    for i in range(len(tile)):
        if not i & distance:
            a, b = tile[i], tile[i + distance]
            tile[i] = builder.shuffle_vector(a, b, low)
            tile[i + distance] = builder.shuffle_vector(a, b, high)


def _reversed_bits(number: int, count: int) -> int:
    """The number of `count` bits with its bits in reverse order."""
    return int(f"{number:0{count}b}"[::-1], 2)
