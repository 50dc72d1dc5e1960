"""Products of matrices in another order, where that takes fewer operations; only behind an option.

Dimensions get labels, as in Einstein's notation: equal ones are taken together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import DotAttributes, PaddingDimension, SliceDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import is_zero, value_of
from xjit.passes.simplify.algebra.dimensions import dimensions_of
from xjit.passes.simplify.algebra.padding import padding_of
from xjit.passes.simplify.algebra.reductions import is_neutral, operation, reduce_with
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness
from xjit.passes.simplify.algebra.slices import cut, ranges_of

Labels = tuple[int, ...]
_THRESHOLD = 2.0  # how many times fewer operations make another order worth it, if an option does not say so


def labels_of(dot: HloInstruction) -> tuple[Labels, Labels, Labels]:
    """Returns labels of the dimensions of both operands and of the result of a dot."""
    a = dot.attributes_as(DotAttributes)
    lhs = tuple(range(dot.operand(0).shape.rank))
    pairs = dict(zip((*a.rhs_batch_dims, *a.rhs_contracting_dims), (*a.lhs_batch_dims, *a.lhs_contracting_dims)))
    rhs = tuple(pairs.get(d, len(lhs) + d) for d in range(dot.operand(1).shape.rank))
    batch = tuple(a.lhs_batch_dims)
    taken = {*batch, *a.lhs_contracting_dims}
    return lhs, rhs, (*batch, *(x for x in lhs if x not in taken), *(y for y in rhs if y not in taken))


def _plain(dot: HloInstruction) -> bool:
    a = dot.attributes_as(DotAttributes)
    kinds = {dot.shape.element_type, *(o.shape.element_type for o in dot.operands)}
    return not a.sparsity and not a.algorithm and len(kinds) == 1 and dot.operand_count == 2


def _dot(
    into: Expansion,
    like: HloInstruction,
    x: HloInstruction,
    y: HloInstruction,
    a: Labels,
    b: Labels,
    kept: Iterable[int],
) -> tuple[HloInstruction, Labels]:
    """Returns the product of two arrays with labels over the labels that are not kept, and its labels."""
    keep = set(kept)
    batch = [v for v in a if v in b and v in keep]
    contracted = [v for v in a if v in b and v not in keep]
    old = like.attributes_as(DotAttributes)
    attributes = DotAttributes(
        tuple(map(a.index, batch)), tuple(map(a.index, contracted)), tuple(map(b.index, batch)),
        tuple(map(b.index, contracted)), old.operand_precision,
    )  # fmt: skip
    free = [v for v in (*a, *b) if v not in batch and v not in contracted]
    sizes = {**dict(zip(a, x.shape.dimensions)), **dict(zip(b, y.shape.dimensions))}
    shape = like.shape.with_dimensions([sizes[v] for v in (*batch, *free)])
    return into.make("dot", x, y, attributes=attributes, shape=shape), (*batch, *free)


def _as_result(into: Expansion, value: HloInstruction, has: Labels, wanted: Labels) -> HloInstruction:
    if has == wanted:
        return value
    order = tuple(has.index(v) for v in wanted)
    return into.like_source("transpose", [value], at.DimensionsAttributes(order))


def _work(sizes: dict[int, int], *operands: Iterable[int]) -> int:
    return math.prod(sizes[v] for v in {v for labels in operands for v in labels})


def _associated(match: Match, into: Expansion, threshold: float = _THRESHOLD) -> HloInstruction | None:
    """(a b) c as a (b c) or (a c) b; and c (a b) alike."""
    root, inner = match.root, match["inner"]
    side = 0 if root.operand(0) is inner else 1
    c = root.operand(1 - side)
    if c is inner or not (_plain(root) and _plain(inner)):
        return None
    of_inner, of_c, out = labels_of(root)[side], labels_of(root)[1 - side], labels_of(root)[2]
    lhs, rhs, result = labels_of(inner)
    rename = dict(zip(result, of_inner, strict=True))
    summed = {v: -1 - n for n, v in enumerate(sorted({*lhs, *rhs} - {*result}))}
    a, b = (tuple(rename.get(v, summed.get(v, v)) for v in labels) for labels in (lhs, rhs))
    x, y = inner.operands
    sizes = {
        **dict(zip(a, x.shape.dimensions)),
        **dict(zip(b, y.shape.dimensions)),
        **dict(zip(of_c, c.shape.dimensions)),
    }
    before = _work(sizes, a, b) + _work(sizes, of_inner, of_c)
    best: tuple[int, int] | None = None
    for first, (one, other) in enumerate(((a, b), (b, a))):
        middle = [v for v in {*other, *of_c} if v in one or v in out]
        if any(v not in of_c for v in other if v not in one and v not in out) or not {*other} & {*of_c}:
            continue
        after = _work(sizes, other, of_c) + _work(sizes, one, middle)
        if after * threshold < before and (best is None or after < best[0]):
            best = after, first
    if best is None:
        return None
    (one, other), (p, q) = ((a, b), (x, y)) if best[1] == 0 else ((b, a), (y, x))
    product, labels = _dot(into, root, q, c, other, of_c, {*one, *out})
    whole, has = _dot(into, root, p, product, one, labels, out)
    return _as_result(into, whole, has, out)


def _of_slice(match: Match, into: Expansion) -> HloInstruction:
    """A slice of a product: only the rows and columns of it."""
    dot, ranges = match["dot"], ranges_of(match.root)
    a, b, out = labels_of(dot)
    parts: list[HloInstruction] = []
    for operand, labels in zip(dot.operands, (a, b), strict=True):
        mine = [
            ranges[out.index(v)] if v in out else SliceDimension(0, n)
            for v, n in zip(labels, operand.shape.dimensions, strict=True)
        ]
        whole = all(r == SliceDimension(0, n) for r, n in zip(mine, operand.shape.dimensions, strict=True))
        parts.append(operand if whole else cut(into, operand, mine))
    return into.like_source("dot", parts, dot.attributes)


def _of_reverse(match: Match, into: Expansion, threshold: float = _THRESHOLD) -> HloInstruction | None:
    """A product of a reversed array: the other one is reversed where both meet, and the result elsewhere."""
    dot, reverse = match.root, match["reverse"]
    side = 0 if dot.operand(0) is reverse else 1
    labels = labels_of(dot)
    reversed_ = {labels[side][d] for d in dimensions_of(reverse)}
    other = dot.operand(1 - side)
    shared = [d for d, v in enumerate(labels[1 - side]) if v in reversed_]
    after = [d for d, v in enumerate(labels[2]) if v in reversed_]
    moved = other.shape.num_elements * bool(shared) + dot.shape.num_elements * bool(after)
    if moved * threshold >= reverse.shape.num_elements or other is reverse:
        return None
    if shared:
        other = into.make("reverse", other, attributes=at.DimensionsAttributes(tuple(shared)))
    operands = [reverse.operand(0), other] if side == 0 else [other, reverse.operand(0)]
    if not after:
        return into.like_source("dot", operands, dot.attributes)
    product = into.make("dot", *operands, attributes=dot.attributes, shape=dot.shape)
    return into.like_source("reverse", [product], at.DimensionsAttributes(tuple(after)))


def _of_pad(match: Match, into: Expansion) -> HloInstruction | None:
    """A product of an array padded with zeros: the other one is cut where both meet, the result padded elsewhere."""
    dot, pad = match.root, match["pad"]
    value, padding = value_of(pad.operand(1)), padding_of(pad)
    if value is None or not is_zero(value, pad.shape.element_type) or not _plain(dot):
        return None
    if any(min(p.edge_padding_low, p.edge_padding_high) < 0 or p.interior_padding for p in padding):
        return None
    side = 0 if dot.operand(0) is pad else 1
    labels, inner, other = labels_of(dot), pad.operand(0), dot.operand(1 - side)
    mine = dict(zip(labels[side], zip(padding, inner.shape.dimensions, strict=True), strict=True))
    outside = [mine[v][0] if v in mine else PaddingDimension() for v in labels[2]]
    if all(p == PaddingDimension() for p in outside):
        return None  # the rule about contracted dimensions says the same
    ranges = [SliceDimension(0, n) for n in other.shape.dimensions]
    for d, v in enumerate(labels[1 - side]):
        if v in mine:
            low = mine[v][0].edge_padding_low
            ranges[d] = SliceDimension(low, low + mine[v][1])
    part = cut(into, other, ranges)
    operands = [inner, part] if side == 0 else [part, inner]
    sizes = [n - p.edge_padding_low - p.edge_padding_high for n, p in zip(dot.shape.dimensions, outside, strict=True)]
    small = into.make("dot", *operands, attributes=dot.attributes, shape=dot.shape.with_dimensions(sizes))
    return into.like_source("pad", [small, pad.operand(1)], at.PadAttributes(tuple(outside)))


def _of_reduce(match: Match, into: Expansion, threshold: float = _THRESHOLD) -> HloInstruction | None:
    """A sum of rows or columns of a product: the product of a sum."""
    root, dot = match.root, match["dot"]
    if operation(root) != "add" or not is_neutral(root.operand(1), root, root.operand(1)) or not _plain(dot):
        return None
    labels, out = labels_of(dot), labels_of(dot)[2]
    gone = {out[d] for d in dimensions_of(root)}
    if gone & {*labels[0]} & {*labels[1]}:
        return None  # a batch dimension would become a contracted one
    sizes = {v: n for o, mine in zip(dot.operands, labels[:2], strict=True) for v, n in zip(mine, o.shape.dimensions)}
    left = {v: 1 if v in gone else n for v, n in sizes.items()}
    sums = sum(o.shape.num_elements for o, mine in zip(dot.operands, labels[:2], strict=True) if gone & {*mine})
    before = _work(sizes, *labels[:2]) + dot.shape.num_elements
    if before <= threshold * (_work(left, *labels[:2]) + sums):
        return None
    parts: list[tuple[HloInstruction, Labels]] = []
    for operand, mine in zip(dot.operands, labels[:2], strict=True):
        summed = [d for d, v in enumerate(mine) if v in gone]
        kept = tuple(v for v in mine if v not in gone)
        reduced = reduce_with(into, operand, root.operand(1), summed, root.to_apply) if summed else operand
        parts.append((reduced, kept))
    (x, a), (y, b) = parts
    wanted = tuple(v for v in out if v not in gone)
    product, has = _dot(into, dot, x, y, a, b, wanted)
    return _as_result(into, product, has, wanted)


_OPTION, _NUMBER = "use_associative_reordering", ("threshold", "associative_reordering_threshold")
_RAISED = "use_associative_reordering|raise_slice_and_reduce_through_dot"
_INNER = m.op("dot", m.any(), m.any(), name="inner").one_use()
_DOT = m.op("dot", m.any(), m.any(), name="dot").one_use()
_REVERSE = m.op("reverse", name="reverse").one_use()
_PAD = m.op("pad", name="pad").one_use()
_ORDER, _XLA = Exactness.ORDER, Exactness.XLA

REORDERING = (
    AlgebraRule("N8", "dot(dot(a, b), c) = dot(a, dot(b, c)) with fewer operations", m.op("dot", _INNER, m.any()),
                _associated, _XLA, _OPTION, _NUMBER),
    AlgebraRule("N8b", "dot(c, dot(a, b)) = dot(a, dot(b, c)) with fewer operations", m.op("dot", m.any(), _INNER),
                _associated, _XLA, _OPTION, _NUMBER),
    AlgebraRule("N9", "slice(dot(a, b)) = dot(slice(a), slice(b))", m.op("slice", _DOT), _of_slice, _ORDER,
                _RAISED),
    AlgebraRule("N10", "dot(reverse(a), b) = reverse(dot(a, reverse(b)))", m.op("dot", _REVERSE, m.any()), _of_reverse,
                _ORDER, _OPTION, _NUMBER),
    AlgebraRule("N10b", "dot(a, reverse(b)) = reverse(dot(reverse(a), b))", m.op("dot", m.any(), _REVERSE), _of_reverse,
                _ORDER, _OPTION, _NUMBER),
    AlgebraRule("N11", "dot(pad(a, 0), b) = pad(dot(a, slice(b)), 0)", m.op("dot", _PAD, m.any()), _of_pad, _XLA,
                _OPTION),
    AlgebraRule("N11b", "dot(a, pad(b, 0)) = pad(dot(slice(a), b), 0)", m.op("dot", m.any(), _PAD), _of_pad, _XLA,
                _OPTION),
    AlgebraRule("N12", "sum(dot(a, b)) of free dimensions = dot(sum(a), sum(b))",
                m.op("reduce", _DOT, m.any()), _of_reduce, _XLA, _RAISED,
                ("threshold", "raise_slice_and_reduce_through_dot_threshold")),
)  # fmt: skip
