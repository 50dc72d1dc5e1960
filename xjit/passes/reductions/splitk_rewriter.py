"""Dots whose results are too few to share out are cut along what they sum over: split-K, as XLA does for GPUs.

The parts are one more batch dimension; their sum is a reduction. Where the cuts are depends on shapes alone, so the
result is the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import DimensionsAttributes, DotAttributes
from xjit.ops import build
from xjit.passes.expand.dot_factors import WIDE, free_dimensions
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

TILE = 64  # rows and columns of a usual block
MAX_PARTS = 64
CACHE_BYTES = 512 << 10  # of a part of a matrix that is multiplied with a few rows
MIN_SHORT_STEPS, MAX_SHORT_PARTS = 128, 512  # products of such a part, and how many there are


@dataclass
class SplitkRewriter(OpExpander):
    """Cuts a contracted dimension into parts, until there are `wanted_blocks` blocks of results.

    That is the one of which most parts can be made; those that lie next to each other in both operands count as one.
    Each part keeps at least `min_steps` products. What does not divide into equal parts is left alone. Of dots with at
    most `few_rows` rows or columns, blocks or not, the larger operand is read from memory once, as fast as it goes: it
    has parts of `CACHE_BYTES`, so that matrices which lie between each other are in the cache when their turn comes.
    """

    name = "splitk-rewriter"
    opcodes = frozenset({"dot"})
    wanted_blocks: int = 128
    min_steps: int = 256
    few_rows: int = 0

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the sum of the parts; None for a dot that has blocks enough, or nothing to cut."""
        attributes = instruction.attributes_as(DotAttributes)
        if attributes.sparsity or instruction.operand_count != 2 or not instruction.shape.is_static_array:
            return None
        lhs, rhs = instruction.operands
        pairs = list(zip(attributes.lhs_contracting_dims, attributes.rhs_contracting_dims, strict=True))
        if not pairs or not instruction.shape.num_elements or _is_in_parts(instruction, attributes):
            return None
        products = math.prod(lhs.shape.dimensions[d] for d, _ in pairs)
        runs = _runs(pairs)
        parts_of = [self._parts(instruction, math.prod(lhs.shape.dimensions[d] for d, _ in r), products) for r in runs]
        parts = max(parts_of)
        if parts == 1:
            return None
        kind = WIDE.get(instruction.shape.element_type, instruction.shape.element_type)
        run = runs[parts_of.index(parts)]
        others = [pair for r in runs if r is not run for pair in r]
        left, right = (_Cut(run[0][side], len(run)) for side in range(2))
        numbers = replace(
            attributes,
            lhs_batch_dims=(left.first, *left.moved(attributes.lhs_batch_dims)),
            rhs_batch_dims=(right.first, *right.moved(attributes.rhs_batch_dims)),
            lhs_contracting_dims=(left.first + 1, *left.moved(d for d, _ in others)),
            rhs_contracting_dims=(right.first + 1, *right.moved(d for _, d in others)),
        )
        partial = into.add(build.make_dot(left.of(lhs, parts, into), right.of(rhs, parts, into), numbers, kind))
        zero = into.add(build.make_constant(0, kind))
        add = into.embed(build.make_binary_computation("add", kind, "add"))
        total = into.add(build.make_reduce(partial, zero, [0], add))
        if kind is instruction.shape.element_type:
            return total
        return into.add(build.convert(total, instruction.shape.element_type))

    def _parts(self, dot: HloInstruction, size: int, products: int) -> int:
        """Returns into how many parts a dimension, and so the sums of all products, are cut: a power of two."""
        free = free_dimensions(dot)
        sizes = [math.prod(o.shape.dimensions[d] for d in dims) for o, dims in zip(dot.operands, free)]
        batches = dot.shape.num_elements // (sizes[0] * sizes[1])
        blocks = math.prod(-(-size // TILE) for size in sizes) * batches
        most, least, wanted = MAX_PARTS, self.min_steps, self.wanted_blocks
        if min(sizes) <= self.few_rows:
            of_one_product = max(operand.shape.byte_size for operand in dot.operands) // products
            most, least = MAX_SHORT_PARTS, min(least, max(MIN_SHORT_STEPS, CACHE_BYTES // of_one_product))
            wanted = most * blocks
        parts = 1
        while (
            2 * parts <= most
            and 2 * parts * blocks <= wanted
            and size % (2 * parts) == 0
            and products // (2 * parts) >= least
        ):
            parts *= 2
        return parts


def _is_in_parts(dot: HloInstruction, attributes: DotAttributes) -> bool:
    """Whether all that is done to a dot is to add up its batches."""
    batches = set(range(len(attributes.lhs_batch_dims)))
    return bool(dot.users) and all(
        user.opcode == "reduce" and not batches.isdisjoint(user.attributes_as(DimensionsAttributes).dimensions)
        for user in dot.users
    )


def _runs(pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The pairs of contracted dimensions, those together that are one dimension of both operands in memory."""
    runs: list[list[tuple[int, int]]] = []
    for left, right in sorted(pairs):
        if runs and runs[-1][-1] == (left - 1, right - 1):
            runs[-1].append((left, right))
        else:
            runs.append([(left, right)])
    return runs


@dataclass(frozen=True, slots=True)
class _Cut:
    """Dimensions from `first` on, `count` of them, as two: part and step."""

    first: int
    count: int

    def of(self, operand: HloInstruction, parts: int, into: Expansion) -> HloInstruction:
        """The operand with these dimensions."""
        sizes, behind = operand.shape.dimensions, self.first + self.count
        own = (parts, math.prod(sizes[self.first : behind]) // parts)
        return into.add(build.reshape(operand, [*sizes[: self.first], *own, *sizes[behind:]]))

    def moved(self, dimensions: Iterable[int]) -> tuple[int, ...]:
        """The numbers of other dimensions then."""
        return tuple(d + 2 - self.count if d > self.first else d for d in dimensions)
