"""Cheap local folding of integer instructions: two constants, and neutral or absorbing operands.

That is enough to keep index arithmetic small. Vector constants fold when they are splats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.llvm.types import I1, LLVMType
from xjit.llvm.values import Value, const_int, wrap_signed


@dataclass(frozen=True, slots=True)
class Folding:
    """What is known of an opcode. Constants are signed; None: there is no such number.

    `compute(x, y, bits)` is the result for two constants, modulo 2^bits, or None where it is undefined.
    """

    compute: Callable[[int, int, int], int | None]
    right_identity: int | None = None  # a op k is a
    left_identity: int | None = None  # k op a is a
    absorbing: int | None = None  # k op a, and a op k, are k


def _truncated_quotient(x: int, y: int) -> int:
    return x // y if x >= 0 else -(-x // y)


def _mask(bits: int) -> int:
    return (1 << bits) - 1


_FOLDINGS = {
    "add": Folding(lambda x, y, bits: x + y, right_identity=0, left_identity=0),
    "sub": Folding(lambda x, y, bits: x - y, right_identity=0),
    "mul": Folding(lambda x, y, bits: x * y, right_identity=1, left_identity=1, absorbing=0),
    "sdiv": Folding(lambda x, y, bits: _truncated_quotient(x, y) if y > 0 else None, right_identity=1),
    "udiv": Folding(lambda x, y, bits: x // y if x >= 0 and y > 0 else None, right_identity=1),
    "srem": Folding(lambda x, y, bits: x - y * _truncated_quotient(x, y) if y > 0 else None),
    "urem": Folding(lambda x, y, bits: x % y if x >= 0 and y > 0 else None),
    "shl": Folding(lambda x, y, bits: x << y if 0 <= y < bits else None, right_identity=0),
    "lshr": Folding(lambda x, y, bits: (x & _mask(bits)) >> y if 0 <= y < bits else None, right_identity=0),
    "ashr": Folding(lambda x, y, bits: x >> y if 0 <= y < bits else None, right_identity=0),
    "and": Folding(lambda x, y, bits: x & y, right_identity=-1, left_identity=-1, absorbing=0),
    "or": Folding(lambda x, y, bits: x | y, right_identity=0, left_identity=0, absorbing=-1),
    "xor": Folding(lambda x, y, bits: x ^ y, right_identity=0, left_identity=0),
}


def _of_one_bit(folding: Folding) -> Folding:
    """The same for i1, whose constants are 0 and 1 instead of 0 and -1."""
    numbers = (folding.right_identity, folding.left_identity, folding.absorbing)
    right, left, absorbing = (None if number is None else wrap_signed(number, 1) for number in numbers)
    return replace(folding, right_identity=right, left_identity=left, absorbing=absorbing)


_ONE_BIT_FOLDINGS = {opcode: _of_one_bit(folding) for opcode, folding in _FOLDINGS.items()}


def fold_binary(opcode: str, a: Value, b: Value) -> Value | None:
    """The value of `a opcode b` without an instruction, or None."""
    type = a.type
    if type is not b.type or not type.is_int:
        return None
    bits = type.elem.bits
    folding = (_FOLDINGS if bits > 1 else _ONE_BIT_FOLDINGS)[opcode]
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        number = folding.compute(int(x), int(y), bits)
        return None if number is None else const_int(type, number)
    if y is not None:
        return a if y == folding.right_identity else b if y == folding.absorbing else None
    if x is not None:
        return b if x == folding.left_identity else a if x == folding.absorbing else None
    return None


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
"""The comparison operators, as functions of integers."""


def fold_comparison(op: str, a: Value, b: Value, *, signed: bool) -> Value | None:
    """The i1 of a comparison of two constants, or None."""
    if a.constant is None or b.constant is None or a.type is not b.type:
        return None
    x, y = int(a.constant), int(b.constant)
    if not signed:
        mask = _mask(a.type.elem.bits)
        x, y = x & mask, y & mask
    return const_int(a.type.with_elem(I1), COMPARISONS[op](x, y))


def fold_trunc(a: Value, elem: LLVMType) -> Value | None:
    """The low bits of a constant, or None."""
    if a.constant is None or elem.bits >= a.type.elem.bits:
        return None
    return const_int(a.type.with_elem(elem), int(a.constant))


def fold_zext(a: Value, elem: LLVMType) -> Value | None:
    """A constant extended with zeros, or None."""
    if a.constant is None:
        return None
    return const_int(a.type.with_elem(elem), int(a.constant) & _mask(a.type.elem.bits))


def fold_sext(a: Value, elem: LLVMType) -> Value | None:
    """A constant extended with its sign bit, or None."""
    if a.constant is None:
        return None
    number = int(a.constant)
    return const_int(a.type.with_elem(elem), -number if a.type.elem is I1 else number)
