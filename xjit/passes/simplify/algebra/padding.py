"""Pads and concatenations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import PaddingDimension, SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import value_of
from xjit.passes.simplify.algebra.rule import AlgebraRule
from xjit.passes.simplify.algebra.slices import cut, ranges_of


def padding_of(pad: HloInstruction) -> tuple[PaddingDimension, ...]:
    """The padding of each dimension."""
    return pad.attributes_as(at.PadAttributes).padding


def _pad(
    into: Expansion, x: HloInstruction, value: HloInstruction, padding: Iterable[PaddingDimension]
) -> HloInstruction:
    return into.make("pad", x, value, attributes=at.PadAttributes(tuple(padding)))


def _is_plain(pad: HloInstruction) -> bool:
    """Whether a pad adds edges only, and takes nothing away."""
    return all(min(d.edge_padding_low, d.edge_padding_high) >= 0 and not d.interior_padding for d in padding_of(pad))


def _is_same_value(a: HloInstruction, b: HloInstruction) -> bool:
    if a is b:
        return True
    x, y = value_of(a), value_of(b)
    return x is not None and y is not None and x.tobytes() == y.tobytes()


def _merged(match: Match, into: Expansion) -> HloInstruction | None:
    inner, outer = match["inner"], match.root
    if not (_is_plain(inner) and _is_plain(outer) and _is_same_value(inner.operand(1), outer.operand(1))):
        return None
    sums = [
        PaddingDimension(a.edge_padding_low + b.edge_padding_low, a.edge_padding_high + b.edge_padding_high)
        for a, b in zip(padding_of(inner), padding_of(outer), strict=True)
    ]
    return _pad(into, match["x"], outer.operand(1), sums)


def _cut_and_padded(match: Match, into: Expansion) -> HloInstruction | None:
    """Negative edges are a slice of what the others pad."""
    pad = match.root
    old = padding_of(pad)
    if all(min(d.edge_padding_low, d.edge_padding_high) >= 0 for d in old):
        return None
    kept = [PaddingDimension(max(d.edge_padding_low, 0), max(d.edge_padding_high, 0), d.interior_padding) for d in old]
    padded = _pad(into, match["x"], match["v"], kept) if any(d != PaddingDimension() for d in kept) else match["x"]
    ranges: list[SliceDimension] = []
    for d, size in zip(old, padded.shape.dimensions, strict=True):
        start, limit = max(-d.edge_padding_low, 0), size - max(-d.edge_padding_high, 0)
        if start > limit:
            return None
        ranges.append(SliceDimension(start, limit))
    return cut(into, padded, ranges)


def _all_one_value(pad: HloInstruction) -> bool:
    x = pad.operand(0)
    return x.opcode == "broadcast" and _is_same_value(x.operand(0), pad.operand(1))


def _value_everywhere(match: Match, into: Expansion) -> HloInstruction:
    return into.like_source("broadcast", [match["v"]], at.DimensionsAttributes(()))


def along(concatenate: HloInstruction) -> int:
    """The dimension of a concatenate."""
    return concatenate.attributes_as(at.ConcatenateAttributes).dimension


def _concatenate(match: Match, into: Expansion, operands: Sequence[HloInstruction]) -> HloInstruction:
    return operands[0] if len(operands) == 1 else into.make("concatenate", *operands, attributes=match.root.attributes)


def _without_empty(match: Match, into: Expansion) -> HloInstruction | None:
    root = match.root
    kept = [o for o in root.operands if o.shape.dimensions[along(root)]]
    if len(kept) == root.operand_count or not kept:
        return root.operand(0) if not kept else None
    return _concatenate(match, into, kept)


def _flattened(match: Match, into: Expansion) -> HloInstruction | None:
    root, flat = match.root, list[HloInstruction]()
    for operand in root.operands:
        nested = operand.opcode == "concatenate" and along(operand) == along(root)
        flat += (
            operand.operands if nested and operand.user_count == 1 and root.operands.count(operand) == 1 else (operand,)
        )
    return _concatenate(match, into, flat) if len(flat) > root.operand_count else None


def _is_next(a: HloInstruction, b: HloInstruction, dimension: int) -> bool:
    """Whether slice b goes on where slice a of the same array ends, and is like it in all other dimensions."""
    if a.opcode != "slice" or b.opcode != "slice" or a.operand(0) is not b.operand(0):
        return False
    pairs = list(zip(ranges_of(a), ranges_of(b), strict=True))
    x, y = pairs.pop(dimension)
    return x.stride == y.stride == 1 and x.limit == y.start and all(p == q for p, q in pairs)


def _joined(match: Match, into: Expansion) -> HloInstruction | None:
    """Slices that lie side by side in one array are one slice."""
    root, d = match.root, along(match.root)
    merged: list[HloInstruction] = []
    for operand in root.operands:
        if merged and _is_next(merged[-1], operand, d):
            first, last = merged.pop(), operand
            ranges = list(ranges_of(first))
            ranges[d] = SliceDimension(ranges[d].start, ranges_of(last)[d].limit)
            merged.append(cut(into, first.operand(0), ranges))
        else:
            merged.append(operand)
    return _concatenate(match, into, merged) if len(merged) < root.operand_count else None


def _repeated(match: Match, into: Expansion) -> HloInstruction | None:
    """concatenate(x, x, ..) along a dimension of size 1."""
    root, d = match.root, along(match.root)
    x = root.operand(0)
    if root.operand_count < 2 or any(o is not x for o in root.operands) or x.shape.dimensions[d] != 1:
        return None
    kept = [i for i in range(root.shape.rank) if i != d]
    flat = into.make("reshape", x, shape=x.shape.with_dimensions([x.shape.dimensions[i] for i in kept]))
    return into.like_source("broadcast", [flat], at.DimensionsAttributes(tuple(kept)))


def _of_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    """pad(broadcast(x)) along all dimensions that x has, and not along all: the others are added afterwards."""
    root, broadcast, value = match.root, match["broadcast"], match["v"]
    x, places = broadcast.operand(0), broadcast.attributes_as(at.DimensionsAttributes).dimensions
    padding = padding_of(root)
    padded = [d for d, p in enumerate(padding) if p != PaddingDimension()]
    if not set(places) <= set(padded) or not 0 < len(padded) < root.shape.rank or 0 in broadcast.shape.dimensions:
        return None
    small = x.shape.with_dimensions([broadcast.shape.dimensions[d] for d in padded])
    into_padded = tuple(padded.index(d) for d in places)
    spread = x
    if into_padded != tuple(range(small.rank)):
        spread = into.make("broadcast", x, shape=small, attributes=at.DimensionsAttributes(into_padded))
    part = _pad(into, spread, value, [padding[d] for d in padded])
    return into.like_source("broadcast", [part], at.DimensionsAttributes(tuple(padded)))


def _is_filler(operand: HloInstruction) -> bool:
    return operand.opcode == "broadcast" and operand.operand(0).shape.is_scalar


def _edge_as_pad(match: Match, into: Expansion) -> HloInstruction | None:
    """concatenate(broadcast(c), x, ..): an edge of one value is padding of the rest, if that is one array."""
    root, d = match.root, along(match.root)
    operands = list(root.operands)
    if len(operands) != 2 or not any(map(_is_filler, operands)):
        return None
    before = _is_filler(operands[0])
    edge, x = operands if before else operands[::-1]
    padding = [PaddingDimension()] * root.shape.rank
    size = edge.shape.dimensions[d]
    padding[d] = PaddingDimension(size, 0) if before else PaddingDimension(0, size)
    return _pad(into, x, edge.operand(0), padding)


_X, _V = m.any("x"), m.any("v")
_PAD, _CONCATENATE = m.op("pad", _X, _V), m.op("concatenate")

PADDING = (
    AlgebraRule("R133b", "pad(nothing, v) = broadcast(v)",
                m.op("pad", _X.where(lambda x: not x.shape.num_elements), _V), _value_everywhere),
    AlgebraRule("R136", "pad(broadcast(v), v) = broadcast(v)", _PAD.where(_all_one_value), _value_everywhere),
    AlgebraRule("R134", "pad(pad(x, v), v) = pad(x, v)", m.op("pad", m.op("pad", _X, m.any(), name="inner"), m.any()),
                _merged),
    AlgebraRule("N54", "pad(broadcast(x), v) = broadcast(pad(x, v)) along dimensions that are not padded",
                m.op("pad", m.op("broadcast", name="broadcast").one_use(), _V), _of_broadcast),
    AlgebraRule("R135", "pad(x, v) with negative edges = slice(pad(x, v))", _PAD, _cut_and_padded,
                option="enable_negative_padding_replacement"),
)  # fmt: skip

CONCATENATION = (
    AlgebraRule("R137b", "concatenate(a, nothing) = a", _CONCATENATE, _without_empty),
    AlgebraRule("R138", "concatenate(concatenate(a, b), c) = concatenate(a, b, c)", _CONCATENATE, _flattened),
    AlgebraRule("R139", "concatenate(adjacent slices of x) = slice(x)", _CONCATENATE, _joined),
    AlgebraRule("N26", "concatenate(x, x) = broadcast(reshape(x)) along a dimension of size 1", _CONCATENATE,
                _repeated),
    AlgebraRule("R140", "concatenate(broadcast(c), x) = pad(x, c)", _CONCATENATE, _edge_as_pad),
)  # fmt: skip
