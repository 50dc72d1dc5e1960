"""Products of matrices whose operands are transposed, or whose batches are summed: the order of dimensions changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import DotAttributes
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of, inverse, reshape_groups
from xjit.passes.simplify.algebra.reductions import operation
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


def _of(dot: HloInstruction) -> DotAttributes:
    return dot.attributes_as(DotAttributes)


def _is_batch_of_matrices(dot: HloInstruction) -> bool:
    """Whether both operands are matrices behind the same number of leading batch dimensions, one of them contracted."""
    a, rank = _of(dot), dot.operand(0).shape.rank
    leading = tuple(range(rank - 2))
    plain = a.lhs_batch_dims == a.rhs_batch_dims == leading and dot.operand(1).shape.rank == rank
    return plain and len(a.lhs_contracting_dims) == 1 and not a.sparsity and not _is_unreduced(dot)


def _is_unreduced(dot: HloInstruction) -> bool:
    """Whether a sharding, the dot's or that of an annotation which reads it, says that devices hold parts of sums."""
    readers = [u for u in dot.users if u.opcode == "custom-call"]
    return any("unreduced" in str(i.sharding) for i in (dot, *readers) if i.sharding is not None)


def _is_like_a_parameter(i: HloInstruction) -> bool:
    """Whether an instruction is a parameter, or computed from one alone, operand by operand."""
    while i.operand_count == 1:
        i = i.operand(0)
    return i.opcode == "parameter"


def _parameter_last(match: Match, into: Expansion) -> HloInstruction | None:
    """dot(p, y) = transpose(dot(y, p)), where p comes from a parameter and y does not."""
    dot, a, (x, y) = match.root, _of(match.root), match.root.operands
    if a.sparsity or not _is_like_a_parameter(x) or _is_like_a_parameter(y):
        return None
    swapped = replace(
        a, lhs_batch_dims=a.rhs_batch_dims, rhs_batch_dims=a.lhs_batch_dims,
        lhs_contracting_dims=a.rhs_contracting_dims, rhs_contracting_dims=a.lhs_contracting_dims,
        operand_precision=a.operand_precision[::-1],
    )  # fmt: skip
    batch = len(a.lhs_batch_dims)
    of_x, of_y = (i.shape.rank - batch - len(a.lhs_contracting_dims) for i in (x, y))
    back = (*range(batch), *range(batch + of_x, dot.shape.rank), *range(batch, batch + of_x))
    shape = dot.shape.with_dimensions([dot.shape.dimensions[d] for d in back])
    order = (*range(batch), *range(batch + of_y, dot.shape.rank), *range(batch, batch + of_y))
    product = into.make("dot", y, x, attributes=swapped, shape=shape)
    return into.make("transpose", product, attributes=at.DimensionsAttributes(order))


def _of_transposed(match: Match, into: Expansion) -> HloInstruction | None:
    """Both operands have their batch dimensions permuted in one way, and both matrices or none transposed."""
    dot, a = match.root, _of(match.root)
    x, y, rank = match["x"], match["y"], match["x"].shape.rank
    order = dimensions_of(match["left"])
    if order != dimensions_of(match["right"]) or sorted(order[: rank - 2]) != list(range(rank - 2)):
        return None
    if dot.shape.num_elements > x.shape.num_elements + y.shape.num_elements:
        return None  # moving the result would cost more than moving the operands
    attributes = replace(
        a,
        lhs_contracting_dims=(order[a.lhs_contracting_dims[0]],),
        rhs_contracting_dims=(order[a.rhs_contracting_dims[0]],),
    )
    places = (*inverse(order[: rank - 2]), rank - 2, rank - 1)
    moved = dot.shape.with_dimensions([dot.shape.dimensions[d] for d in places])
    small = into.make("dot", x, y, shape=moved, attributes=attributes)
    batch = at.DimensionsAttributes((*order[: rank - 2], rank - 2, rank - 1))
    return into.like_source("transpose", [small], batch)


def _of_permuted_batch(match: Match, into: Expansion) -> HloInstruction | None:
    """transpose(dot(x, y)) that permutes batch dimensions and swaps the free ones."""
    dot, a, order = match["dot"], _of(match["dot"]), dimensions_of(match.root)
    rank = dot.shape.rank
    batch = order[: rank - 2]
    if order[rank - 2 :] != (rank - 1, rank - 2) or batch == tuple(range(rank - 2)):
        return None
    attributes = replace(
        a,
        lhs_batch_dims=tuple(a.rhs_batch_dims[d] for d in batch),
        rhs_batch_dims=tuple(a.lhs_batch_dims[d] for d in batch),
        lhs_contracting_dims=a.rhs_contracting_dims,
        rhs_contracting_dims=a.lhs_contracting_dims,
        operand_precision=a.operand_precision[::-1],
    )
    return into.like_source("dot", [dot.operand(1), dot.operand(0)], attributes)


def _contracted_order(moved: HloInstruction, merged: HloInstruction, contracted: int) -> list[int] | None:
    """How a transpose permutes dimensions that a reshape then merges into the contracted one; None if others move.

    Position i of the operand of the transpose holds the dimension that stands at position result[i] behind it.
    """
    order = [d for d in dimensions_of(moved) if moved.operand(0).shape.dimensions[d] != 1]
    after = [d for d, n in enumerate(moved.shape.dimensions) if n != 1]
    groups = reshape_groups(moved.shape.dimensions, merged.shape.dimensions)
    inside = next((set(old) for old, new in groups if new == (contracted,)), set[int]())
    places = [i for i, d in enumerate(after) if d in inside]
    plain = sorted(order)
    if any(order[i] != plain[i] for i in range(len(order)) if i not in places):
        return None
    mine = [order[i] for i in places]
    return [mine.index(d) for d in sorted(mine)] if mine != sorted(mine) else None


def _reordered(match: Match, into: Expansion) -> HloInstruction | None:
    """The order in which an operand was transposed before its contracted dimension was merged moves to a constant."""
    dot, a, moved, merged, constant = match.root, _of(match.root), match["moved"], match["merged"], match["constant"]
    is_left = dot.operand(0) is merged
    mine, theirs = (a.lhs_contracting_dims, a.rhs_contracting_dims)[:: 1 if is_left else -1]
    if len(mine) != 1 or a.sparsity or not merged.shape.num_elements:
        return None
    found = _contracted_order(moved, merged, mine[0])
    if found is None:
        return None
    sizes = [moved.shape.dimensions[d] for d in _merged_dimensions(moved, merged, mine[0])]
    x = into.make("reshape", match["x"], shape=merged.shape)
    other = _permuted_constant(into, constant, theirs[0], sizes, found)
    return into.like_source("dot", [x, other] if is_left else [other, x], a)


def _merged_dimensions(moved: HloInstruction, merged: HloInstruction, contracted: int) -> tuple[int, ...]:
    groups = reshape_groups(moved.shape.dimensions, merged.shape.dimensions)
    return next(old for old, new in groups if new == (contracted,))


def _permuted_constant(
    into: Expansion, constant: HloInstruction, dimension: int, sizes: Sequence[int], order: Sequence[int]
) -> HloInstruction:
    """A dimension of a constant is split into `sizes`, these are permuted, and merged again."""
    shape, count = constant.shape, len(sizes)
    before, behind = shape.dimensions[:dimension], shape.dimensions[dimension + 1 :]
    split = into.make("reshape", constant, shape=shape.with_dimensions([*before, *sizes, *behind]))
    kept = range(dimension + count, split.shape.rank)
    permutation = (*range(dimension), *[dimension + i for i in order], *kept)
    turned = into.make("transpose", split, attributes=at.DimensionsAttributes(permutation))
    return into.make("reshape", turned, shape=shape)


def _summed_batches(match: Match, into: Expansion) -> HloInstruction | None:
    """A sum over batch dimensions of a dot: they are contracted, too; over others, it is taken of what is left."""
    dot, a, reduced = match["dot"], _of(match["dot"]), dimensions_of(match.root)
    start = value_of(match["init"])
    count = len(a.lhs_batch_dims)
    if operation(match.root) != "add" or start is None or start != 0 or min(reduced) >= count or a.sparsity:
        return None
    summed = [i for i in reduced if i < count]
    attributes = replace(
        a,
        lhs_batch_dims=tuple(d for i, d in enumerate(a.lhs_batch_dims) if i not in reduced),
        rhs_batch_dims=tuple(d for i, d in enumerate(a.rhs_batch_dims) if i not in reduced),
        lhs_contracting_dims=(*a.lhs_contracting_dims, *[a.lhs_batch_dims[i] for i in summed]),
        rhs_contracting_dims=(*a.rhs_contracting_dims, *[a.rhs_batch_dims[i] for i in summed]),
    )
    left = [d for d in range(dot.shape.rank) if d not in reduced or d >= count]
    others = tuple(i for i, d in enumerate(left) if d in reduced)
    if not others:
        return into.like_source("dot", dot.operands, attributes)
    shape = dot.shape.with_dimensions([dot.shape.dimensions[d] for d in left])
    return into.sum(into.make("dot", *dot.operands, shape=shape, attributes=attributes), others)


_X, _Y = m.any("x"), m.any("y")
_MERGED = m.op("reshape", m.op("transpose", _X, name="moved"), name="merged")
_CONSTANT = m.op("constant", name="constant")
_ORDER = Exactness.ORDER

DOT_ORDER = (
    AlgebraRule("N16", "dot(transpose(x), transpose(y)) = transpose(dot(x, y)) of batches of matrices",
                m.op("dot", m.op("transpose", _X, name="left"), m.op("transpose", _Y, name="right"))
                .where(_is_batch_of_matrices), _of_transposed, _ORDER),
    AlgebraRule("N16b", "transpose(dot(x, y)) = dot(y, x) with permuted batches",
                m.op("transpose", m.op("dot", name="dot").where(_is_batch_of_matrices).one_use()), _of_permuted_batch,
                _ORDER, "!enable_move_dot_param_to_rhs"),
    AlgebraRule("N17", "dot(reshape(transpose(x)), constant) = dot(reshape(x), reshape(transpose(constant)))",
                m.op("dot", _MERGED, _CONSTANT), _reordered, _ORDER),
    AlgebraRule("N17b", "dot(constant, reshape(transpose(x))) = dot(reshape(transpose(constant)), reshape(x))",
                m.op("dot", _CONSTANT, _MERGED), _reordered, _ORDER),
    AlgebraRule("N18", "sum(dot(x, y)) over batches = dot(x, y) that contracts them",
                m.op("reduce", m.op("dot", m.any(), m.any(), name="dot").one_use(), m.any("init")), _summed_batches,
                _ORDER),
    AlgebraRule("N72", "dot(parameter, y) = transpose(dot(y, parameter))", m.op("dot", m.any(), m.any()),
                _parameter_last, _ORDER, "enable_move_dot_param_to_rhs"),
)  # fmt: skip
