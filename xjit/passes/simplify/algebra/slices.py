"""Slices with constant bounds, and reverses."""

from __future__ import annotations

from collections.abc import Iterable

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.dimensions import dimensions_of, inverse
from xjit.passes.simplify.algebra.rule import AlgebraRule


def ranges_of(instruction: HloInstruction) -> tuple[SliceDimension, ...]:
    """The ranges of a slice."""
    return instruction.attributes_as(at.SliceAttributes).slice


def cut(into: Expansion, x: HloInstruction, ranges: Iterable[SliceDimension]) -> HloInstruction:
    """A slice of x."""
    return into.make("slice", x, attributes=at.SliceAttributes(tuple(ranges)))


def _count(d: SliceDimension) -> int:
    return max(0, -(-(d.limit - d.start) // d.stride))


def _composed(match: Match, into: Expansion) -> HloInstruction:
    ranges: list[SliceDimension] = []
    for inner, outer in zip(ranges_of(match["inner"]), ranges_of(match.root), strict=True):
        start, stride, count = inner.start + outer.start * inner.stride, inner.stride * outer.stride, _count(outer)
        ranges.append(SliceDimension(start, start + (count - 1) * stride + 1 if count else start, stride))
    return cut(into, match["x"], ranges)


def _of_concatenate(match: Match, into: Expansion) -> HloInstruction | None:
    """A slice of a concatenate that lies within one operand."""
    whole, ranges = match["whole"], list(ranges_of(match.root))
    along = whole.attributes_as(at.ConcatenateAttributes).dimension
    d, begin = ranges[along], 0
    last = d.start + (_count(d) - 1) * d.stride
    for operand in whole.operands:
        end = begin + operand.shape.dimensions[along]
        if begin <= d.start and last < end and _count(d):
            ranges[along] = SliceDimension(d.start - begin, last + 1 - begin, d.stride)
            return cut(into, operand, ranges)
        begin = end
    return None


def _of_operands(match: Match, into: Expansion) -> HloInstruction | None:
    """A slice of a concatenate that lies within some operands, next to each other."""
    whole, ranges = match["whole"], list(ranges_of(match.root))
    along = whole.attributes_as(at.ConcatenateAttributes).dimension
    d, begin, first = ranges[along], 0, None
    kept: list[HloInstruction] = []
    for operand in whole.operands:
        end = begin + operand.shape.dimensions[along]
        if begin < d.limit and d.start < end:
            first = begin if first is None else first
            kept.append(operand)
        begin = end
    if first is None or len(kept) < 2 or len(kept) == whole.operand_count:
        return None
    ranges[along] = SliceDimension(d.start - first, d.limit - first, d.stride)
    return cut(into, into.make("concatenate", *kept, attributes=whole.attributes), ranges)


def _of_pad(match: Match, into: Expansion) -> HloInstruction | None:
    """A slice of a pad: padding only, or elements of the operand only."""
    moved: list[SliceDimension] = []
    inside = True
    padding = match["pad"].attributes_as(at.PadAttributes).padding
    for d, p, size in zip(ranges_of(match.root), padding, match["x"].shape.dimensions, strict=True):
        step, start = 1 + p.interior_padding, d.start - p.edge_padding_low  # elements of x lie `step` apart
        last = start + (_count(d) - 1) * d.stride
        on_elements = not start % step and (not d.stride % step or _count(d) == 1)
        misses_all = bool(start % step) and not d.stride % step
        if last < 0 or start > (size - 1) * step or misses_all:
            return into.like_source("broadcast", [match["v"]], at.DimensionsAttributes(()))
        inside &= on_elements and start >= 0 and last <= (size - 1) * step
        moved.append(SliceDimension(start // step, last // step + 1, max(d.stride // step, 1)))
    return cut(into, match["x"], moved) if inside else None


def _of_broadcast(match: Match, into: Expansion) -> HloInstruction:
    x, ranges, dimensions = match["x"], ranges_of(match.root), dimensions_of(match["broadcast"])
    part = cut(into, x, [ranges[d] for d in dimensions]) if x.shape.rank else x
    return into.like_source("broadcast", [part], at.DimensionsAttributes(dimensions))


def _of_reverse(match: Match, into: Expansion) -> HloInstruction:
    ranges = list(ranges_of(match.root))
    for d in dimensions_of(match["reverse"]):
        r, size = ranges[d], match["x"].shape.dimensions[d]
        last = r.start + (_count(r) - 1) * r.stride
        ranges[d] = SliceDimension(size - 1 - last, size - r.start, r.stride)
    return into.make("reverse", cut(into, match["x"], ranges), attributes=match["reverse"].attributes)


def _of_transpose(match: Match, into: Expansion) -> HloInstruction:
    old, ranges = dimensions_of(match["transpose"]), ranges_of(match.root)
    part = cut(into, match["x"], [ranges[d] for d in inverse(old)])
    return into.make("transpose", part, attributes=match["transpose"].attributes)


def _of_reshape(match: Match, into: Expansion) -> HloInstruction | None:
    """A slice along the first dimensions only, which the reshape does not touch."""
    x, reshape, ranges = match["x"], match["reshape"], ranges_of(match.root)
    before, after = x.shape.dimensions, reshape.shape.dimensions
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    if any(_count(r) != n for r, n in zip(ranges[same:], after[same:], strict=True)):
        return None
    part = cut(into, x, [*ranges[:same], *[SliceDimension(0, n) for n in before[same:]]])
    return into.like_source("reshape", [part])


def _of_reshaped_rows(match: Match, into: Expansion) -> HloInstruction | None:
    """A slice along the first dimension only, of whole rows of what was reshaped."""
    x, reshape, (first, *rest) = match["x"], match["reshape"], ranges_of(match.root)
    sizes = zip(rest, reshape.shape.dimensions[1:], strict=True)
    if first.stride != 1 or any(_count(r) != n for r, n in sizes) or not x.shape.rank or not x.shape.num_elements:
        return None
    elements = reshape.shape.num_elements // reshape.shape.dimensions[0]
    row = x.shape.num_elements // x.shape.dimensions[0]
    start, limit = first.start * elements, first.limit * elements
    if start % row or limit % row:
        return None
    rows = SliceDimension(start // row, limit // row)
    return into.like_source("reshape", [cut(into, x, [rows, *[SliceDimension(0, n) for n in x.shape.dimensions[1:]]])])


def _is_not_empty(instruction: HloInstruction) -> bool:
    return instruction.shape.num_elements > 0


def _reverse(into: Expansion, x: HloInstruction, dimensions: Iterable[int]) -> HloInstruction:
    left = tuple(sorted(dimensions))
    return into.make("reverse", x, attributes=at.DimensionsAttributes(left)) if left else x


def _without_ones(match: Match, into: Expansion) -> HloInstruction | None:
    sizes, old = match.root.shape.dimensions, dimensions_of(match.root)
    kept = [d for d in old if sizes[d] != 1]
    return _reverse(into, match["x"], kept) if len(kept) < len(old) else None


def _twice(match: Match, into: Expansion) -> HloInstruction:
    return _reverse(into, match["x"], set(dimensions_of(match.root)) ^ set(dimensions_of(match["inner"])))


def _reversed_broadcast(match: Match, into: Expansion) -> HloInstruction | None:
    old, mapped = dimensions_of(match.root), dimensions_of(match["broadcast"])
    kept = [d for d in old if d in mapped]
    return _reverse(into, match["broadcast"], kept) if len(kept) < len(old) else None


def _through(match: Match, into: Expansion) -> HloInstruction | None:
    """reverse(op(x, c)) of c with one value: x is reversed before."""
    old = match["op"]
    fixed = [o.opcode == "broadcast" and not o.operand(0).shape.rank for o in old.operands]
    if fixed.count(False) != 1:
        return None
    operands = [
        o if constant else into.make("reverse", o, attributes=match.root.attributes)
        for o, constant in zip(old.operands, fixed, strict=True)
    ]
    return into.like_source(old.opcode, operands, old.attributes)


_X = m.any("x")
_BINARY = "add|subtract|multiply|divide|maximum|minimum|power|and|or|xor"

SLICES = (
    AlgebraRule("R119", "slice(slice(x)) = slice(x)", m.op("slice", m.op("slice", _X, name="inner")), _composed),
    AlgebraRule("R120", "slice(concatenate(a, b)) = slice(a)", m.op("slice", m.op("concatenate", name="whole")),
                _of_concatenate),
    AlgebraRule("N38", "slice(concatenate(a, b, c)) = slice(concatenate(b, c))",
                m.op("slice", m.op("concatenate", name="whole").one_use()), _of_operands),
    AlgebraRule("R121", "slice(pad(x, v)) = broadcast(v), slice(x)",
                m.op("slice", m.op("pad", _X, m.any("v"), name="pad")).where(_is_not_empty), _of_pad),
    AlgebraRule("R122", "slice(broadcast(x)) = broadcast(slice(x))",
                m.op("slice", m.op("broadcast", _X, name="broadcast")), _of_broadcast),
    AlgebraRule("R123", "slice(reverse(x)) = reverse(slice(x))",
                m.op("slice", m.op("reverse", _X, name="reverse").one_use()).where(_is_not_empty), _of_reverse),
    AlgebraRule("R123b", "slice(transpose(x)) = transpose(slice(x))",
                m.op("slice", m.op("transpose", _X, name="transpose").one_use()), _of_transpose),
    AlgebraRule("R123c", "slice(reshape(x)) = reshape(slice(x)) along first dimensions that stay",
                m.op("slice", m.op("reshape", _X, name="reshape").one_use()).where(_is_not_empty), _of_reshape),
    AlgebraRule("N50", "slice(reshape(x)) = reshape(slice(x)) of whole rows of x",
                m.op("slice", m.op("reshape", _X, name="reshape").one_use())
                .where(lambda i: _is_not_empty(i) and i.shape.rank > 0), _of_reshaped_rows),
)  # fmt: skip

REVERSES = (
    AlgebraRule("R115b", "reverse(x) = reverse(x) without dimensions of size 1", m.op("reverse", _X), _without_ones),
    AlgebraRule("R115c", "reverse(reverse(x)) = reverse(x) or x", m.op("reverse", m.op("reverse", _X, name="inner")),
                _twice),
    AlgebraRule("R115d", "reverse(broadcast(x)) = broadcast(x) along new dimensions",
                m.op("reverse", m.op("broadcast", name="broadcast")), _reversed_broadcast),
    AlgebraRule("N5", "reverse(op(x, c)) = op(reverse(x), c)",
                m.op("reverse", m.op(_BINARY, name="op").one_use()), _through),
)  # fmt: skip
