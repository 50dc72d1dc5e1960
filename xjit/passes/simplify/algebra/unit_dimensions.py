"""Dimensions of size 1: reshapes that only add or drop them go before other instructions, or away."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import PaddingDimension, SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.dynamic_indices import has_scalar_indices
from xjit.passes.simplify.algebra.padding import padding_of
from xjit.passes.simplify.algebra.rule import AlgebraRule
from xjit.passes.simplify.algebra.slices import cut, ranges_of


def wide_dimensions(before: HloInstruction, after: HloInstruction) -> dict[int, int] | None:
    """Returns, by dimension of `after`, which one of `before` it is, dimensions of size 1 left out.

    None if a reshape of one to the other does more than to add and drop dimensions of size 1.
    """
    old, new = ([d for d, n in enumerate(i.shape.dimensions) if n != 1] for i in (before, after))
    same = [before.shape.dimensions[d] for d in old] == [after.shape.dimensions[d] for d in new]
    return dict(zip(new, old, strict=True)) if same else None


def _updated(match: Match, into: Expansion) -> HloInstruction | None:
    """reshape(dynamic-update-slice(x, u, i)) = dynamic-update-slice(reshape(x), reshape(u), i)."""
    root, update = match.root, match["update"]
    sources = wide_dimensions(update, root)
    x, u, indices = update.operand(0), update.operand(1), update.operands[2:]
    if sources is None or not has_scalar_indices(update):
        return None
    starts = [indices[sources[d]] if d in sources else into.full(indices[0].shape, 0) for d in range(root.shape.rank)]
    sizes = [u.shape.dimensions[sources[d]] if d in sources else 1 for d in range(root.shape.rank)]
    moved = into.make("reshape", x, shape=root.shape)
    part = into.make("reshape", u, shape=u.shape.with_dimensions(sizes))
    return into.make("dynamic-update-slice", moved, part, *starts)


def _reversed(match: Match, into: Expansion) -> HloInstruction | None:
    """reverse(reshape(x)) = reshape(reverse(x))."""
    root, x = match.root, match["x"]
    sources = wide_dimensions(x, match["reshape"])
    if sources is None:
        return None
    turned = tuple(sorted(sources[d] for d in dimensions_of(root) if d in sources))
    if not turned:
        return None
    return into.like_source("reshape", [into.make("reverse", x, attributes=at.DimensionsAttributes(turned))])


def _repeats(broadcast: HloInstruction) -> bool:
    """Whether a broadcast makes more elements of an array that has dimensions of size 1."""
    x = broadcast.operand(0).shape
    return 1 in x.dimensions and 0 < x.num_elements < broadcast.shape.num_elements


def _broadcast(match: Match, into: Expansion) -> HloInstruction:
    """broadcast(x) = broadcast(reshape(x)) without x's dimensions of size 1."""
    x = match["x"]
    wide = [d for d, n in enumerate(x.shape.dimensions) if n != 1]
    flat = into.make("reshape", x, shape=x.shape.with_dimensions([x.shape.dimensions[d] for d in wide]))
    places = dimensions_of(match.root)
    return into.like_source("broadcast", [flat], at.DimensionsAttributes(tuple(places[d] for d in wide)))


def _single_steps(match: Match, into: Expansion) -> HloInstruction | None:
    """A slice of one element along a dimension needs no stride."""
    ranges = ranges_of(match.root)
    plain = [
        SliceDimension(r.start, r.start + 1) if n == 1 else r
        for r, n in zip(ranges, match.root.shape.dimensions, strict=True)
    ]
    changed = any(r.stride != p.stride for r, p in zip(ranges, plain, strict=True))
    return cut(into, match.root.operand(0), plain) if changed else None


def _without_interior(match: Match, into: Expansion) -> HloInstruction | None:
    """Between the elements of a dimension of size 1 there is nothing to pad."""
    root, padding = match.root, padding_of(match.root)
    plain = tuple(
        PaddingDimension(p.edge_padding_low, p.edge_padding_high) if n == 1 else p
        for p, n in zip(padding, root.operand(0).shape.dimensions, strict=True)
    )
    return None if plain == padding else into.make("pad", *root.operands, attributes=at.PadAttributes(plain))


_X = m.any("x")

UNIT_DIMENSIONS = (
    AlgebraRule("N51", "reshape(dynamic-update-slice(x, u, i)) = dynamic-update-slice(reshape(x), reshape(u), i)",
                m.op("reshape", m.op("dynamic-update-slice", name="update").one_use()), _updated,
                option="!is_layout_sensitive"),
    AlgebraRule("N52", "reverse(reshape(x)) = reshape(reverse(x)) around dimensions of size 1",
                m.op("reverse", m.op("reshape", _X, name="reshape").one_use()), _reversed,
                option="!is_layout_sensitive"),
    AlgebraRule("N55", "broadcast(x) = broadcast(reshape(x)) without dimensions of size 1",
                m.op("broadcast", _X).where(_repeats), _broadcast,
                option="!is_layout_sensitive enable_broadcast_degenerate_dimension"),
    AlgebraRule("N49", "slice(x) of one element with a stride = slice(x) without", m.op("slice"), _single_steps),
    AlgebraRule("N53", "pad(x, v) between elements of a dimension of size 1 = pad(x, v) of its edges",
                m.op("pad"), _without_interior),
)  # fmt: skip
