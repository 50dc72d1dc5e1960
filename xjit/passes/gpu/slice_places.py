"""Slices that are one block of memory, and the arithmetic that says where they start."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from xjit.hlo import HloInstruction, Shape
from xjit.hlo.attributes import SliceAttributes

ARITHMETIC: Mapping[str, Callable[..., int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negate": lambda x: -x,
    "minimum": min,
    "maximum": max,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "convert": lambda x: x,
}
"""What start indices are computed with, on integers that do not overflow."""

_FIRST_INDEX = {"dynamic-slice": 1, "dynamic-update-slice": 2}


def is_contiguous(part: HloInstruction) -> bool:
    """Whether a slice, dynamic-slice or dynamic-update-slice is one block of memory.

    In the order of the layout, major first: single indices, then one range, then whole dimensions.
    """
    small, large = part_and_whole(part)
    if part.opcode == "slice" and any(d.stride != 1 for d in part.attributes_as(SliceAttributes).slice):
        return False
    layout = large.layout
    if not large.is_static_array or small.layout != layout or layout is None or layout.tiles:
        return False
    sizes = [(small.dimensions[d], large.dimensions[d]) for d in reversed(layout.minor_to_major)]
    while sizes and sizes[0][0] == 1:
        sizes.pop(0)
    return all(n == whole for n, whole in sizes[1:])


def part_and_whole(part: HloInstruction) -> tuple[Shape, Shape]:
    """Returns the shapes of what is read or written, and of the array that it lies in."""
    if part.opcode == "dynamic-update-slice":
        return part.operand(1).shape, part.shape
    return part.shape, part.operand(0).shape


def start_indices(part: HloInstruction) -> tuple[HloInstruction, ...]:
    """The start indices of a dynamic-slice or dynamic-update-slice; of a slice, none."""
    first = _FIRST_INDEX.get(part.opcode)
    return part.operands[first:] if first is not None else ()


def offsets_of(part: HloInstruction) -> list[HloInstruction]:
    """Returns the arithmetic on numbers, and the constants, that the start indices are made of, operands first.

    What they start from, a parameter or an element of a loop's state, is not part of it.
    """
    found, pending = set[HloInstruction](), list(start_indices(part))
    while pending:
        instruction = pending.pop()
        is_index = not instruction.shape.rank and instruction.shape.element_type.is_integer
        if is_index and instruction not in found and instruction.opcode in (*ARITHMETIC, "constant"):
            found.add(instruction)
            pending.extend(instruction.operands)
    if not found or part.parent is None:
        return []
    return [i for i in part.parent.make_instruction_post_order() if i in found]
