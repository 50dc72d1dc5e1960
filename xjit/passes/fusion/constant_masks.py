"""Masks that are constants become comparisons of positions, where they are one value on half-planes; positions, iotas.

A program may hold its mask as an array: lower triangular ones, 0 and -1e9, a window, columns of padding. A comparison
of positions takes no memory, and kernels know without looking where it leaves nothing of the scores. What is compared
may be an array, too: 0, 1, 2, ... for the rows, and the same a window further for the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.half_planes import MAX_PLANES, HalfPlane

MAX_ELEMENTS = 1 << 26
"""Of a constant that is looked through."""
SAMPLES = 1 << 12
"""Elements that are looked at first: a mask has few values."""
_GLANCE = 64
"""Rows and columns that are looked at first: what counts positions does so from the start."""
_DIRECTIONS = ((0, 1), (0, -1), (-1, 1), (1, -1))
"""Of half-planes: columns behind and before others, what is above and below diagonals."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Region:
    """A half-plane, as the elements that are in it, where a constant has one value, that of the element `corner`."""

    plane: HalfPlane
    inside: Array
    corner: tuple[int, int]


def replace_constant_masks(
    computation: HloComputation, between: Iterable[HloInstruction], kept: set[HloInstruction]
) -> bool:
    """Replaces constants that some instructions read; True if there were any.

    Those that stay are added to `kept`, and not looked at again: layers may share them.
    """
    constants = {o for i in between for o in i.operands if o.opcode == "constant" and o.shape.is_array} - kept
    in_order = sorted(constants, key=lambda constant: constant.name)
    replaced = {constant for constant in in_order if _replace_constant(computation, constant)}
    kept |= constants - replaced
    return bool(replaced)


def _replace_constant(computation: HloComputation, constant: HloInstruction) -> bool:
    """Replaces a constant of positions, or one that is one value wherever its half-planes are not."""
    literal = constant.attributes_as(at.ConstantAttributes).literal
    sizes = literal.shape.dimensions
    wide = [d for d, size in enumerate(sizes) if size > 1]
    if len(wide) not in (1, 2) or literal.shape.element_type.is_complex:
        return False
    if not 0 < literal.shape.num_elements <= MAX_ELEMENTS or literal.splat_value() is not None:
        return False
    matrix = literal.array.reshape([sizes[d] for d in wide] if len(wide) == 2 else (1, -1))
    builder = _Builder(computation, constant.shape, wide)
    steps = _steps(matrix) if literal.shape.element_type.is_signed else None
    if steps is not None:
        replace(constant, builder.positions(int(matrix[0, 0]), *steps))
        return True
    bits = np.ascontiguousarray(matrix).view(f"u{matrix.dtype.itemsize}")
    some = bits.ravel()[:: -(-bits.size // SAMPLES)]
    if np.unique(some).size > MAX_PLANES + 1:
        return False
    regions = _regions(bits)
    others = ~np.logical_or.reduce([r.inside for r in regions]) if regions else np.ones(bits.shape, bool)
    rest = int(np.argmax(others))
    if not regions or (bits[others] != bits.flat[rest]).any():
        return False
    value = builder.splat(matrix.flat[rest])
    for region in regions:
        value = builder.add(build.select(builder.inside(region.plane), builder.splat(matrix[region.corner]), value))
    replace(constant, value)
    return True


def _steps(matrix: Array) -> tuple[int, int] | None:
    """Returns -1, 0 or 1 each: by how much integers grow from row to row and from column to column; None for others."""
    start, *after = (int(matrix[i % matrix.shape[0], j % matrix.shape[1]]) for i, j in ((0, 0), (1, 0), (0, 1)))
    row, column = (n - start for n in after)
    if abs(row) > 1 or abs(column) > 1:
        return None
    for numbers in (matrix[:_GLANCE, :_GLANCE], matrix):
        down, across = (np.arange(size) for size in numbers.shape)
        if not np.array_equal(numbers.astype(np.int64), row * down[:, None] + (column * across + start)):
            return None
    return row, column


def _regions(bits: Array) -> list[_Region]:
    """Returns the largest half-planes on which a matrix has one value: as many as a mask may have, not overlapping."""
    found = [region for direction in _DIRECTIONS if (region := _region(bits, *direction)) is not None]
    kept: list[_Region] = []
    for region in sorted(found, key=lambda r: -np.count_nonzero(r.inside)):
        if len(kept) < MAX_PLANES and not any((other.inside & region.inside).any() for other in kept):
            kept.append(region)
    return kept


def _region(bits: Array, row: int, column: int) -> _Region | None:
    """Returns the largest half-plane of a direction where all is as in the corner that is furthest in it."""
    rows, columns = bits.shape
    corner = (0 if row <= 0 else rows - 1), (columns - 1 if column > 0 else 0)
    differs = bits != bits[corner]
    has = differs.any(axis=1)
    last = columns - 1 - np.argmax(differs[:, ::-1], axis=1) if column > 0 else np.argmax(differs, axis=1)
    plane = HalfPlane(row, column, -int((row * np.arange(rows) + column * last)[has].max()) - 1)
    down, across = (np.arange(size, dtype=np.int32) for size in (rows, columns))
    inside = plane.column * across >= (-plane.row * down - plane.offset)[:, None]
    return _Region(plane, inside, corner) if inside.any() else None


@dataclass(frozen=True, slots=True)
class _Builder:
    """Adds arrays of a shape whose rows and columns are two dimensions, or whose columns are one."""

    computation: HloComputation
    shape: Shape
    wide: Sequence[int]

    def add(self, instruction: HloInstruction) -> HloInstruction:
        return self.computation.add_instruction(instruction)

    def splat(self, value: Any, kind: PrimitiveType | None = None) -> HloInstruction:
        """An array of a value."""
        shape = self.shape if kind is None else self.shape.with_element_type(kind)
        return self.add(build.broadcast_scalar(self.add(build.scalar_constant_like(shape, value)), shape))

    def inside(self, plane: HalfPlane) -> HloInstruction:
        """Whether elements are in a half-plane: column * c + offset >= -row * r."""
        column = self._numbers(self.wide[-1], plane.column)
        moved = self.add(build.binary("add", column, self.splat(plane.offset, PrimitiveType.S32)))
        row = self._numbers(self.wide[0], -plane.row) if plane.row else self.splat(0, PrimitiveType.S32)
        return self.add(build.compare("GE", moved, row))

    def positions(self, start: int, row: int, column: int) -> HloInstruction:
        """A number that is `start` at first, and grows by so much from row to row and from column to column."""
        kind, value = self.shape.element_type, self.splat(start)
        for dimension, step in ((self.wide[0], row), (self.wide[-1], column)):
            if step:
                value = self.add(build.binary("add", self._numbers(dimension, step, kind), value))
        return value

    def _numbers(self, dimension: int, factor: int, kind: PrimitiveType = PrimitiveType.S32) -> HloInstruction:
        """Those of elements along a dimension, times 1 or -1."""
        shape = self.shape.with_element_type(kind)
        iota = self.add(build.make("iota", attributes=at.IotaAttributes(dimension), shape=shape))
        return iota if factor > 0 else self.add(build.unary("negate", iota))
