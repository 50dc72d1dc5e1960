"""Products of many rows by a small matrix, as points by a rotation, as sums of a few products."""

from __future__ import annotations

import itertools
import math
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
MAX_TERMS_BYTES: Final = 64
"""Of the small matrix in the type of sums, where its terms lie along memory: narrow integers may be more elements."""


@dataclass
class NarrowDotExpander(OpExpander):
    """Adds up an outer product for each term, where both other sizes are small.

    Loops over such results read and write whole vectors, of several rows; blocks of a product of matrices would be
    mostly empty.
    """

    name = "narrow-dot-expander"
    opcodes = frozenset({"dot"})

    def instruction_matches_pattern(self, instruction: HloInstruction) -> bool:
        """Whether a dot has plain operands, one of which is small, and a type for its sums."""
        a = instruction.attributes_as(DotAttributes)
        if a.sparsity or a.algorithm or instruction.operand_count != 2 or not instruction.shape.is_static_array:
            return False
        kind = sum_type(instruction)
        if kind is None or kind.is_complex or not _is_narrow(instruction, kind):
            return False
        return super().instruction_matches_pattern(instruction)

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the sum, in the type that holds the operands' numbers as they are."""
        kind = sum_type(instruction)
        assert kind is not None
        return _sum_of_terms(instruction, kind, into)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot, and the roles of its dimensions."""

    value: HloInstruction
    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]

    @property
    def outputs(self) -> int:
        """Rows or columns of the result."""
        return math.prod(self.value.shape.dimensions[d] for d in self.free)

    @property
    def terms(self) -> int:
        """Products that are added up."""
        return math.prod(self.value.shape.dimensions[d] for d in self.contracted)

    @property
    def minor(self) -> int:
        """The last dimension of several elements."""
        return max((d for d, size in enumerate(self.value.shape.dimensions) if size > 1), default=-1)

    def term(self, place: tuple[int, ...], into: Expansion) -> tuple[HloInstruction, list[int]]:
        """The elements that one term needs, without the contracted dimensions, and the dimensions that are left."""
        sizes = self.value.shape.dimensions
        starts, limits = [0] * len(sizes), list(sizes)
        for d, at in zip(self.contracted, place, strict=True):
            starts[d], limits[d] = at, at + 1
        kept = [d for d in range(len(sizes)) if d not in self.contracted]
        part = into.add(build.slice_(self.value, starts, limits))
        return into.add(build.reshape(part, [sizes[d] for d in kept])), kept


def _sides(dot: HloInstruction) -> tuple[_Side, _Side]:
    a, (left, right) = dot.attributes_as(DotAttributes), free_dimensions(dot)
    return (
        _Side(dot.operand(0), a.lhs_batch_dims, a.lhs_contracting_dims, tuple(left)),
        _Side(dot.operand(1), a.rhs_batch_dims, a.rhs_contracting_dims, tuple(right)),
    )


def _is_narrow(dot: HloInstruction, kind: PrimitiveType) -> bool:
    sides = _sides(dot)
    small, large = sorted(sides, key=lambda side: side.outputs)
    columns, terms = small.outputs, small.terms
    if large.outputs < MIN_ROWS or not 1 < terms <= MAX_TERMS or not 0 < columns <= MAX_TERMS:
        return False
    if large.minor in large.batch:
        return False
    if large.minor in large.free:
        return columns * terms <= MAX_SMALL["columns" if large is sides[0] else "rows"]
    if columns == 1:
        return terms <= MAX_SMALL["vector"]
    fits = small.minor in small.contracted or dot.shape.element_type.bit_width <= 32  # f64 fills shorter vectors
    return fits and columns * terms <= max(MAX_SMALL["terms"], MAX_TERMS_BYTES * 8 // kind.bit_width)


def _sum_of_terms(dot: HloInstruction, kind: PrimitiveType, into: Expansion) -> HloInstruction:
    sides, sizes = _sides(dot), dot.shape.dimensions
    first = len(sides[0].batch)
    places = range(first, first + len(sides[0].free)), range(first + len(sides[0].free), dot.shape.rank)

    def factor(number: int, term: tuple[int, ...]) -> HloInstruction:
        side = sides[number]
        part, kept = side.term(term, into)
        results = [*range(first), *places[number]]
        at = dict(zip(map(kept.index, (*side.batch, *side.free)), results, strict=True))
        return spread(into, part, kind, sizes, at)

    terms = itertools.product(*(range(dot.operand(0).shape.dimensions[d]) for d in sides[0].contracted))
    products = [into.make("multiply", factor(0, term), factor(1, term)) for term in terms]
    total = reduce(lambda x, y: into.make("add", x, y), products)
    result = dot.shape.element_type
    return total if kind is result else into.add(build.convert(total, result))
