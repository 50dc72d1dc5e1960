"""Reductions to a few columns become reductions to many, whose results are reduced again.

Rows of a few elements would leave most lanes of a vector idle, and each row would wait for the one before. So several
rows are taken as one: f32[100000,3] is reduced as f32[4000,25,3] to f32[25,3], and that to f32[3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import is_row_major, may_rewrite, reduce_in_parts, reduced_dimensions


@dataclass
class NarrowReductionRewriter(OpExpander):
    """Reduces as many rows side by side as give at least `min_columns` columns, and then their results.

    Only the last reduced dimension is cut, where it has a divisor for that and leaves `min_rows` rows; the dimensions
    behind it stay. The reducer must have an identity.
    """

    name = "narrow-reduction-rewriter"
    opcodes = frozenset({"reduce"})
    min_columns: int = 64
    min_rows: int = 64

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the second reduction, or None."""
        if instruction.operand_count != 2 or not may_rewrite(instruction):
            return None
        array, reduced = instruction.operand(0), reduced_dimensions(instruction)
        side_by_side = self._rows_side_by_side(array, reduced)
        if not side_by_side:
            return None
        cut, sizes = reduced[-1], array.shape.dimensions
        in_rows = [*sizes[:cut], sizes[cut] // side_by_side, side_by_side, *sizes[cut + 1 :]]
        return reduce_in_parts(into, in_rows, reduced, [cut + 1])

    def _rows_side_by_side(self, array: HloInstruction, reduced: list[int]) -> int:
        """How many rows are taken as one; 0 if columns are enough, or rows too few, or none of their divisors fits."""
        sizes = array.shape.dimensions
        if not reduced or not is_row_major(array) or reduced != list(range(reduced[0], reduced[-1] + 1)):
            return 0
        last, columns = sizes[reduced[-1]], math.prod(sizes[reduced[-1] + 1 :])
        if not 1 < columns < self.min_columns:
            return 0
        fewest = -(-self.min_columns // columns)
        most = min(4 * fewest, math.prod(sizes[d] for d in reduced) // self.min_rows)
        return next((n for n in range(fewest, most + 1) if last % n == 0), 0)
