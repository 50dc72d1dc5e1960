"""Transposes in registers: rows of a matrix become its columns by shuffles alone."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value


def transpose_blocks(builder: IRBuilder, rows: Sequence[Value]) -> list[Value]:
    """Transposes the square blocks that `len(rows)` vectors form side by side: log2(len(rows)) rounds of exchanges.

    The number of rows is a power of two that divides the vectors' width; as many rows as lanes are one block.
    """
    width = rows[0].type.width
    tile = list(rows)
    distance = 1
    while distance < len(rows):
        low = [lane if not lane & distance else lane - distance + width for lane in range(width)]
        high = [lane + distance if not lane & distance else lane + width for lane in range(width)]
        for i in range(len(rows)):
            if not i & distance:
                a, b = tile[i], tile[i + distance]
                tile[i] = builder.shuffle_vector(a, b, low)
                tile[i + distance] = builder.shuffle_vector(a, b, high)
        distance *= 2
    return tile
