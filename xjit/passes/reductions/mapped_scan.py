"""Long scans in tiles, in XLA's form: of any reducer and of several arrays, whose parts a map combines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, Shape
from xjit.hlo.attributes import (
    ConstantAttributes,
    DimensionsAttributes,
    Window,
    WindowAttributes,
    WindowDimension,
)
from xjit.ops import build
from xjit.ops.reducers import reduction_identity
from xjit.passes.framework.expansion import Expansion


@dataclass(frozen=True)
class _Scan:
    """A reduce-window that scans dimension `axis` of `length`, from the low end if `is_forward`.

    An exclusive one has one element more: it starts with the initial value.
    """

    axis: int
    length: int
    is_forward: bool
    is_exclusive: bool


def mapped_scan(instruction: HloInstruction, into: Expansion, tile: int) -> HloInstruction | None:
    """Returns the result of a scan of more than `tile` elements; None for another reduce-window.

    Tiles are scanned, then their last elements, and both are combined. That regroups, and uses the initial value more
    than once: a reducer and its initial value are a monoid by definition. Where a known operation shows that this
    value counts each time, None, too.
    """
    scan = _scan_of(instruction)
    if scan is None or scan.length <= tile or not _may_start_again(instruction):
        return None
    root = instruction.to_apply.root_instruction
    if root.shape.is_tuple and root.opcode != "tuple":
        return None
    return _MappedScan(instruction, into, scan, tile).result()


def _scan_of(instruction: HloInstruction) -> _Scan | None:
    window = instruction.attributes_as(WindowAttributes).window.dimensions
    shape = instruction.operand(0).shape
    scanned = [d for d, w in enumerate(window) if w != WindowDimension()]
    if len(scanned) != 1 or not all(o.shape.is_static_array for o in instruction.operands):
        return None
    axis = scanned[0]
    length = shape.dimensions[axis]
    for is_exclusive in (False, True):
        padding = length - 1 + is_exclusive
        if window[axis] == WindowDimension(size=length, padding_low=padding):
            return _Scan(axis, length, True, is_exclusive)
        if window[axis] == WindowDimension(size=length, padding_high=padding):
            return _Scan(axis, length, False, is_exclusive)
    return None


def _may_start_again(instruction: HloInstruction) -> bool:
    """Whether the initial value may be combined with itself: it is not known that this gives another value."""
    found, init = reduction_identity(instruction.to_apply), instruction.operand(instruction.operand_count // 2)
    if instruction.operand_count != 2 or found is None or found[0] not in ("add", "multiply"):
        return True
    if init.opcode != "constant":
        return False
    value = init.attributes_as(ConstantAttributes).literal.splat_value()
    return value is not None and bool(value == 0 or (found[0] == "multiply" and value == 1))


class _MappedScan:
    """What is made of one reduce-window; the scanned dimension is the last one in between."""

    def __init__(self, source: HloInstruction, into: Expansion, scan: _Scan, tile: int) -> None:
        count = source.operand_count // 2
        self.source, self.into, self.scan, self.tile = source, into, scan, tile
        self.inits = source.operands[count:]
        self.rank = source.operand(0).shape.rank
        self.tiles = -(-scan.length // tile)
        order = list(range(self.rank))
        order[scan.axis], order[-1] = order[-1], order[scan.axis]
        self.order = order
        self.arrays = [
            self._padded(self._turned(o), i) for o, i in zip(source.operands[:count], self.inits, strict=True)
        ]

    def result(self) -> HloInstruction:
        """Returns the array, or the tuple of them."""
        tiled = [self._add("reshape", _with_tiles(a.shape, self.tiles, self.tile), [a]) for a in self.arrays]
        within = self._scanned(tiled, [t.shape for t in tiled], self.rank, self.tile, self.tile - 1)
        lasts = [self._last_of_tile(w) for w in within]
        shapes = [_resized(last.shape, self.rank - 1, self.tiles + 1) for last in lasts]
        before = self._scanned(lasts, shapes, self.rank - 1, self.tiles, self.tiles)
        start = 0 if self.scan.is_forward else 1
        cut = [self._sliced(b, self.rank - 1, start, self.tiles) for b in before]
        spread = [
            self._add("broadcast", t.shape, [c], DimensionsAttributes(tuple(range(self.rank))))
            for c, t in zip(cut, tiled, strict=True)
        ]
        scans = [self._finished(i, self._combined(i, [*within, *spread])) for i in range(len(self.arrays))]
        return self.into.tuple_of(*scans) if self.source.shape.is_tuple else scans[0]

    def _add(self, opcode: str, shape: Shape, operands: Sequence[HloInstruction], *more: object) -> HloInstruction:
        return self.into.add(HloInstruction.create(opcode, shape, operands, *more))  # type: ignore[arg-type]

    def _turned(self, array: HloInstruction) -> HloInstruction:
        """Swaps the scanned dimension and the last one; the bytes stay where they are."""
        if self.scan.axis == self.rank - 1:
            return array
        return self._add(
            "transpose", _permuted(array.shape, self.order), [array], DimensionsAttributes(tuple(self.order))
        )

    def _padded(self, array: HloInstruction, init: HloInstruction) -> HloInstruction:
        missing = self.tiles * self.tile - self.scan.length
        if not missing:
            return array
        padding = [(0, missing if d == self.rank - 1 else 0, 0) for d in range(self.rank)]
        return self._in_layout_of(array, build.pad(array, init, padding))

    def _in_layout_of(self, array: HloInstruction, made: HloInstruction) -> HloInstruction:
        made.mutable_shape = Shape.array(made.shape.element_type, made.shape.dimensions, array.shape.minor_to_major)
        return self.into.add(made)

    def _scanned(
        self, arrays: Sequence[HloInstruction], shapes: Sequence[Shape], axis: int, size: int, padding: int
    ) -> list[HloInstruction]:
        """Scans one dimension by a reduce-window of the reducer; returns its results."""
        low, high = (padding, 0) if self.scan.is_forward else (0, padding)
        own = WindowDimension(size=size, padding_low=low, padding_high=high)
        window = Window(tuple(own if d == axis else WindowDimension() for d in range(arrays[0].shape.rank)))
        shape = Shape.tuple_of(shapes) if self.source.shape.is_tuple else shapes[0]
        operands = [*arrays, *self.inits]
        made = self._add("reduce-window", shape, operands, WindowAttributes(window), [self.source.to_apply])
        return [self.into.element(made, i) for i in range(len(shapes))] if shape.is_tuple else [made]

    def _sliced(self, array: HloInstruction, axis: int, start: int, count: int) -> HloInstruction:
        starts = [start if d == axis else 0 for d in range(array.shape.rank)]
        limits = [start + count if d == axis else n for d, n in enumerate(array.shape.dimensions)]
        return self._in_layout_of(array, build.slice_(array, starts, limits))

    def _last_of_tile(self, array: HloInstruction) -> HloInstruction:
        last = self._sliced(array, self.rank, self.tile - 1 if self.scan.is_forward else 0, 1)
        order = [d for d in last.shape.minor_to_major if d != self.rank]
        return self._add("reshape", Shape.array(last.shape.element_type, last.shape.dimensions[:-1], order), [last])

    def _combined(self, number: int, parts: Sequence[HloInstruction]) -> HloInstruction:
        """Combines what is before a tile with what is in it, element by element."""
        reducer = self.source.to_apply
        if reducer.root_instruction.shape.is_tuple:
            reducer = self.into.embed(_of_result(reducer, number))
        shape = parts[number].shape
        return self._add("map", shape, parts, DimensionsAttributes(tuple(range(shape.rank))), [reducer])

    def _finished(self, number: int, tiled: HloInstruction) -> HloInstruction:
        """Returns one result of the source: without tiles, in its order of dimensions and of its length."""
        array = self.arrays[number]
        result = self._turned(self._add("reshape", array.shape, [tiled]))
        if self.tiles * self.tile != self.scan.length:
            result = self._sliced(result, self.scan.axis, 0, self.scan.length)
        if self.scan.is_exclusive:
            ends = (1, 0, 0) if self.scan.is_forward else (0, 1, 0)
            padding = [ends if d == self.scan.axis else (0, 0, 0) for d in range(self.rank)]
            result = self._in_layout_of(result, build.pad(result, self.inits[number], padding))
        return result


def _with_tiles(shape: Shape, tiles: int, tile: int) -> Shape:
    """The last dimension as two, the second of which changes slowest in memory."""
    order = (*shape.minor_to_major, shape.rank)
    return Shape.array(shape.element_type, [*shape.dimensions[:-1], tiles, tile], order)


def _resized(shape: Shape, axis: int, size: int) -> Shape:
    sizes = [size if d == axis else n for d, n in enumerate(shape.dimensions)]
    return Shape.array(shape.element_type, sizes, shape.minor_to_major)


def _permuted(shape: Shape, order: Sequence[int]) -> Shape:
    """The shape whose dimension i is dimension `order[i]`, which swaps two, with the same bytes."""
    sizes = [shape.dimensions[d] for d in order]
    return Shape.array(shape.element_type, sizes, [order[d] for d in shape.minor_to_major])


def _of_result(reducer: HloComputation, number: int) -> HloComputation:
    """Returns a free copy of a reducer of several values that computes one of them."""
    computation = reducer.clone("")
    results = computation.root_instruction
    computation.set_root_instruction(results.operand(number), accept_different_shape=True)
    computation.remove_instruction_and_unused_operands(results)
    return computation
