"""Stacks of stacks as one: matrices that are written element by element, as rotations are.

`stack([stack([a, b], -1), stack([c, d], -1)], -2)` joins `f32[n,2]` twice and `f32[n,1,2]` once more. In memory that is
one row of four columns, which kernels write at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import ConcatenateAttributes
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion


@dataclass
class ConcatenateDimensionGrouper(OpExpander):
    """Joins what concatenates of concatenates join along one dimension, of at most `max_columns`: that of the outer one
    and all behind it. The inner ones have no other users. Arrays must be row-major.
    """

    name = "concatenate-dimension-grouper"
    opcodes = frozenset({"concatenate"})
    max_columns: int = 16

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the joined columns in the shape they had; None if no operand is joined itself."""
        sizes = instruction.shape.dimensions if instruction.shape.is_static_array else ()
        axis = instruction.attributes_as(ConcatenateAttributes).dimension
        rows, columns = math.prod(sizes[:axis]), math.prod(sizes[axis:])
        if not 0 < columns <= self.max_columns or not rows or not instruction.shape.is_row_major:
            return None
        pieces = _pieces(instruction, rows)
        if pieces == list(instruction.operands):
            return None
        writer = Writer(into)
        parts = [writer.reshape(piece, (rows, piece.shape.num_elements // rows)) for piece in pieces]
        return writer.reshape(writer.concatenate(parts, 1), sizes)


def _pieces(concatenate: HloInstruction, rows: int) -> list[HloInstruction]:
    """What is joined to rows, that many of them, if what only this concatenate reads is taken apart."""
    pieces: list[HloInstruction] = []
    for operand in concatenate.operands:
        source = operand
        while source.opcode == "reshape" and source.user_count == 1:
            source = source.operand(0)
        if source.user_count == 1 and _joins_rows(source, rows):
            pieces += _pieces(source, rows)
        else:
            pieces.append(operand)
    return pieces


def _joins_rows(instruction: HloInstruction, rows: int) -> bool:
    if instruction.opcode != "concatenate" or not instruction.shape.is_row_major:
        return False
    axis = instruction.attributes_as(ConcatenateAttributes).dimension
    return math.prod(instruction.shape.dimensions[:axis]) == rows
