"""Products of many rows by a small matrix, as points by a rotation, as sums of a few products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.attributes import DotAttributes
from xjit.ops import build
from xjit.passes.expand.dot_factors import free_dimensions, spread, sum_type
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

MIN_ROWS: Final = 256
MAX_TERMS: Final = 8
"""Of a sum, and columns of the small matrix."""
MAX_SMALL: Final = {"terms": 16, "vector": 4, "columns": 64, "rows": 9}
"""Elements of the small matrix, by what lies along memory in the large one: its terms, where the small one may be a
vector; its rows, that are rows of the result; or its rows, that are columns of the result, which products of matrices
are good at.
"""


@dataclass
class NarrowDotExpander(OpExpander):
    """Adds up an outer product for each term, where both other sizes are small.

    Loops over such results read and write whole vectors, of several rows; blocks of a product of matrices would be
    mostly empty.
    """

    name = "narrow-dot-expander"
    opcodes = frozenset({"dot"})

    def instruction_matches_pattern(self, instruction: HloInstruction) -> bool:
        """Whether a dot has plain operands, one of which is small."""
        a = instruction.attributes_as(DotAttributes)
        if a.sparsity or a.algorithm or instruction.operand_count != 2 or not instruction.shape.is_static_array:
            return False
        return _is_narrow(instruction, a) and super().instruction_matches_pattern(instruction)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the sum; None if it has no type that holds the operands' numbers as they are."""
        kind = sum_type(instruction)
        return None if kind is None or kind.is_complex else _sum_of_terms(instruction, kind, into)


def _is_narrow(dot: HloInstruction, a: DotAttributes) -> bool:
    free = free_dimensions(dot)
    columns, rows = sorted(_size(dot, side, free[side]) for side in range(2))
    terms = _size(dot, 0, a.lhs_contracting_dims)
    if rows < MIN_ROWS or not 1 < terms <= MAX_TERMS or not 0 < columns <= MAX_TERMS:
        return False
    large = int(_size(dot, 1, free[1]) == rows)
    batch = (a.lhs_batch_dims, a.rhs_batch_dims)[large]
    contracted = (a.lhs_contracting_dims, a.rhs_contracting_dims)
    minor = _minor(dot.operand(large), range(dot.operand(large).shape.rank))
    if minor in batch:
        return False
    if minor not in contracted[large]:
        return columns * terms <= MAX_SMALL["rows" if large else "columns"]
    small = 1 - large
    transposed = columns > 1 and _minor(dot.operand(small), range(dot.operand(small).shape.rank)) in contracted[small]
    fits = transposed or columns == 1 or dot.shape.element_type.bit_width <= 32  # products of f64 fill shorter vectors
    return fits and columns * terms <= MAX_SMALL["terms" if columns > 1 else "vector"]


def _size(dot: HloInstruction, side: int, dimensions: Sequence[int]) -> int:
    return math.prod(dot.operand(side).shape.dimensions[d] for d in dimensions)


def _minor(operand: HloInstruction, dimensions: Sequence[int]) -> int:
    """The last dimension of several elements, or -1."""
    return max((d for d in dimensions if operand.shape.dimensions[d] > 1), default=-1)


def _sum_of_terms(dot: HloInstruction, kind: PrimitiveType, into: Expansion) -> HloInstruction:
    a, free = dot.attributes_as(DotAttributes), free_dimensions(dot)
    sides = (
        (list(a.lhs_batch_dims), list(a.lhs_contracting_dims), list(range(len(a.lhs_batch_dims)))),
        (list(a.rhs_batch_dims), list(a.rhs_contracting_dims), list(range(len(a.rhs_batch_dims)))),
    )
    first = len(a.lhs_batch_dims)
    places = (range(first, first + len(free[0])), range(first + len(free[0]), dot.shape.rank))
    sizes = dot.shape.dimensions

    def factor(side: int, term: tuple[int, ...]) -> HloInstruction:
        operand, (batch, contracted, batch_places) = dot.operand(side), sides[side]
        starts, limits = [0] * operand.shape.rank, list(operand.shape.dimensions)
        for d, at in zip(contracted, term, strict=True):
            starts[d], limits[d] = at, at + 1
        part = into.add(build.slice_(operand, starts, limits))
        kept = [d for d in range(operand.shape.rank) if d not in contracted]
        part = into.add(build.reshape(part, [operand.shape.dimensions[d] for d in kept]))
        to = dict(zip([*batch, *free[side]], [*batch_places, *places[side]], strict=True))
        return spread(into, part, kind, sizes, {kept.index(d): place for d, place in to.items()})

    terms = itertools.product(*(range(dot.operand(0).shape.dimensions[d]) for d in a.lhs_contracting_dims))
    products = [into.make("multiply", factor(0, term), factor(1, term)) for term in terms]
    total = reduce(lambda x, y: into.make("add", x, y), products)
    return (
        total
        if total.shape.element_type is dot.shape.element_type
        else into.add(build.convert(total, dot.shape.element_type))
    )
