"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import DotAttributes, SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import is_zero, value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.kinds import embeds, is_float, is_integer, is_real
from xjit.passes.simplify.algebra.padding import along, padding_of
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.passes.simplify.algebra.slices import cut


def dot_of(dot: HloInstruction) -> DotAttributes:
    return dot.attributes_as(DotAttributes)


def free_dimensions(x: HloInstruction, *taken: Sequence[int]) -> list[int]:
    used = {d for dims in taken for d in dims}
    return [d for d in range(x.shape.rank) if d not in used]


def free_sides(dot: HloInstruction) -> tuple[list[int], list[int]]:
    """The free dimensions of both operands."""
    a = dot_of(dot)
    lhs = free_dimensions(dot.operand(0), a.lhs_batch_dims, a.lhs_contracting_dims)
    return lhs, free_dimensions(dot.operand(1), a.rhs_batch_dims, a.rhs_contracting_dims)


def has_one_type(dot: HloInstruction) -> bool:
    return len({dot.shape.element_type, *[o.shape.element_type for o in dot.operands]}) == 1


def computes_in_its_type(dot: HloInstruction) -> bool:
    """Whether products of the operands, converted to the dot's type, are its products: no algorithm asks for less."""
    kind = dot.shape.element_type
    exact = all(o.shape.element_type is kind or embeds(o.shape.element_type, kind) for o in dot.operands[:2])
    return exact and dot_of(dot).algorithm in ("", "dot_f32_f32_f32")


def converted_operands(into: Expansion, dot: HloInstruction) -> list[HloInstruction]:
    """Both operands in the type of the dot."""
    kind = dot.shape.element_type
    return [
        o if o.shape.element_type is kind else into.make("convert", o, shape=o.shape.with_element_type(kind))
        for o in dot.operands[:2]
    ]


def _swapped(match: Match, into: Expansion) -> HloInstruction | None:
    """transpose(dot(a, b)) that swaps the free dimensions of both operands, one of each."""
    batch = len(dot_of(match["dot"]).lhs_batch_dims)
    moves = dimensions_of(match.root)[:batch] != tuple(range(batch))
    return None if moves or any(len(side) != 1 for side in free_sides(match["dot"])) else _swapped_groups(match, into)


def _swapped_groups(match: Match, into: Expansion) -> HloInstruction | None:
    """transpose(dot(a, b)) that swaps the free dimensions of both operands; batch dimensions may change their order."""
    dot, a, order = match["dot"], dot_of(match["dot"]), list(dimensions_of(match.root))
    batch, middle = len(a.lhs_batch_dims), len(a.lhs_batch_dims) + len(free_sides(dot)[0])
    swapped = [*range(middle, dot.shape.rank), *range(batch, middle)]
    if order[batch:] != swapped or not all(free_sides(dot)) or a.sparsity:
        return None
    attributes = replace(
        a,
        lhs_batch_dims=tuple(a.rhs_batch_dims[d] for d in order[:batch]),
        rhs_batch_dims=tuple(a.lhs_batch_dims[d] for d in order[:batch]),
        lhs_contracting_dims=a.rhs_contracting_dims,
        rhs_contracting_dims=a.lhs_contracting_dims,
        operand_precision=a.operand_precision[::-1],
    )
    return into.like_source("dot", [dot.operand(1), dot.operand(0)], attributes)


@m.of_shapes
def _is_sum_of_nothing(dot: HloInstruction) -> bool:
    empty = any(not o.shape.num_elements for o in dot.operands)
    return empty or not dot.shape.num_elements


def _zeros(match: Match, into: Expansion) -> HloInstruction:
    return into.full(match.root.shape, 0)


@m.of_shapes
def _contracts_nothing(dot: HloInstruction) -> bool:
    a = dot_of(dot)
    return not a.lhs_contracting_dims and computes_in_its_type(dot)


def _product(match: Match, into: Expansion) -> HloInstruction:
    """A dot that contracts nothing: both operands are repeated along each other's free dimensions."""
    dot, a = match.root, dot_of(match.root)
    batch, (lhs, rhs) = len(a.lhs_batch_dims), free_sides(dot)
    left, right = dict[int, int](), dict[int, int]()
    for i, (x, y) in enumerate(zip(a.lhs_batch_dims, a.rhs_batch_dims, strict=True)):
        left[x], right[y] = i, i
    left |= {d: batch + i for i, d in enumerate(lhs)}
    right |= {d: batch + len(lhs) + i for i, d in enumerate(rhs)}
    x, y = converted_operands(into, dot)
    return into.make("multiply", _spread(into, dot, x, left), _spread(into, dot, y, right))


def _spread(into: Expansion, dot: HloInstruction, x: HloInstruction, where: dict[int, int]) -> HloInstruction:
    dimensions = at.DimensionsAttributes(tuple(where[d] for d in range(x.shape.rank)))
    if not dot.shape.rank:
        return x
    return into.make("broadcast", x, shape=dot.shape, attributes=dimensions)


@m.of_shapes
def _is_of_vectors(dot: HloInstruction) -> bool:
    lhs, rhs = dot.operands[:2]
    return lhs.shape.rank == rhs.shape.rank == len(dot_of(dot).lhs_contracting_dims) == 1 and computes_in_its_type(dot)


def _vectors(match: Match, into: Expansion) -> HloInstruction:
    """The dot of two vectors as a sum of products; one product is the result itself, if it is -0.0, too."""
    products = into.make("multiply", *converted_operands(into, match.root))
    return into.like_source("reshape", [products]) if products.shape.num_elements == 1 else into.sum(products, (0,))


def _unpermuted(match: Match, into: Expansion) -> HloInstruction | None:
    """Both operands have their contracting dimensions permuted: the pairs stay pairs without."""
    dot, a = match.root, dot_of(match.root)
    p, q = dimensions_of(match["left"]), dimensions_of(match["right"])
    lhs, rhs = free_sides(dot)
    fixed = [(p, [*a.lhs_batch_dims, *lhs]), (q, [*a.rhs_batch_dims, *rhs])]
    if any(permutation[d] != d for permutation, dims in fixed for d in dims):
        return None
    attributes = replace(
        a,
        lhs_contracting_dims=tuple(p[d] for d in a.lhs_contracting_dims),
        rhs_contracting_dims=tuple(q[d] for d in a.rhs_contracting_dims),
    )
    return into.like_source("dot", [match["x"], match["y"]], attributes)


def _without_padding(match: Match, into: Expansion) -> HloInstruction | None:
    """dot(pad(a, 0), b): of b, only what meets an element of a is needed."""
    dot, pad, a = match.root, match["pad"], dot_of(match.root)
    value, padding = value_of(pad.operand(1)), padding_of(pad)
    if value is None or not is_zero(value, pad.shape.element_type):
        return None
    is_left = dot.operand(0) is pad
    mine, theirs = (a.lhs_contracting_dims, a.rhs_contracting_dims)[:: 1 if is_left else -1]
    other = dot.operand(1 if is_left else 0)
    ranges = [SliceDimension(0, n) for n in other.shape.dimensions]
    for d, p in enumerate(padding):
        plain = min(p.edge_padding_low, p.edge_padding_high) >= 0 and not p.interior_padding
        if not plain or (p != at.PaddingDimension() and d not in mine):
            return None
        if d in mine:
            start = p.edge_padding_low
            ranges[theirs[mine.index(d)]] = SliceDimension(start, start + pad.operand(0).shape.dimensions[d])
    part = cut(into, other, ranges)
    return into.like_source("dot", [pad.operand(0), part] if is_left else [part, pad.operand(0)], a)


def _of_concatenate(match: Match, into: Expansion) -> HloInstruction | None:
    """dot(concatenate(a1, a2), constant) along the contracted dimension, or with them swapped, as a sum of dots."""
    dot, whole, constant, a = match.root, match["whole"], match["constant"], dot_of(match.root)
    is_left = dot.operand(0) is whole
    mine, theirs = (a.lhs_contracting_dims, a.rhs_contracting_dims)[:: 1 if is_left else -1]
    if along(whole) not in mine or whole.shape.rank > 2 or constant.shape.rank > 2:
        return None
    other, total, begin = theirs[mine.index(along(whole))], None, 0
    for operand in whole.operands:
        ranges = [SliceDimension(0, n) for n in constant.shape.dimensions]
        ranges[other] = SliceDimension(begin, begin + operand.shape.dimensions[along(whole)])
        begin = ranges[other].limit
        pair = [operand, cut(into, constant, ranges)]
        part = into.like_source("dot", pair if is_left else pair[::-1], a)
        total = part if total is None else into.make("add", total, part)
    return total


def _sum_of_other(match: Match, into: Expansion) -> HloInstruction | None:
    """dot(broadcast(s), y) of a scalar s: s times the sums of y."""
    dot, a = match.root, dot_of(match.root)
    if a.lhs_batch_dims or not has_one_type(dot) or free_sides(dot)[0]:
        return None
    total = into.sum(match["y"], a.rhs_contracting_dims)
    scale = match["s"]
    if total.shape.rank:
        scale = into.make("broadcast", scale, shape=total.shape, attributes=at.DimensionsAttributes(()))
    return into.make("multiply", scale, total)


_X, _Y = m.any("x"), m.any("y")
_DOT = m.op("dot", m.any(), m.any())
_PAD = m.op("pad", name="pad")
_ORDER, _XLA, _REAL = Exactness.ORDER, Exactness.XLA, Exactness.REAL
_STRENGTH = "enable_dot_strength_reduction"

DOTS = (
    AlgebraRule("R157", "dot(nothing) = 0", _DOT.where(_is_sum_of_nothing), _zeros),
    AlgebraRule("R158", "dot(a, b) without contraction = multiply(broadcast(a), broadcast(b))",
                _DOT.where(_contracts_nothing), _product, _ORDER, "enable_dot_to_multiply_rewrite"),
    AlgebraRule("R112", "transpose(dot(a, b)) = dot(b, a)",
                m.op("transpose", m.op("dot", m.any(), m.any(), name="dot").one_use()), _swapped, _ORDER,
                "!enable_move_dot_param_to_rhs"),
    AlgebraRule("R112b", "transpose(dot(a, b)) = dot(b, a) that swaps several dimensions",
                m.op("transpose", m.op("dot", m.any(), m.any(), name="dot").one_use()), _swapped_groups, _ORDER,
                "!enable_move_dot_param_to_rhs supports_non_canonical_dots"),
    AlgebraRule("R160", "dot(transpose(x), transpose(y)) = dot(x, y) where only contracted dimensions moved",
                m.op("dot", m.op("transpose", _X, name="left"), m.op("transpose", _Y, name="right")), _unpermuted,
                _ORDER),
    AlgebraRule("R159", "dot(x, y) of vectors = sum(multiply(x, y))", _DOT.where(_is_of_vectors), _vectors, _ORDER,
                _STRENGTH),
    AlgebraRule("R161", "dot(concatenate(a, b), constant) = add(dot(a), dot(b))",
                m.op("dot", m.op("concatenate", name="whole").one_use(), m.op("constant", name="constant")),
                _of_concatenate, _ORDER, _STRENGTH),
    AlgebraRule("R161b", "dot(constant, concatenate(a, b)) = add(dot(a), dot(b))",
                m.op("dot", m.op("constant", name="constant"), m.op("concatenate", name="whole").one_use()),
                _of_concatenate, _ORDER, _STRENGTH),
    AlgebraRule("R162", "dot(pad(x, 0), y) = dot(x, slice(y))", m.op("dot", _PAD, m.any()).where(is_integer),
                _without_padding),
    AlgebraRule("R162b", "dot(y, pad(x, 0)) = dot(slice(y), x)", m.op("dot", m.any(), _PAD).where(is_integer),
                _without_padding),
    AlgebraRule("R162x", "dot(pad(x, 0), y) = dot(x, slice(y)) of floats", m.op("dot", _PAD, m.any()).where(is_float),
                _without_padding, _XLA),
    AlgebraRule("R162y", "dot(y, pad(x, 0)) = dot(slice(y), x) of floats", m.op("dot", m.any(), _PAD).where(is_float),
                _without_padding, _XLA),
    AlgebraRule("R163", "dot(broadcast(s), y) = multiply(s, sum(y))",
                m.op("dot", m.op("broadcast", m.any("s").where(lambda s: s.shape.is_scalar)), _Y)
                .where(is_real), _sum_of_other, _REAL),
)  # fmt: skip
