"""Reshapes as bitcasts, with copies where elements must move."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloInstruction, Shape
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion
from xjit.passes.simplify.algebra.memory_order import is_bitcast, layout_after_reshape


@dataclass
class ReshapeDecomposer(OpExpander):
    """Writes each reshape of arrays with layouts as a bitcast, and a copy before or behind it only if it must.

    One copy is enough if one side has a layout in which the other side's elements lie as they are: the operand's first.
    """

    name = "reshape-decomposer"
    opcodes = frozenset({"reshape"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the bitcast or the copy of one; None for dynamic and tiled shapes, and where nothing is."""
        operand, result = instruction.operand(0), instruction.shape
        if not all(_is_plain(s) for s in (operand.shape, result)):
            return None
        if is_bitcast(instruction):
            return into.like_source("bitcast", [operand])
        before = layout_after_reshape(result, operand.shape.dimensions)
        if before is not None:
            moved = into.add(HloInstruction.create("copy", operand.shape.with_layout(before), [operand]))
            return into.like_source("bitcast", [moved])
        behind = layout_after_reshape(operand.shape, result.dimensions)
        if behind is not None:
            flat = into.add(HloInstruction.create("bitcast", result.with_layout(behind), [operand]))
            return into.like_source("copy", [flat])
        row_major = operand.shape.with_dimensions(operand.shape.dimensions)
        moved = into.add(HloInstruction.create("copy", row_major, [operand]))
        flat = into.add(HloInstruction.create("bitcast", result.with_dimensions(result.dimensions), [moved]))
        return into.like_source("copy", [flat])


def _is_plain(shape: Shape) -> bool:
    tiled = shape.layout is not None and bool(shape.layout.tiles)
    return shape.is_static_array and shape.num_elements > 0 and not tiled
