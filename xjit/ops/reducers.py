"""What a reducer computation is: one associative, commutative operation with an identity, a choice of the largest or
smallest with its index, or anything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.hlo.attributes import CompareAttributes
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType

Array = np.ndarray[Any, Any]


def reduction_identity(computation: HloComputation) -> tuple[str, object] | None:
    """Returns (opcode, identity) of a reducer that is one associative, commutative operation; None for others."""
    opcode = single_operation(computation)
    identities = type_identities(computation.root_instruction.shape.element_type) if opcode is not None else {}
    return (opcode, identities[opcode]) if opcode is not None and opcode in identities else None


def single_operation(computation: HloComputation) -> str | None:
    """Returns the opcode of a reducer that is one associative, commutative operation of any type; None for others."""
    root = computation.root_instruction
    if computation.num_parameters != 2 or root.operand_count != 2 or computation.instruction_count != 3:
        return None
    if {o.opcode for o in root.operands} != {"parameter"} or root.operand(0) is root.operand(1):
        return None
    return root.opcode if root.opcode in _COMMUTATIVE else None


_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


def independent_identities(computation: HloComputation) -> tuple[object, ...] | None:
    """Returns the identity for each array that a reducer takes together by one operation of `reduction_identity`.

    None if some array needs another one, or something else.
    """
    known = reduction_identity(computation)
    if known is not None:
        return (known[1],)
    root, parameters = computation.root_instruction, computation.parameter_instructions
    count = len(parameters) // 2
    if root.opcode != "tuple" or root.operand_count != count or computation.instruction_count != 3 * count + 1:
        return None
    found: list[object] = []
    for number, operation in enumerate(root.operands):
        pair = {parameters[number], parameters[count + number]}
        identities = type_identities(operation.shape.element_type)
        if operation.operand_count != 2 or set(operation.operands) != pair or operation.opcode not in identities:
            return None
        found.append(identities[operation.opcode])
    return tuple(found)


def type_identities(kind: PrimitiveType) -> dict[str, object]:
    """Returns the identity of each opcode that has one on a type."""
    if kind.is_complex:
        return {"add": -0.0, "multiply": 1.0}
    if kind.is_float:  # narrower types may have no infinity
        wide: dict[str, object] = {"add": -0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
        return wide if kind.bit_width >= 16 else {}
    if kind is PrimitiveType.PRED:
        ones = dict.fromkeys(("and", "multiply", "minimum"), True)
        return {**ones, **dict.fromkeys(("or", "add", "maximum", "xor"), False)}
    low, high = integer_limits(kind)
    all_ones = high if kind.is_unsigned else -1
    return {"add": 0, "multiply": 1, "maximum": low, "minimum": high, "and": all_ones, "or": 0, "xor": 0}


def integer_limits(kind: PrimitiveType) -> tuple[int, int]:
    """Returns the least and greatest value of an integer type."""
    if kind.is_unsigned:
        return 0, (1 << kind.bit_width) - 1
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1


_ORDER_ONLY = frozenset({"parameter", "compare", "select", "and", "or", "not", "tuple", "copy", "maximum", "minimum"})
_FLOATS = (-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan)
_INTEGERS = (0, 1, 2)
_TRUTHS = (False, True)


def selected_extremum(computation: HloComputation) -> str | None:
    """Returns "maximum" or "minimum" if a reducer of (value, index) pairs selects it, and of ties the lower index.

    A NaN wins; of two the earlier operand, which must have the lower index, then. Which of -0 and +0 is the value is
    left open. The reducer may only compare, choose and select: what it does then depends on the order of its operands
    alone, so a table of all orders proves it.
    """
    root, parameters = computation.root_instruction, computation.parameter_instructions
    order = computation.make_instruction_post_order()
    if len(parameters) != 4 or root.opcode != "tuple" or root.operand_count != 2:
        return None
    if any(i.opcode not in _ORDER_ONLY for i in order):
        return None
    kinds = [p.shape.element_type for p in parameters]
    if kinds[:2] != kinds[2:] or not kinds[1].is_integer:
        return None
    is_truth = kinds[0] is PrimitiveType.PRED
    if not (kinds[0].is_float or kinds[0].is_integer or is_truth):
        return None
    samples = _FLOATS if kinds[0].is_float else _TRUTHS if is_truth else _INTEGERS
    rows = [(a, i, b, j) for a in samples for b in samples for i, j in ((0, 1), (1, 0), (1, 1))]
    rows = [(a, i, b, j) for a, i, b, j in rows if i <= j or a == a or b == b]  # two NaNs come in order
    columns = [np.array(c) for c in zip(*rows, strict=True)]
    results = _table(computation, columns)
    if results is None:
        return None
    for name, sign in (("maximum", 1.0), ("minimum", -1.0)):
        wanted = [_pick(row, sign) for row in rows]
        values, indices = (np.array(c) for c in zip(*wanted, strict=True))
        if np.array_equal(results[0], values, equal_nan=True) and np.array_equal(results[1], indices):
            return name
    return None


def _pick(row: tuple[float, int, float, int], sign: float) -> tuple[float, int]:
    a, i, b, j = row
    if a != a or sign * a > sign * b:
        return a, i
    if b != b or sign * a < sign * b:
        return b, j
    return a, min(i, j)


def _table(computation: HloComputation, columns: Sequence[Array]) -> list[Array] | None:
    """Returns what the reducer gives for columns of operands; None for total-order compares."""
    values: dict[HloInstruction, Array] = dict(zip(computation.parameter_instructions, columns, strict=True))
    root = computation.root_instruction
    for i in computation.make_instruction_post_order():
        operands = [values[o] for o in i.operands] if i is not root else []
        if i.opcode == "compare":
            attributes = i.attributes_as(CompareAttributes)
            if attributes.type == "TOTALORDER":
                return None
            values[i] = _COMPARE[attributes.direction](*operands)
        elif i.opcode in _LOGIC and i is not root:
            values[i] = _LOGIC[i.opcode](*operands)
    return [values[o] for o in root.operands]


_COMPARE: dict[str, Callable[..., Array]] = {
    "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less
}  # fmt: skip
_LOGIC: dict[str, Callable[..., Array]] = {
    "select": np.where, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "copy": np.copy,
    "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
