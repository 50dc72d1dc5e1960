"""How often does a while loop run whose condition follows from constants? Its trips are evaluated, one by one.

Evaluated is only what the condition is computed of: the elements of the state that it reads, those that these become
next, and so on. All must start as small arrays, computed of constants alone, and nothing may be inexact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from xjit.hlo import HloInstruction, Trait, Unsupported
from xjit.hlo.attributes import ConstantAttributes
from xjit.hlo.ir.post_order import post_order
from xjit.ops.evaluation.interpreter import Interpreter
from xjit.passes.analysis.while_loop_analysis import counted_loop, forwarded, initial_value, next_value, state_element

MAX_EVALUATED_TRIPS = 128
"""As many trips as XLA evaluates."""

MAX_ELEMENTS = 64
"""Of any array that is evaluated."""

MAX_INSTRUCTIONS = 64
"""Of condition and body together."""

_GIVEN = frozenset({"get-tuple-element", "parameter"})
_MOVES = frozenset(
    {"broadcast", "concatenate", "dynamic-slice", "iota", "pad", "reshape", "reverse", "slice", "transpose"}
)


def trip_count(loop: HloInstruction, max_evaluated_trips: int = MAX_EVALUATED_TRIPS) -> int | None:
    """Returns how often a loop runs, by its induction variable or evaluated; None if that is not known."""
    counted = counted_loop(loop)
    return counted.trip_count if counted is not None else _evaluated(loop, max_evaluated_trips)


def ends_after_a_trip(loop: HloInstruction) -> bool:
    """Whether the body sets all that the condition reads to constants with which the condition is false."""
    condition = _slice_of([loop.while_condition.root_instruction])
    indices = _read(condition)
    if not indices or (loop.shape.is_tuple and loop.while_body.root_instruction.opcode != "tuple"):
        return False
    if not all(map(_is_simple, condition)):
        return False
    state = {index: _value_of(next_value(loop, index)) for index in indices}
    if any(value is None for value in state.values()):
        return False
    evaluate = Interpreter().evaluate_with_substitutions
    try:
        return not evaluate([loop.while_condition.root_instruction], _given(condition, state))[0]
    except Unsupported:
        return False


def _evaluated(loop: HloInstruction, limit: int) -> int | None:
    try:
        with np.errstate(all="ignore"):
            needed = _needed(loop)
            return None if needed is None else _count(loop, limit, *needed)
    except Unsupported:
        return None


def _count(
    loop: HloInstruction,
    limit: int,
    condition: Sequence[HloInstruction],
    following: Sequence[HloInstruction],
    state: Mapping[int, Any],
) -> int | None:
    evaluate = Interpreter().evaluate_with_substitutions
    for trips in range(limit + 1):
        if not evaluate([loop.while_condition.root_instruction], _given(condition, state))[0]:
            return trips
        results = evaluate([next_value(loop, index) for index in state], _given(following, state))
        state = dict(zip(state, results, strict=True))
    return None


def _given(instructions: Iterable[HloInstruction], state: Mapping[int, Any]) -> dict[HloInstruction, Any]:
    """Returns the values of those instructions that are elements of the state."""
    elements = ((i, state_element(i)) for i in instructions if i.opcode in ("get-tuple-element", "parameter"))
    return {i: state[index] for i, index in elements if index is not None}


def _needed(
    loop: HloInstruction,
) -> tuple[list[HloInstruction], list[HloInstruction], dict[int, Any]] | None:
    """Returns what the condition takes, and what the body does to its elements, operands first, and how these start.

    None if one of them cannot be evaluated.
    """
    if loop.shape.is_tuple and loop.while_body.root_instruction.opcode != "tuple":
        return None
    condition = _slice_of([loop.while_condition.root_instruction])
    indices = _read(condition)
    following: list[HloInstruction] = []
    while indices is not None:
        following = _slice_of([next_value(loop, index) for index in sorted(indices)])
        if len(condition) + len(following) > MAX_INSTRUCTIONS:
            return None
        more = _read(following)
        if more is None or more <= indices:
            indices = None if more is None else indices
            break
        indices |= more
    if indices is None or not all(map(_is_simple, (*condition, *following))):
        return None
    state: dict[int, Any] = {}
    for index in indices:
        start = initial_value(loop, index)
        value = _value_of(start) if start is not None else None
        if value is None:
            return None
        state[index] = value
    return condition, following, state


def _value_of(start: HloInstruction) -> Any:
    """Returns the value of what is computed of constants alone; None of anything else."""
    start = forwarded(start)
    if not start.shape.is_static_array or start.shape.num_elements > MAX_ELEMENTS:
        return None
    if start.opcode == "constant":
        return start.attributes_as(ConstantAttributes).literal.array
    if start.opcode in ("parameter", "get-tuple-element"):
        return None
    steps = _slice_of([start])
    if len(steps) > MAX_INSTRUCTIONS or not all(_is_simple(i) and i.opcode not in _GIVEN for i in steps):
        return None
    return Interpreter().evaluate_with_substitutions([start], {})[0]


def _slice_of(roots: Iterable[HloInstruction]) -> list[HloInstruction]:
    """Returns what instructions are computed of, operands first; elements of the state, but not the state."""
    return [i for i in post_order(roots, _operands) if i.opcode != "parameter" or i.shape.is_array]


def _operands(instruction: HloInstruction) -> Sequence[HloInstruction]:
    return instruction.operands


def _read(instructions: Iterable[HloInstruction]) -> set[int] | None:
    """Returns the elements of the state that are read; None if anything else is read of it."""
    read: set[int] = set()
    for instruction in instructions:
        if instruction.opcode in ("get-tuple-element", "parameter"):
            index = state_element(instruction)
            if index is None:
                return None
            read.add(index)
    return read


def _is_simple(instruction: HloInstruction) -> bool:
    """Whether evaluated and compiled code agree in every bit, and neither takes long."""
    if not instruction.shape.is_static_array or instruction.shape.num_elements > MAX_ELEMENTS:
        return False
    if instruction.opcode == "constant" or instruction.opcode in _GIVEN or instruction.opcode in _MOVES:
        return True
    if instruction.opcode in ("call", "fusion"):
        inside = instruction.called_computations[0].instructions
        return len(inside) <= MAX_INSTRUCTIONS and all(map(_is_simple, inside))
    op = instruction.op
    return op.has(Trait.ELEMENTWISE) and not (op.has(Trait.TRANSCENDENTAL) or op.called or op.may_have_side_effect)
