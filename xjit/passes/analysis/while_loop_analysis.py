"""How often does a while loop run? Known where one scalar of its state counts from a constant to a constant.

The pattern is that of every counted loop: element `index` of the tuple state starts at a constant, the body adds a
constant to it, and the condition compares it with a constant. A constant may also be an element of the state that
starts as one and that the body passes on. Nothing here changes a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xjit.hlo import HloInstruction
from xjit.hlo.attributes import CompareAttributes, ConstantAttributes, GetTupleElementAttributes

COMMUTED: Mapping[str, str] = MappingProxyType({"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"})
"""The direction of compare(b, a) for that of compare(a, b)."""

TRIP_COUNTS: Mapping[str, Callable[[int, int, int], int | None]] = MappingProxyType(
    {
        "LT": lambda init, step, bound: _steps_to(bound - init, step),
        "LE": lambda init, step, bound: _steps_to(bound - init + 1, step),
        "GT": lambda init, step, bound: _steps_to(init - bound, -step),
        "GE": lambda init, step, bound: _steps_to(init - bound + 1, -step),
        "NE": lambda init, step, bound: _steps_onto(bound - init, step),
        "EQ": lambda init, step, bound: 0 if init != bound else 1 if step else None,
    }
)
"""How often `init + k * step <direction> bound` holds for k = 0, 1, ... in a row; None: for ever, but for overflow."""


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """Element `index` of the state is `init + k * step` in trip k; there are `trip_count` trips."""

    index: int
    init: int
    step: int
    trip_count: int


def _steps_to(distance: int, step: int) -> int | None:
    """Returns the least k >= 0 with k * step >= distance."""
    if distance <= 0:
        return 0
    return -(-distance // step) if step > 0 else None


def _steps_onto(distance: int, step: int) -> int | None:
    """Returns the k >= 0 with k * step == distance."""
    if not distance:
        return 0
    if not step or distance % step:
        return None
    return distance // step if distance // step > 0 else None


def counted_loop(loop: HloInstruction) -> CountedLoop | None:
    """Returns the induction variable and the number of trips; None if they are unknown, or if the variable overflows
    before the loop ends.
    """
    compare = loop.while_condition.root_instruction
    if compare.opcode != "compare":
        return None
    direction = compare.attributes_as(CompareAttributes).direction
    element_type = compare.operand(0).shape.element_type
    if not element_type.is_integer or compare.shape.rank:
        return None
    variable, bound = compare.operands
    if _constant(loop, variable) is not None:
        variable, bound, direction = bound, variable, COMMUTED[direction]
    index, limit = state_element(variable), _constant(loop, bound)
    if index is None or limit is None:
        return None
    init, step = initial_number(loop, index), step_of(loop, index)
    if init is None or step is None:
        return None
    trips = TRIP_COUNTS[direction](init, step, limit)
    if trips is None:
        return None
    bits = element_type.bit_width - element_type.is_signed
    lowest = -(1 << bits) if element_type.is_signed else 0
    return CountedLoop(index, init, step, trips) if lowest <= init + trips * step < 1 << bits else None


def step_of(loop: HloInstruction, index: int) -> int | None:
    """Returns what the body adds to an element of the state, if that is a constant."""
    root = loop.while_body.root_instruction
    following = forwarded(root.operand(index) if root.opcode == "tuple" else root)
    if following.opcode not in ("add", "subtract"):
        return None
    left, right = following.operands
    if following.opcode == "add" and state_element(right) == index:
        left, right = right, left
    step = _constant(loop, right) if state_element(left) == index else None
    return step if step is None or following.opcode == "add" else -step


def _constant(loop: HloInstruction, value: HloInstruction) -> int | None:
    """Returns the value of an integer of the condition or body that is the same constant in all trips."""
    if value.opcode == "constant":
        literal = value.attributes_as(ConstantAttributes).literal
        integer = value.shape.is_array and not value.shape.rank and value.shape.element_type.is_integer
        return int(literal.array) if integer else None
    index, root = state_element(value), loop.while_body.root_instruction
    if index is None or root.opcode != "tuple" or state_element(root.operand(index)) != index:
        return None
    return initial_number(loop, index)


def initial_number(loop: HloInstruction, index: int) -> int | None:
    """Returns the constant integer that an element of the state starts as."""
    start = initial_value(loop, index)
    start = forwarded(start) if start is not None else None
    return _constant(loop, start) if start is not None and start.opcode == "constant" else None


def forwarded(value: HloInstruction) -> HloInstruction:
    """Returns what a value is a copy or an element of a tuple of."""
    while True:
        if value.opcode == "copy":
            value = value.operand(0)
        elif value.opcode == "get-tuple-element" and value.operand(0).opcode == "tuple":
            value = value.operand(0).operand(value.attributes_as(GetTupleElementAttributes).index)
        else:
            return value


def initial_value(loop: HloInstruction, index: int) -> HloInstruction | None:
    """Returns the value that an element starts as; None if the initial state is a tuple, but no tuple instruction.

    A state that is no tuple is its element 0.
    """
    init = loop.while_init
    if not loop.shape.is_tuple:
        return init
    return init.operand(index) if init.opcode == "tuple" else None


def next_value(loop: HloInstruction, index: int) -> HloInstruction:
    """Returns what the body makes of an element of the state; a state that is a tuple must be built by a tuple."""
    root = loop.while_body.root_instruction
    return root.operand(index) if loop.shape.is_tuple else root


def state_element(value: HloInstruction) -> int | None:
    """Returns which element of the state a value of a condition or body is, or a copy of; None if it is none."""
    value = forwarded(value)
    if value.opcode == "parameter" and value.shape.is_array:
        return 0
    if value.opcode != "get-tuple-element" or value.operand(0).opcode != "parameter":
        return None
    return value.attributes_as(GetTupleElementAttributes).index
