"""Copies that change layouts go behind what reads them."""

from __future__ import annotations

from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo.attributes.opcodes import OPCODES
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

_STAYING = frozenset({"copy", "bitcast-convert", "reduce-precision"})
_UNARY = frozenset(n for n, op in OPCODES.items() if op.has(Trait.ELEMENTWISE) and op.arity == 1) - _STAYING
_BINARY = frozenset(n for n, op in OPCODES.items() if op.has(Trait.ELEMENTWISE) and op.arity == 2)
_OF_FIRST = _UNARY | {"dynamic-slice", "pad", "reduce", "reduce-window", "reverse", "slice"}
"""Opcodes that give each layout of their first operand to their result; of a reduce the result's layout is free."""


@dataclass
class MoveCopyToUsers(OpExpander):
    """Computes on what was copied, and copies the result: elementwise arithmetic, slices, pads, reversals, windows.

    All operands of a binary operation or a concatenation must be copies from one layout. A reduce reads what was
    copied and needs no copy at all. A convert whose only user is a convolution stays in front of it, to be fused.
    """

    name = "move-copy-to-users"
    opcodes = _OF_FIRST | _BINARY | {"concatenate"}

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the copy, or the reduce; None where nothing is copied, or tiles or tuples are."""
        count = 1 if instruction.opcode in _OF_FIRST else instruction.operand_count
        copies = instruction.operands[:count]
        if (
            not _is_plain(instruction.shape)
            or not all(map(_is_relayout, copies))
            or _goes_into_convolution(instruction)
        ):
            return None
        copied = [copy.operand(0) for copy in copies]
        order = copied[0].shape.minor_to_major
        if any(c.shape.minor_to_major != order for c in copied):
            return None
        shape = instruction.shape if instruction.opcode == "reduce" else _ordered(instruction.shape, order)
        moved = into.add(instruction.clone_with_new_operands(shape, [*copied, *instruction.operands[count:]]))
        return moved if instruction.opcode == "reduce" else into.like_source("copy", [moved])


def _is_relayout(instruction: HloInstruction) -> bool:
    """Whether an instruction is a copy that changes at most the order of dimensions."""
    if instruction.opcode != "copy" or not _is_plain(instruction.shape) or not _is_plain(instruction.operand(0).shape):
        return False
    return _ordered(instruction.operand(0).shape, instruction.shape.minor_to_major) == instruction.shape


def _is_plain(shape: Shape) -> bool:
    return shape.is_static_array and not (shape.layout is not None and shape.layout.tiles)


def _ordered(shape: Shape, order: tuple[int, ...]) -> Shape:
    """Returns the shape with its dimensions in another order in memory."""
    layout = shape.with_default_layouts().layout
    assert layout is not None
    return shape.with_layout(replace(layout, minor_to_major=order))


def _goes_into_convolution(instruction: HloInstruction) -> bool:
    users = instruction.users
    return instruction.opcode == "convert" and len(users) == 1 and users[0].opcode == "convolution"
