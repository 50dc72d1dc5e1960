"""Gathers and slices of split dimensions: each device takes what of them its tile has."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.passes.sharding.spmd.builder import INDEX, NOTHING, SpmdBuilder
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

    def constants(values: Sequence[int]) -> HloInstruction:
        return _spread([b.constant(v, kind) for v in values], indices, vector, b)

    pointed = a.start_index_map
    highest = constants([sizes[d] - a.slice_sizes[d] for d in pointed])
    first = _spread(_starts(pointed, split, placement, b), indices, vector, b)
    places = b.make("subtract", b.make("clamp", constants([0] * len(pointed)), indices, highest), first)
    limits = constants([placement.local[split[d]] if d in split else sizes[d] for d in pointed])
    inside = b.make("and", b.compare("GE", places, constants([0] * len(pointed))), b.compare("LT", places, limits))
    batch = [n for d, n in enumerate(shape) if d != vector]
    return [operands[0], places], _all_along(inside, vector, batch, b)


def indices_in_tile(
    scatter: HloInstruction, indices: HloInstruction, split: Mapping[int, int], placement: Placement, b: SpmdBuilder
) -> HloInstruction:
    """The indices of a scatter, counted from where a tile begins: those of other tiles are beyond it.

    `split` names for dimensions of the operand those of `placement`.
    """
    a = scatter.attributes_as(at.ScatterAttributes)
    signed = _signed(indices, b)
    starts = _starts(a.scatter_dims_to_operand_dims, split, placement, b)
    return b.make("subtract", signed, _spread(starts, signed, a.index_vector_dim, b))


def _starts(
    pointed: Sequence[int], split: Mapping[int, int], placement: Placement, b: SpmdBuilder
) -> list[HloInstruction]:
    """Where the tile begins along each dimension that indices point into."""
    return [b.number(placement.starts[:, split[d]]) if d in split else b.constant(0, INDEX) for d in pointed]


def _spread(values: Sequence[HloInstruction], indices: HloInstruction, vector: int, b: SpmdBuilder) -> HloInstruction:
    """A value for each of the index vector's elements, of the shape of the indices."""
    kind, shape = indices.shape.element_type, indices.shape.dimensions
    column = b.concatenate([b.reshape(b.convert(v, kind), (1,)) for v in values], 0)
    whole = b.reshape(column, ()) if vector == len(shape) else column
    return b.broadcast(whole, shape, () if vector == len(shape) else (vector,)) if shape else whole


def _signed(indices: HloInstruction, b: SpmdBuilder) -> HloInstruction:
    """Indices as signed numbers: what is beyond these is beyond any array."""
    wide = indices.shape.element_type in _WIDE
    if indices.shape.element_type is PrimitiveType.U64:
        indices = b.make("minimum", indices, b.like(indices, np.iinfo(np.int64).max))
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
    """Returns what of a slice, without strides, one tile has, and `NOTHING` for what other tiles have."""
    taken = slice_.shape.dimensions
    around = b.pad(tile, [(taken[d], taken[d]) if d in split else (0, 0) for d in range(len(taken))], NOTHING)
    starts: list[HloInstruction] = []
    for d, part in enumerate(slice_.attributes_as(at.SliceAttributes).slice):
        if d in split:
            first = part.start - placement.starts[:, split[d]] + taken[d]
            starts.append(b.number(np.clip(first, 0, around.shape.dimensions[d] - taken[d])))
        else:
            starts.append(b.constant(part.start, INDEX))
    return b.dynamic_slice(around, starts, shape.dimensions)
