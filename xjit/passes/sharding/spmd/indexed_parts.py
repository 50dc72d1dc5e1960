"""Gathers and slices of split dimensions: each device takes what of them its tile has."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.passes.sharding.spmd.builder import INDEX, SpmdBuilder
from xjit.passes.sharding.spmd.placement import Placement

_WIDE = frozenset({PrimitiveType.S64, PrimitiveType.U64, PrimitiveType.U32})


def part_of_gather(
    gather: HloInstruction,
    operands: Sequence[HloInstruction],
    split: Mapping[int, int],
    placement: Placement,
    b: SpmdBuilder,
) -> tuple[list[HloInstruction], HloInstruction]:
    """Returns the operands of the gather from one tile, and which of its result's elements are of this tile.

    `split` names for dimensions of the operand that indices point into those of `placement`.
    """
    a = gather.attributes_as(at.GatherAttributes)
    sizes, indices = gather.operand(0).shape.dimensions, _signed(operands[1], b)
    kind, shape, vector = indices.shape.element_type, indices.shape.dimensions, a.index_vector_dim
    along = () if vector == len(shape) else (vector,)

    def spread(values: Sequence[HloInstruction]) -> HloInstruction:
        column = b.concatenate([b.reshape(b.convert(v, kind), (1,)) for v in values], 0)
        whole = b.reshape(column, ()) if vector == len(shape) else column
        return b.broadcast(whole, shape, along) if shape else whole

    def constants(values: Sequence[int]) -> HloInstruction:
        return spread([b.constant(v, kind) for v in values])

    pointed = a.start_index_map
    highest = constants([sizes[d] - a.slice_sizes[d] for d in pointed])
    first = spread([b.number(placement.starts[:, split[d]]) if d in split else b.constant(0, kind) for d in pointed])
    places = b.make("subtract", b.make("clamp", constants([0] * len(pointed)), indices, highest), first)
    limits = constants([placement.local[split[d]] if d in split else sizes[d] for d in pointed])
    inside = b.make("and", b.compare("GE", places, constants([0] * len(pointed))), b.compare("LT", places, limits))
    batch = [n for d, n in enumerate(shape) if d != vector]
    return [operands[0], places], _all_along(inside, vector, batch, b)


def _signed(indices: HloInstruction, b: SpmdBuilder) -> HloInstruction:
    wide = indices.shape.element_type in _WIDE
    return b.convert(indices, PrimitiveType.S64 if wide else PrimitiveType.S32)


def _all_along(pred: HloInstruction, dimension: int, rest: Sequence[int], b: SpmdBuilder) -> HloInstruction:
    """Whether all predicates along a dimension hold; the dimension may be missing."""
    sizes = pred.shape.dimensions
    if dimension == len(sizes):
        return pred
    ones: list[HloInstruction] = []
    for n in range(sizes[dimension]):
        starts = [n if d == dimension else 0 for d in range(len(sizes))]
        limits = [n + 1 if d == dimension else size for d, size in enumerate(sizes)]
        ones.append(b.reshape(b.slice(pred, starts, limits), rest))
    return functools.reduce(lambda one, other: b.make("and", one, other), ones)


def clamped(start: HloInstruction, highest: int, b: SpmdBuilder) -> HloInstruction:
    """A start as it is taken: between 0 and `highest`."""
    start = _signed(start, b)
    kind = start.shape.element_type
    return b.make("clamp", b.constant(0, kind), start, b.constant(highest, kind))


def part_of_slice(
    slice_: HloInstruction,
    tile: HloInstruction,
    shape: Shape,
    split: Mapping[int, int],
    placement: Placement,
    b: SpmdBuilder,
) -> HloInstruction:
    """Returns what of a slice, without strides, one tile has, and zeros for what other tiles have."""
    taken = slice_.shape.dimensions
    around = b.pad(tile, [(taken[d], taken[d]) if d in split else (0, 0) for d in range(len(taken))], 0)
    starts: list[HloInstruction] = []
    for d, part in enumerate(slice_.attributes_as(at.SliceAttributes).slice):
        if d in split:
            first = part.start - placement.starts[:, split[d]] + taken[d]
            starts.append(b.number(np.clip(first, 0, around.shape.dimensions[d] - taken[d])))
        else:
            starts.append(b.constant(part.start, INDEX))
    return b.dynamic_slice(around, starts, shape.dimensions)
