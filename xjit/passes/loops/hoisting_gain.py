"""Which loop-invariant values are worth memory: those that take longer to compute in each trip than to read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from xjit.hlo import HloInstruction, Trait
from xjit.passes.analysis.fusion_cost import EXPENSIVE_COST, is_expensive

MIN_OPERATIONS: Final = 1024
"""Of a value that is computed element by element: with fewer, it costs less than another element of the state."""
MAX_INFLATION: Final = 1.5
"""Bytes of a cheap value, for each that it is computed from. Masks and weights that are converted are larger: loops
read what they come from, and know more of them.
"""
MAX_UNREAD: Final = 2
"""Elements for each that a trip reads. Of a table that is larger, trips compute what they read."""
_PARTS: Final = frozenset({"dynamic-slice", "gather", "slice"})
_FREE: Final = frozenset({"constant", "dynamic-slice", "get-tuple-element", "iota"})
_BY_ELEMENT: Final = frozenset({"concatenate", "gather", "pad"})


def hoisting_gains(invariant: Sequence[HloInstruction]) -> set[HloInstruction]:
    """Returns those of a body's invariant instructions, in post order, that gain by being hoisted."""
    elements = _elements_read(invariant)
    gains: set[HloInstruction] = set()
    inputs: dict[HloInstruction, frozenset[HloInstruction]] = {}  # what is in memory that it would be computed from
    costs: dict[HloInstruction, float] = {}  # operations for each element, since those
    for instruction in invariant:
        inside = [o for o in instruction.operands if o in inputs and o not in gains]
        outside = frozenset(instruction.operands).difference(inside)
        inputs[instruction] = outside.union(*(inputs[o] for o in inside))
        costs[instruction] = _cost(instruction) + max((costs[o] for o in inside), default=0)
        if instruction.shape.is_array and elements[instruction] * MAX_UNREAD >= instruction.shape.num_elements:
            read = sum(i.shape.byte_size for i in inputs[instruction])
            if _gains(instruction, read, costs[instruction]):
                gains.add(instruction)
    return gains


def _elements_read(invariant: Sequence[HloInstruction]) -> Mapping[HloInstruction, int]:
    """How many elements of each a trip reads, or some more."""
    found: dict[HloInstruction, int] = {}
    inside = set(invariant)
    for instruction in reversed(invariant):
        total: float = 0
        for user in instruction.users:
            if user.opcode in _PARTS and user.operand(0) is instruction:
                total += found.get(user, user.shape.num_elements)
            elif user in inside and (user.op.has(Trait.ELEMENTWISE) or user.op.has(Trait.INDEX_ONLY)):
                total += found[user]
            else:
                total = math.inf
        whole = instruction.shape.num_elements if instruction.shape.is_array else 0
        found[instruction] = whole if total >= whole else int(total)
    return found


def _cost(instruction: HloInstruction) -> float:
    """Operations for each element; without end where others are needed than that of one place."""
    if instruction.op.has(Trait.INDEX_ONLY) or instruction.opcode in _FREE:
        return 0
    if instruction.op.has(Trait.ELEMENTWISE) or instruction.opcode in _BY_ELEMENT:
        return EXPENSIVE_COST if is_expensive(instruction) else 1
    return math.inf


def _gains(instruction: HloInstruction, bytes_read: int, cost: float) -> bool:
    """`bytes_read`: what each trip would read; `cost`: operations for each element."""
    own_cost = _cost(instruction)
    if not own_cost and instruction.opcode not in (*_PARTS, "get-tuple-element"):
        return False
    if cost * instruction.shape.num_elements < MIN_OPERATIONS:
        return False
    return cost >= EXPENSIVE_COST or (own_cost > 0 and instruction.shape.byte_size <= MAX_INFLATION * bytes_read)
