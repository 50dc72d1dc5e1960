"""Reductions in two stages, so that one block owns each result and no atomics are needed."""

from __future__ import annotations

import math

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import (
    arrays_of,
    bitcast,
    is_row_major,
    may_apply_init_twice,
    may_rewrite,
    reduce_again,
    reduced_dimensions,
    sum_in_two_steps,
)

VECTORIZED = 256
"""The least length of rows that are read in vectors."""


@dataclass
class GpuTreeReductionRewriter(OpExpander):
    """Splits reductions that are too long for one block, of row-major arrays whose reduced dimensions are grouped.

    A reduction of rows longer than `row_bound`, or of columns longer than `column_bound`, is reduced in pieces first,
    which are near the square root of the length, or with `split_near_sqrt=False` as long as the bound. The initial
    value, which must be one that may be used twice, pads what is missing. Batched rows, [R, K, R] with more than
    `batched_bound` batches, are reduced row by row first.
    """

    name = "gpu-tree-reduction-rewriter"
    opcodes = frozenset({"reduce"})
    row_bound: int = 16 * 1024
    column_bound: int = 4096
    batched_bound: int = 8
    split_near_sqrt: bool = True

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the second stage, or None if one is enough."""
        array, reduced = arrays_of(instruction)[0], reduced_dimensions(instruction)
        rank = array.shape.rank
        if not reduced or not may_rewrite(instruction) or not may_apply_init_twice(instruction):
            return None
        if not is_row_major(array):
            return None
        if rank == 3 and reduced == [0, 2] and array.shape.dimensions[0] > self.batched_bound:
            return sum_in_two_steps(into, array, [2], [0])
        last = reduced[-1]
        bound = self.row_bound if last == rank - 1 else self.column_bound
        if any(d + 1 in reduced for d in reduced) or array.shape.dimensions[last] <= bound:
            return None
        size = array.shape.dimensions[last]
        if not self.split_near_sqrt:
            return _in_pieces(into, array, reduced, math.ceil(size / bound), bound)
        count, piece = factors_near_sqrt(size)
        if last == rank - 1 and _is_better_swapped(size, count, piece):
            count, piece = piece, count
        return _in_pieces(into, array, reduced, count, piece)


def factors_near_sqrt(size: int) -> tuple[int, int]:
    """Returns (k, n / k) of the least n >= `size`, with k in (sqrt / 2, sqrt]: a power of two, else the largest k."""
    root = math.isqrt(size)
    candidates = range(root, root // 2, -1)
    best = min(candidates, key=lambda k: (-size % k, k & (k - 1) != 0, -k))
    return best, math.ceil(size / best)


def _is_better_swapped(size: int, count: int, piece: int) -> bool:
    """Whether pieces of rows should have the smaller length: vectors are loaded from an even number of at least
    VECTORIZED elements; where a padding keeps them from that, the odd factor is the better length.
    """
    if count * piece != size:
        return piece % 2 == 0 and count % 2 == 1
    return piece % 2 == 1 and count % 2 == 0 and count >= VECTORIZED


def _in_pieces(into: Expansion, array: HloInstruction, reduced: list[int], count: int, piece: int) -> HloInstruction:
    """Reduces pieces of the last reduced dimension, with the other reduced ones, and then the pieces' results."""
    sizes, split = list(array.shape.dimensions), reduced[-1]
    padding = [(0, count * piece - size if d == split else 0, 0) for d, size in enumerate(sizes)]
    if padding[split][1]:
        array = into.add(build.pad(array, into.source.operand(1), padding))
    pieces = Shape.array(array.shape.element_type, [*sizes[:split], count, piece, *sizes[split + 1 :]])
    kept = [d for d in range(pieces.rank) if d != split + 1 and d not in reduced[:-1]]
    partial = Shape.array(pieces.element_type, [pieces.dimensions[d] for d in kept])
    first = reduce_again(into, [bitcast(into, array, pieces)], [*reduced[:-1], split + 1], [partial])
    return reduce_again(into, [first], [kept.index(split)], [into.source.shape])
