"""What slices, pads and sums over windows of one array read of it, as ranges that may reach beyond its bounds."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.attributes import (
    PadAttributes,
    PaddingDimension,
    SliceAttributes,
    WindowAttributes,
    WindowDimension,
)
from xjit.ops import build
from xjit.ops.reducers import reduction_identity
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import value_everywhere

Range = tuple[tuple[int, int], ...]
"""From where to where, in each dimension."""


@dataclass(frozen=True)
class ShiftedReads:
    """The sum of parts of one array: `base` is the array and, where ranges reach beyond it, the value found there."""

    base: tuple[HloInstruction, ...]
    ranges: tuple[Range, ...]

    def read(self, into: Expansion, whole: Range) -> HloInstruction:
        """Returns the slice, or the pad, of another range."""
        if len(self.base) == 1:
            starts, limits = zip(*whole, strict=True)
            return into.add(build.slice_(self.base[0], starts, limits))
        sizes = self.base[0].shape.dimensions
        padding = tuple(PaddingDimension(-start, limit - n) for (start, limit), n in zip(whole, sizes, strict=True))
        return into.make("pad", *self.base, attributes=PadAttributes(padding))


def reads_of(array: HloInstruction) -> ShiftedReads | None:
    """Returns what an array is a part of, or the sum of parts of; None for anything but slices without strides (also
    dynamic ones at constant places), pads by a constant, and sums over windows along one dimension of these.
    """
    if array.opcode == "slice":
        a = array.attributes_as(SliceAttributes)
        plain = {*a.strides} == {1}
        return ShiftedReads((array.operand(0),), (tuple(zip(a.starts, a.limits, strict=True)),)) if plain else None
    if array.opcode == "dynamic-slice":
        return _of_dynamic_slice(array)
    if array.opcode == "pad":
        return _of_pad(array)
    return _of_window(array) if array.opcode == "reduce-window" else None


def _of_dynamic_slice(array: HloInstruction) -> ShiftedReads | None:
    base, *starts = array.operands
    values = [value_everywhere(start) for start in starts]
    if len(values) != base.shape.rank or any(v is None for v in values):
        return None
    sizes = zip(values, base.shape.dimensions, array.shape.dimensions, strict=True)
    clamped = [(min(max(int(v), 0), whole - part), part) for v, whole, part in sizes]
    return ShiftedReads((base,), (tuple((start, start + part) for start, part in clamped),))


def _of_pad(array: HloInstruction) -> ShiftedReads | None:
    padding = array.attributes_as(PadAttributes).padding
    if array.operand(1).opcode != "constant" or any(p.interior_padding for p in padding):
        return None
    edges = zip(padding, array.operand(0).shape.dimensions, strict=True)
    return ShiftedReads(array.operands, (tuple((-p.edge_padding_low, n + p.edge_padding_high) for p, n in edges),))


def _of_window(array: HloInstruction) -> ShiftedReads | None:
    """A sum over a window that is shifted along one dimension: as many parts as the window has places. One that
    something else reads is there anyway, and stays.
    """
    found = array.operand_count == 2 and reduction_identity(array.to_apply)
    if not found or found[0] != "add" or value_everywhere(array.operand(1)) != 0 or array.user_count > 1:
        return None
    window = array.attributes_as(WindowAttributes).window.dimensions
    wide = [d for d, w in enumerate(window) if w != WindowDimension()]
    inner = reads_of(array.operand(0))
    if len(wide) != 1 or inner is None or len(inner.ranges) != 1:
        return None
    (along,), (whole,) = wide, inner.ranges
    shape = window[along]
    if shape != WindowDimension(size=shape.size, window_dilation=shape.window_dilation):
        return None
    first, length = whole[along][0], array.shape.dimensions[along]
    starts = [first + i * shape.window_dilation for i in range(shape.size)]
    return ShiftedReads(inner.base, tuple(_with(whole, along, (s, s + length)) for s in starts))


def _with(whole: Range, along: int, part: tuple[int, int]) -> Range:
    return (*whole[:along], part, *whole[along + 1 :])


def joined(arrays: Sequence[HloInstruction]) -> ShiftedReads | None:
    """Returns the parts of which arrays are the sum, in the order of where they start; None if not all of one base."""
    reads = [reads_of(a) for a in arrays]
    found = [r for r in reads if r is not None]
    if len(found) < len(arrays) or any(r.base != found[0].base for r in found):
        return None
    return ShiftedReads(found[0].base, tuple(sorted(part for r in found for part in r.ranges)))
