"""How often does a while loop run? Known where one scalar of its state counts from a constant to a constant.

The pattern is that of every counted loop: element `index` of the tuple state starts at a constant, the body adds a
constant to it, and the condition compares it with a constant. A constant may also be an element of the state that
starts as one and that the body passes on. Nothing here changes a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xjit.hlo import HloComputation, HloInstruction
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
    index, limit = _state_element(loop.while_condition, variable), _constant(loop, bound)
    if index is None or limit is None:
        return None
    init, step = _initial(loop, index), _step(loop, index)
    if init is None or step is None:
        return None
    trips = TRIP_COUNTS[direction](init, step, limit)
    if trips is None:
        return None
    bits = element_type.bit_width - element_type.is_signed
    lowest = -(1 << bits) if element_type.is_signed else 0
    return CountedLoop(index, init, step, trips) if lowest <= init + trips * step < 1 << bits else None


def _step(loop: HloInstruction, index: int) -> int | None:
    """Returns what the body adds to an element of the state, if that is a constant."""
    root = loop.while_body.root_instruction
    following = root.operand(index) if root.opcode == "tuple" else root
    if following.opcode not in ("add", "subtract"):
        return None
    left, right = following.operands
    if following.opcode == "add" and _state_element(loop.while_body, right) == index:
        left, right = right, left
    step = _constant(loop, right) if _state_element(loop.while_body, left) == index else None
    return step if step is None or following.opcode == "add" else -step


def _constant(loop: HloInstruction, value: HloInstruction) -> int | None:
    """Returns the value of an integer of the condition or body that is the same constant in all trips."""
    if value.opcode == "constant":
        literal = value.attributes_as(ConstantAttributes).literal
        integer = value.shape.is_array and not value.shape.rank and value.shape.element_type.is_integer
        return int(literal.array) if integer else None
    assert value.parent is not None
    index, root = _state_element(value.parent, value), loop.while_body.root_instruction
    if index is None or root.opcode != "tuple" or _state_element(loop.while_body, root.operand(index)) != index:
        return None
    return _initial(loop, index)


def _initial(loop: HloInstruction, index: int) -> int | None:
    """Returns the constant integer that an element of the state starts as."""
    state = loop.while_init
    start = state.operand(index) if state.opcode == "tuple" else state
    return _constant(loop, start) if start.opcode == "constant" else None


def _state_element(computation: HloComputation, value: HloInstruction) -> int | None:
    """Returns which element of the state `value` is, or None. A state that is no tuple is its element 0."""
    parameter = computation.parameter_instructions[0]
    if value is parameter and value.shape.is_array:
        return 0
    if value.opcode != "get-tuple-element" or value.operand(0) is not parameter:
        return None
    return value.attributes_as(GetTupleElementAttributes).index
