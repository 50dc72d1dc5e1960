"""An array's memory as a 1-D array, in HLO: transpose, then pad-reshape-transpose per tile; and back.

What a bitcast between tiled layouts means, written with opcodes whose meaning does not depend on layouts. Padding is
zero.
"""

from __future__ import annotations

import math

from xjit.hlo import HloInstruction, Literal, Shape
from xjit.hlo.attributes import (
    Attributes,
    DimensionsAttributes,
    PadAttributes,
    PaddingDimension,
    SliceAttributes,
    SliceDimension,
)
from xjit.hlo.types.layout import COMBINE, Tile
from xjit.passes.framework.expansion import Expansion


def to_physical(x: HloInstruction, into: Expansion) -> HloInstruction:
    """Returns the 1-D array of the elements of `x` in the order of its layout, padding of tiles included."""
    build = _Chain(x, into)
    order = x.shape.minor_to_major[::-1]
    build.transpose(order)
    for tile in x.shape.layout.tiles if x.shape.layout else ():
        outer, combined, sizes = _split(build.dims, tile)
        build.reshape([*outer, *combined])
        padded = [-(-n // t) * t for n, t in zip(combined, sizes, strict=True)]
        build.pad([*outer, *padded])
        build.reshape([*outer, *[n for p, t in zip(padded, sizes, strict=True) for n in (p // t, t)]])
        build.transpose(_counts_first(len(outer), len(sizes)))
    build.reshape([math.prod(build.dims)])
    return build.value


def from_physical(flat: HloInstruction, shape: Shape, into: Expansion) -> HloInstruction:
    """Returns the row-major array whose elements under the layout of `shape` are `flat`, padding dropped."""
    order = shape.minor_to_major[::-1]
    tiles = shape.layout.tiles if shape.layout else ()
    stages = [[shape.dimensions[d] for d in order]]
    for tile in tiles:
        outer, combined, sizes = _split(stages[-1], tile)
        stages.append([*outer, *[-(-n // t) for n, t in zip(combined, sizes, strict=True)], *sizes])
    build = _Chain(flat, into)
    build.reshape(stages[-1])
    for stage, tile in zip(reversed(stages[:-1]), reversed(tiles), strict=True):
        outer, combined, sizes = _split(stage, tile)
        permutation = _counts_first(len(outer), len(sizes))
        build.transpose(_inverse(permutation))
        build.reshape([*outer, *[-(-n // t) * t for n, t in zip(combined, sizes, strict=True)]])
        build.cut([*outer, *combined])
        build.reshape(stage)
    build.transpose(_inverse(order))
    return build.value


def _split(dims: list[int], tile: Tile) -> tuple[list[int], list[int], list[int]]:
    """Returns the dims above the tile, those under it with `*` merged into the next, and its sizes."""
    first = len(dims) - len(tile.dimensions)
    combined: list[int] = []
    pending = 1
    for n, t in zip(dims[first:], tile.dimensions, strict=True):
        pending *= n
        if t != COMBINE:
            combined.append(pending)
            pending = 1
    return dims[:first], combined, [t for t in tile.dimensions if t != COMBINE]


def _counts_first(outer: int, tiled: int) -> tuple[int, ...]:
    counts = range(outer, outer + 2 * tiled, 2)
    return (*range(outer), *counts, *[c + 1 for c in counts])


def _inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([permutation.index(i) for i in range(len(permutation))])


class _Chain:
    """A chain of instructions on one value; steps that change nothing are left out."""

    def __init__(self, x: HloInstruction, into: Expansion) -> None:
        self.into = into
        self.value = x

    @property
    def dims(self) -> list[int]:
        return list(self.value.shape.dimensions)

    def _add(self, opcode: str, dims: list[int], attributes: Attributes | None, *more: HloInstruction) -> None:
        shape = Shape.array(self.value.shape.element_type, dims)
        instruction = HloInstruction.create(opcode, shape, [self.value, *more], attributes, name=self.value.name)
        self.value = self.into.add(instruction)

    def transpose(self, permutation: tuple[int, ...]) -> None:
        if permutation != tuple(range(len(permutation))):
            self._add("transpose", [self.dims[d] for d in permutation], DimensionsAttributes(permutation))

    def reshape(self, dims: list[int]) -> None:
        if dims != self.dims:
            self._add("reshape", dims, None)

    def pad(self, dims: list[int]) -> None:
        if dims != self.dims:
            scalar = Shape.array(self.value.shape.element_type)
            zero = self.into.constant(Literal.full(scalar, 0))
            padding = tuple([PaddingDimension(0, new - old) for old, new in zip(self.dims, dims, strict=True)])
            self._add("pad", dims, PadAttributes(padding), zero)

    def cut(self, dims: list[int]) -> None:
        if dims != self.dims:
            self._add("slice", dims, SliceAttributes(tuple([SliceDimension(0, n) for n in dims])))
