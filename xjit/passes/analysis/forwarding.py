"""What hands the leaves of its operands on: tuples, their elements, bitcasts, barriers, the later halves of async ops.

Written once for whatever is known of a leaf: values of the dataflow, buffers of a memory profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from xjit.hlo import HloInstruction, Shape, Trait
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import opcodes_with

L = TypeVar("L")
LeavesOf = Callable[[HloInstruction], tuple[L, ...]]
"""What is known of the leaves of an operand, in order."""


def forwards(instruction: HloInstruction) -> bool:
    """Whether the instruction runs nothing: its leaves are those of its operands."""
    return instruction.opcode in _RULES


def forwarded_leaves(instruction: HloInstruction, leaves_of: LeavesOf[L]) -> tuple[L, ...]:
    """Returns the leaves of an instruction that `forwards`."""
    return _RULES[instruction.opcode](instruction, leaves_of)


def element_leaves(shape: Shape, index: int, leaves: tuple[L, ...]) -> tuple[L, ...]:
    """Returns the leaves of element `index` among those of a tuple of a shape."""
    offsets = shape.leaf_offsets
    return leaves[offsets[index] : offsets[index + 1]]


def _same(instruction: HloInstruction, leaves_of: LeavesOf[L]) -> tuple[L, ...]:
    return leaves_of(instruction.operand(0))


def _tuple(instruction: HloInstruction, leaves_of: LeavesOf[L]) -> tuple[L, ...]:
    return tuple(leaf for operand in instruction.operands for leaf in leaves_of(operand))


def _get_tuple_element(instruction: HloInstruction, leaves_of: LeavesOf[L]) -> tuple[L, ...]:
    operand = instruction.operand(0)
    index = instruction.attributes_as(at.GetTupleElementAttributes).index
    return element_leaves(operand.shape, index, leaves_of(operand))


def _first(instruction: HloInstruction, leaves_of: LeavesOf[L]) -> tuple[L, ...]:
    return element_leaves(instruction.operand(0).shape, 0, leaves_of(instruction.operand(0)))


def _second(instruction: HloInstruction, leaves_of: LeavesOf[L]) -> tuple[L, ...]:
    return element_leaves(instruction.operand(0).shape, 1, leaves_of(instruction.operand(0)))


_RULES: Mapping[str, Callable[..., tuple[Any, ...]]] = {
    **dict.fromkeys(opcodes_with(Trait.FORWARDS), _same),
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "bitcast": _same,
    "async-done": _second,
    "all-gather-done": _second,
    "collective-permute-done": _second,
    "copy-done": _first,
}
