"""Where a leaf of an instruction's result comes from, for opcodes that handle tuples: `reads`.

A *leaf* is an array of a shape, numbered left to right through nested tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from xjit.affine import UNKNOWN
from xjit.dataclass import dataclass
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait, opcodes_with
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.ops.indexing.maps import Maps, identity_map
from xjit.ops.indexing.output_to_input import operand_maps

_PASS_THROUGH: Final = opcodes_with(Trait.FORWARDS) | {"send"}
_ELEMENT: Final = {"all-gather-done": 1, "collective-permute-done": 1, "async-done": 1, "copy-done": 0}
CALLS: Final = opcodes_with(Trait.CONTROL_FLOW) | {"fusion"}
COMPOSED: Final = CALLS | _PASS_THROUGH | _ELEMENT.keys() | {"tuple", "get-tuple-element", "copy-start"}


@dataclass(frozen=True, slots=True)
class Read:
    """Leaf `leaf` of operand `operand` is read through `maps`; not `is_exact`: through no others, but maybe not all."""

    operand: int
    leaf: int
    maps: Maps
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class _Leaves:
    """The leaves of a tuple shape, and where each element's leaves begin."""

    shape: Shape
    leaves: tuple[Shape, ...]
    firsts: tuple[int, ...]


_TUPLES: dict[int, _Leaves] = {}  # by identity: hashing a shape of hundreds of elements would cost more than it saves
_MAX_TUPLES: Final = 4096


def _leaves(shape: Shape) -> _Leaves:
    found = _TUPLES.get(id(shape))
    if found is None or found.shape is not shape:
        firsts: list[int] = []
        leaves: list[Shape] = []
        for element in shape.tuple_shapes:
            firsts.append(len(leaves))
            leaves += [leaf for _, leaf in element.leaves()] if element.is_tuple else [element]
        if len(_TUPLES) >= _MAX_TUPLES:
            _TUPLES.clear()
        found = _TUPLES[id(shape)] = _Leaves(shape, tuple(leaves), tuple(firsts))
    return found


def leaf_count(shape: Shape) -> int:
    """Number of leaves of a shape."""
    return len(_leaves(shape).leaves) if shape.is_tuple else 1


def leaf_shape(shape: Shape, leaf: int) -> Shape:
    """Returns leaf number `leaf`."""
    return _leaves(shape).leaves[leaf] if shape.is_tuple else shape


def first_leaf(shape: Shape, element: int) -> int:
    """Number of the first leaf of tuple element `element`."""
    return _leaves(shape).firsts[element]


def element_of_leaf(shape: Shape, leaf: int) -> int:
    """Number of the tuple element that leaf `leaf` lies in."""
    return bisect_right(_leaves(shape).firsts, leaf) - 1


def same(shape: Shape) -> Maps:
    """Returns the identity of an array leaf; nothing of a token."""
    return (identity_map(shape.dimensions),) if shape.is_array else ()


def reads(instruction: HloInstruction, leaf: int) -> list[Read]:
    """Returns what leaf `leaf` of an instruction that calls nothing reads."""
    opcode = instruction.opcode
    if opcode == "tuple":
        return argument_read(instruction, leaf, instruction.shape)
    if opcode == "get-tuple-element":
        index = instruction.attributes_as(at.GetTupleElementAttributes).index
        return [
            Read(0, first_leaf(instruction.operand(0).shape, index) + leaf, same(leaf_shape(instruction.shape, leaf)))
        ]
    if opcode in _ELEMENT and instruction.operand(0).shape.is_tuple:
        first = first_leaf(instruction.operand(0).shape, _ELEMENT[opcode])
        return [Read(0, first + leaf, same(leaf_shape(instruction.shape, leaf)))]
    if opcode == "copy-start":
        return [Read(0, 0, same(instruction.operand(0).shape))] if leaf < 2 else []
    if opcode in _PASS_THROUGH:
        operand = instruction.operand(0).shape
        fits = leaf < leaf_count(operand) and leaf_shape(operand, leaf).same_dimensions(
            leaf_shape(instruction.shape, leaf)
        )
        return [Read(0, leaf, same(leaf_shape(operand, leaf)))] if fits else []
    return _plain_reads(instruction, leaf)


def argument_read(instruction: HloInstruction, leaf: int, arguments: Shape) -> list[Read]:
    """Leaf `leaf` of the tuple of an instruction's operands, whose shape is `arguments`."""
    number = element_of_leaf(arguments, leaf)
    return [Read(number, leaf - first_leaf(arguments, number), same(leaf_shape(arguments, leaf)))]


def _plain_reads(instruction: HloInstruction, leaf: int) -> list[Read]:
    if not leaf_shape(instruction.shape, leaf).is_array:
        return []
    found: list[Read] = []
    for number, maps in enumerate(operand_maps(instruction, leaf)):
        shape = instruction.operand(number).shape
        if not maps:
            continue
        if shape.is_tuple:
            found += [Read(number, n, (UNKNOWN,)) for n in range(leaf_count(shape))]
        elif shape.is_array:
            found.append(Read(number, 0, maps))
    return found
