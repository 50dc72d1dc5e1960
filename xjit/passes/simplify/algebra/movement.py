"""Pairs of instructions that only move elements are one; moves that change no order are reshapes."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import DimensionsAttributes
from xjit.hlo.attributes.opcodes import OPCODES, Trait
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dimensions import dimensions_of, reshape_groups
from xjit.passes.simplify.algebra.rule import AlgebraRule, bound


def _is_static(instruction: HloInstruction) -> bool:
    return instruction.shape.is_static


def _reshape(match: Match, into: Expansion) -> HloInstruction:
    return into.like_source("reshape", [match["x"]])


def _transpose(match: Match, into: Expansion) -> HloInstruction:
    dimensions = tuple(
        match["inner"].attributes_as(DimensionsAttributes).dimensions[d]
        for d in match.root.attributes_as(DimensionsAttributes).dimensions
    )
    return into.like_source("transpose", [match["x"]], DimensionsAttributes(dimensions))


def _broadcast(match: Match, into: Expansion) -> HloInstruction:
    dimensions = tuple(
        match.root.attributes_as(DimensionsAttributes).dimensions[d]
        for d in match["inner"].attributes_as(DimensionsAttributes).dimensions
    )
    return into.like_source("broadcast", [match["x"]], DimensionsAttributes(dimensions))


def _broadcast_scalar(match: Match, into: Expansion) -> HloInstruction:
    return into.like_source("broadcast", [match["x"]], DimensionsAttributes(()))


@m.of_shapes
def _moves_only_ones(transpose: HloInstruction) -> bool:
    sizes = transpose.operand(0).shape.dimensions
    moved = [d for d in transpose.attributes_as(DimensionsAttributes).dimensions if sizes[d] != 1]
    return moved == sorted(moved)


@m.of_shapes
def _is_empty(instruction: HloInstruction) -> bool:
    return not instruction.shape.num_elements


@m.of_shapes
def _adds_only_ones(broadcast: HloInstruction) -> bool:
    elements = broadcast.shape.num_elements
    in_order = list(broadcast.attributes_as(DimensionsAttributes).dimensions) == sorted(
        broadcast.attributes_as(DimensionsAttributes).dimensions
    )
    return in_order and elements != 0 and broadcast.operand(0).shape.num_elements == elements


def _around_reshape(match: Match, into: Expansion) -> HloInstruction | None:
    """transpose(reshape(transpose(x))), where the reshape only adds or drops dimensions of size 1: one transpose."""
    x, inner, between = match["x"], match["inner"], match["between"]
    before, after = inner.shape.dimensions, between.shape.dimensions
    wide = [d for d, n in enumerate(before) if n != 1]
    if [before[d] for d in wide] != [n for n in after if n != 1] or not inner.shape.num_elements:
        return None
    source = dict(zip([d for d, n in enumerate(after) if n != 1], wide, strict=True))
    first = dimensions_of(inner)
    order = [first[source[d]] for d in dimensions_of(match.root) if d in source]
    ones = [d for d, n in enumerate(x.shape.dimensions) if n == 1]
    moved = at.DimensionsAttributes((*ones, *order))
    return into.like_source("reshape", [into.make("transpose", x, attributes=moved)])


def _hoisted(match: Match, into: Expansion) -> HloInstruction | None:
    """reshape(transpose(reshape(x))) where what the first reshape split stays together: no first reshape."""
    x, split, moved = match["x"], match["split"], match["moved"]
    if not x.shape.num_elements:
        return None
    order = [d for d in dimensions_of(moved) if split.shape.dimensions[d] != 1]
    ones = [d for d, n in enumerate(x.shape.dimensions) if n == 1]
    turned: list[int] = []
    sources = {new[0]: (old, new) for old, new in reshape_groups(x.shape.dimensions, split.shape.dimensions)}
    while order:
        old, new = sources.get(order[0], ((), ()))
        if not new or tuple(order[: len(new)]) != new:
            return None
        turned += old
        del order[: len(new)]
    transpose = into.make("transpose", x, attributes=DimensionsAttributes((*ones, *turned)))
    return into.like_source("reshape", [transpose])


def _merged_before(match: Match, into: Expansion) -> HloInstruction | None:
    """reshape(transpose(reshape(x))) where the last reshape merges what was neighbours before: it merges before."""
    split, moved, root = match["split"].shape.dimensions, match["moved"], match.root
    order = dimensions_of(moved)
    if 1 in split or 1 in root.shape.dimensions or not root.shape.num_elements:
        return None
    chunks: list[tuple[int, int]] = []  # its first dimension in what was split, and its size
    for old, new in reshape_groups(moved.shape.dimensions, root.shape.dimensions):
        first = order[old[0]]
        if len(new) != 1 or [order[d] for d in old] != [*range(first, first + len(old))]:
            return None
        chunks.append((first, root.shape.dimensions[new[0]]))
    places = sorted(chunks)
    merged = into.make("reshape", match["x"], shape=root.shape.with_dimensions([n for _, n in places]))
    return into.like_source("transpose", [merged], DimensionsAttributes(tuple(places.index(c) for c in chunks)))


def _computed_before(match: Match, into: Expansion) -> HloInstruction | None:
    """bitcast(f(bitcast(x))) = bitcast(f(x)) for what is computed element by element, where nothing is tiled."""
    x, inner, f, root = match["x"], match["inner"], match["f"], match.root
    kinds = {i.shape.element_type for i in (x, inner, f, root)}
    if len(kinds) != 1 or inner.shape.layout != f.shape.layout or not f.op.has(Trait.ELEMENTWISE):
        return None
    if any(i.shape.layout is not None and i.shape.layout.tiles for i in (x, inner)):
        return None
    computed = into.add(HloInstruction.create(f.opcode, x.shape, [x], f.attributes))
    return into.like_source("bitcast", [computed])


def _drawn(match: Match, _into: Expansion) -> HloInstruction | None:
    """reshape(rng) = rng of that shape: it stays where it is, as what has side effects is not removed."""
    root, rng = match.root, match["rng"]
    if root.sharding is not None or rng.sharding is not None or not root.shape.is_static:
        return None
    rng.mutable_shape = root.shape
    return rng


MAX_CHUNKS = 5
"""Of a dimension that is cut into slices: more are better moved by a transpose (XLA's limit)."""


def _as_slices(match: Match, into: Expansion) -> HloInstruction | None:
    """reshape(transpose(reshape(x))) that moves a few chunks of one dimension into another one, as slices."""
    x, split, moved, root = match["x"], match["split"], match["moved"], match.root
    old, new = x.shape.dimensions, split.shape.dimensions
    cut = next((d for d, n in enumerate(old) if new[d] != n), None) if len(new) == len(old) + 1 else None
    if cut is None or not x.shape.num_elements or new[cut] > MAX_CHUNKS:
        return None
    count, chunk = new[cut], old[cut] // new[cut]
    if new != (*old[:cut], count, chunk, *old[cut + 1 :]):
        return None
    others = list(dimensions_of(moved))
    place = others.index(cut)  # the chunks lie in front of this dimension of x, and become part of the one before
    others.remove(cut)
    if others != sorted(others) or place in (0, cut, cut + 1, len(old)):
        return None
    sizes = list(old)
    sizes[cut], sizes[place - 1] = chunk, old[place - 1] * count
    if list(root.shape.dimensions) != sizes:
        return None
    ranges = [at.SliceDimension(0, n) for n in old]
    parts: list[HloInstruction] = []
    for i in range(count):
        ranges[cut] = at.SliceDimension(i * chunk, (i + 1) * chunk)
        parts.append(into.make("slice", x, attributes=at.SliceAttributes(tuple(ranges))))
    whole = into.make("concatenate", *parts, attributes=at.ConcatenateAttributes(place))
    return into.like_source("reshape", [whole])


def _is_same_bitcast(bitcast: HloInstruction) -> bool:
    return bitcast.shape == bitcast.operand(0).shape


_X = m.any("x").where(_is_static)
_UNARY = "|".join(n for n, row in OPCODES.items() if row.has(Trait.ELEMENTWISE) and n not in ("copy", "convert"))
_SCALAR = m.any("x").where(lambda x: not x.shape.rank)

MOVEMENT = (
    AlgebraRule("R106", "reshape(reshape(x)) = reshape(x)", m.op("reshape", m.op("reshape", _X)), _reshape),
    AlgebraRule("R107", "reshape(broadcast(scalar)) = broadcast(scalar)",
         m.op("reshape", m.op("broadcast", _SCALAR)), _broadcast_scalar),
    AlgebraRule("R109", "transpose(transpose(x, p), q) = transpose(x, p[q])",
         m.op("transpose", m.op("transpose", m.any("x"), name="inner")), _transpose),
    AlgebraRule("N6", "transpose(reshape(transpose(x))) = reshape(transpose(x)) around dimensions of size 1",
                m.op("transpose", m.op("reshape", m.op("transpose", m.any("x"), name="inner"), name="between")),
                _around_reshape),
    AlgebraRule("N25", "reshape(transpose(reshape(x))) = reshape(transpose(x)) where what was split stays together",
                m.op("reshape", m.op("transpose", m.op("reshape", _X, name="split"), name="moved")), _hoisted,
                option="enable_hoist_transpose_of_reshape"),
    AlgebraRule("N84", "reshape(transpose(reshape(x))) = transpose(reshape(x)) where neighbours are merged",
                m.op("reshape", m.op("transpose", m.op("reshape", _X, name="split"), name="moved")), _merged_before,
                option="enable_hoist_transpose_of_reshape"),
    AlgebraRule("N76", "reshape(rng) = rng, transpose(rng) = rng",
                m.op("reshape|transpose", m.op("rng", name="rng").one_use()), _drawn),
    AlgebraRule("N83", "reshape(nothing) = nothing", m.op("reshape", _X).where(_is_empty),
                lambda match, into: into.full(match.root.shape, 0)),
    AlgebraRule("N77", "reshape(transpose(reshape(x))) = reshape(concatenate(slice(x), ...)) of a few chunks",
                m.op("reshape", m.op("transpose", m.op("reshape", _X, name="split"), name="moved").one_use()),
                _as_slices, option="rewrite_reshape_transpose_as_slice_concatenate"),
    AlgebraRule("R116", "bitcast(x) = x when shape and layout stay",
                m.op("bitcast", m.any("x")).where(_is_same_bitcast), bound("x")),
    AlgebraRule("R116b", "bitcast(bitcast(x)) = bitcast(x)", m.op("bitcast", m.op("bitcast", m.any("x"))),
                lambda match, into: into.like_source("bitcast", [match["x"]])),
    AlgebraRule("N61", "bitcast(f(bitcast(x))) = bitcast(f(x)) of elements",
                m.op("bitcast", m.op(_UNARY, m.op("bitcast", m.any("x"), name="inner"), name="f").one_use()),
                _computed_before),
    AlgebraRule("R111", "transpose(x) that only moves dimensions of size 1 = reshape(x)",
         m.op("transpose", _X).where(_moves_only_ones), _reshape),
    AlgebraRule("R103", "broadcast(broadcast(x, p), q) = broadcast(x, q[p])",
         m.op("broadcast", m.op("broadcast", m.any("x"), name="inner")), _broadcast),
    AlgebraRule("R104", "broadcast(x) that only adds dimensions of size 1 = reshape(x)",
         m.op("broadcast", _X).where(_adds_only_ones), _reshape),
)  # fmt: skip
