"""Products of matrices that are less than that: with dimensions of size 1, or of a matrix and a vector."""

from __future__ import annotations

from dataclasses import replace

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dots import (
    computes_in_its_type,
    converted_operands,
    dot_of,
    free_dimensions,
    free_sides,
)
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


def _without_ones(match: Match, into: Expansion) -> HloInstruction | None:
    """Dimensions of size 1 are dropped, and those of the result put back by a reshape."""
    dot, a = match.root, dot_of(match.root)
    gone = [[d for d, n in enumerate(o.shape.dimensions) if n == 1] for o in dot.operands]
    if not any(gone) or a.sparsity:
        return None
    operands: list[HloInstruction] = []
    maps: list[dict[int, int]] = []
    for o, drop in zip(dot.operands, gone, strict=True):
        kept = [d for d in range(o.shape.rank) if d not in drop]
        shape = o.shape.with_dimensions([o.shape.dimensions[d] for d in kept])
        operands.append(into.make("reshape", o, shape=shape) if drop else o)
        maps.append({d: i for i, d in enumerate(kept)})
    lhs, rhs = maps
    attributes = replace(
        a,
        lhs_batch_dims=tuple(lhs[d] for d in a.lhs_batch_dims if d in lhs),
        rhs_batch_dims=tuple(rhs[d] for d in a.rhs_batch_dims if d in rhs),
        lhs_contracting_dims=tuple(lhs[d] for d in a.lhs_contracting_dims if d in lhs),
        rhs_contracting_dims=tuple(rhs[d] for d in a.rhs_contracting_dims if d in rhs),
    )
    kept = dot.shape.with_dimensions([n for n in dot.shape.dimensions if n != 1])
    small = into.make("dot", *operands, shape=kept, attributes=attributes)
    return into.like_source("reshape", [small]) if kept.rank != dot.shape.rank else small


@m.of_shapes
def _is_with_vector(dot: HloInstruction) -> bool:
    """Whether one operand has batch and contracted dimensions only, and no algorithm is asked for."""
    a = dot_of(dot)
    if a.sparsity or not a.lhs_contracting_dims or not computes_in_its_type(dot):
        return False
    return not all(free_sides(dot))


@m.of_shapes
def _is_of_vectors(dot: HloInstruction) -> bool:
    """As above, of both operands."""
    return _is_with_vector(dot) and not any(free_sides(dot))


def _sum_of_products(match: Match, into: Expansion) -> HloInstruction | None:
    """The vector is repeated along the free dimensions of the matrix, and products are summed."""
    dot, a = match.root, dot_of(match.root)
    dims = [(*a.lhs_batch_dims, *a.lhs_contracting_dims), (*a.rhs_batch_dims, *a.rhs_contracting_dims)]
    number = 1 if free_sides(dot)[0] else 0  # the vector, which has no free dimensions
    mine, theirs = (dims[number], dims[1 - number])
    operands = converted_operands(into, dot)
    vector, matrix = operands[number], operands[1 - number]
    where = dict(zip(mine, theirs, strict=True))
    if free_dimensions(matrix, theirs):
        place = at.DimensionsAttributes(tuple(where[d] for d in range(vector.shape.rank)))
        vector = into.make("broadcast", vector, shape=matrix.shape, attributes=place)
    elif any(where[d] != d for d in where):
        turned = at.DimensionsAttributes(tuple(sorted(where, key=lambda d: where[d])))
        vector = into.make("transpose", vector, attributes=turned)
    batch = len(a.lhs_batch_dims)
    summed = into.sum(into.make("multiply", matrix, vector), tuple(sorted(theirs[batch:])))
    kept = [d for d in range(matrix.shape.rank) if d not in theirs[batch:]]
    order = tuple(kept.index(d) for d in (*theirs[:batch], *free_dimensions(matrix, theirs)))
    if order == tuple(range(len(order))):
        return summed
    return into.make("transpose", summed, attributes=at.DimensionsAttributes(order))


_DOT = m.op("dot", m.any(), m.any())

DEGENERATE_DOTS = (
    AlgebraRule("R164", "dot with dimensions of size 1 = reshape(dot)", _DOT, _without_ones, Exactness.ORDER,
                "supports_non_canonical_dots"),
    AlgebraRule("R159x", "dot(matrix, vector) = sum(multiply(matrix, broadcast(vector))) of floats",
                _DOT.where(_is_with_vector), _sum_of_products, Exactness.XLA,
                "enable_dot_strength_reduction !executing_on_cpu"),
    AlgebraRule("R159y", "dot(vector, vector) = sum(multiply(vector, vector)) in batches, of floats",
                _DOT.where(_is_of_vectors), _sum_of_products, Exactness.XLA,
                "enable_dot_strength_reduction executing_on_cpu"),
)  # fmt: skip
