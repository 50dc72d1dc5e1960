"""Combiners: operations by which a body joins a new element to what its init holds."""

from __future__ import annotations

import numpy as np

from xjit.linalg_ext.evaluation.values import dtype_of
from xjit.linalg_ext.ir.operation import Block, OpResult, Value
from xjit.linalg_ext.ir.types import Type
from xjit.linalg_ext.to_hlo.scalars import opcode_of

__all__ = ["combined_terms", "combiner_of", "depends_on", "neutral_element"]

_COMBINERS = frozenset({
    "arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.maxsi", "arith.minimumf",
    "arith.minsi", "arith.andi", "arith.ori", "arith.xori",
})  # fmt: skip
"""Associative, commutative, with a neutral element."""


def neutral_element(opcode: str, t: Type) -> float:
    """Returns the number that changes nothing."""
    dtype = dtype_of(t)
    whole = dtype.kind in "iu"
    if opcode in ("maximum", "minimum"):
        if whole:
            return int(np.iinfo(dtype).min if opcode == "maximum" else np.iinfo(dtype).max)
        if dtype.kind == "b":
            return int(opcode == "minimum")
        return float("-inf") if opcode == "maximum" else float("inf")
    if opcode == "and":
        return -1 if whole else 1
    return 1 if opcode == "multiply" else 0


def depends_on(value: Value, arguments: frozenset[Value], block: Block) -> bool:
    """Whether a value of a body is computed from some of its arguments."""
    stack, seen = [value], set[Value]()
    while stack:
        found = stack.pop()
        if found in arguments:
            return True
        if found in seen or not isinstance(found, OpResult) or found.parent_block is not block:
            continue
        seen.add(found)
        stack += found.owner.operands
    return False


def combined_terms(
    yielded: Value, init: Value, inits: frozenset[Value], block: Block
) -> tuple[str, list[Value]] | None:
    """Returns the opcode and the terms t of a body that yields `init + t + t ...`, whose terms read no init."""
    opcode: str | None = None
    terms: list[Value] = []
    value = yielded
    while value is not init:
        op = value.owner if isinstance(value, OpResult) and value.parent_block is block else None
        if op is None or op.name not in _COMBINERS or opcode not in (None, opcode_of(op)):
            return None
        opcode = opcode_of(op)
        reading = [v for v in op.operands if depends_on(v, inits, block)]
        if len(reading) != 1 or len(op.operands) != 2:
            return None
        [value] = reading
        terms.append(op.operands[1] if op.operands[0] is value else op.operands[0])
    return None if opcode is None else (opcode, terms)


def combiner_of(block: Block) -> str | None:
    """Returns the opcode of a body (a, b) that yields `a + b`."""
    a, b = block.arguments[:2]
    found = combined_terms(block.terminator.operands[0], a, frozenset({a}), block)
    return found[0] if found is not None and found[1] == [b] else None
