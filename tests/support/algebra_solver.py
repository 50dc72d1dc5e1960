"""Proof of rules on all values of wide integers, by a solver: what NumPy cannot go through.

An elementwise module over integers and booleans becomes one term of bit vectors for an element of its result; a rule
holds if no values of the arguments make the terms before and after differ. Meanings are HLO's: x / 0 is -1, x % 0 is x,
the least number divided by -1 is itself, and shifts by the width or more give zeros, or copies of the sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import z3

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.types.primitive_type import PrimitiveType

Term = Any
"""A bit vector, or a Bool for pred."""

MILLISECONDS = 5_000


class Unknown(Exception):
    """The solver has no term for an instruction, or no answer in time."""


def counterexample(before: HloModule, after: HloModule) -> str:
    """Returns values for which two modules differ, as text; "" if there are none. Unknown if that cannot be told."""
    old, new = (_term_of(module) for module in (before, after))
    solver = z3.Solver()
    solver.set("timeout", MILLISECONDS)
    solver.add(old != new)
    answer = solver.check()
    if answer == z3.unknown:
        raise Unknown(solver.reason_unknown())
    return str(solver.model()) if answer == z3.sat else ""


def _term_of(module: HloModule) -> Term:
    terms: dict[HloInstruction, Term] = {}
    for instruction in module.entry_computation.make_instruction_post_order():
        terms[instruction] = _translate(instruction, [terms[o] for o in instruction.operands])
    return terms[module.entry_computation.root_instruction]


def _translate(i: HloInstruction, operands: Sequence[Term]) -> Term:
    kind = i.shape.element_type
    if i.opcode == "parameter":
        number = i.attributes_as(at.ParameterAttributes).parameter_number
        name = f"x{number}"
        return z3.Bool(name) if kind is PrimitiveType.PRED else z3.BitVec(name, _bits(kind))
    if i.opcode == "constant":
        value = i.attributes_as(at.ConstantAttributes).literal.splat_value()
        if value is None:
            raise Unknown(i.opcode)
        return z3.BoolVal(bool(value)) if kind is PrimitiveType.PRED else z3.BitVecVal(int(value), _bits(kind))
    if i.opcode in ("broadcast", "reshape", "copy"):
        return operands[0]
    if i.opcode == "convert":
        return _converted(operands[0], i.operand(0).shape.element_type, kind)
    if i.opcode == "compare":
        direction = i.attributes_as(at.CompareAttributes).direction
        return _compared(direction, *operands, _signed(i.operand(0).shape.element_type))
    if i.opcode == "select":
        return z3.If(*operands)
    meaning = _BOOLEAN.get(i.opcode) if kind is PrimitiveType.PRED else _meaning(i.opcode, kind)
    if meaning is None:
        raise Unknown(i.opcode)
    return meaning(*operands)


def _bits(kind: PrimitiveType) -> int:
    if not kind.is_integer:
        raise Unknown(kind.text)
    return kind.bit_width


def _signed(kind: PrimitiveType) -> bool:
    return kind.is_signed


def _converted(value: Term, old: PrimitiveType, new: PrimitiveType) -> Term:
    if new is PrimitiveType.PRED:
        return value if old is PrimitiveType.PRED else value != 0
    width = _bits(new)
    if old is PrimitiveType.PRED:
        return z3.If(value, z3.BitVecVal(1, width), z3.BitVecVal(0, width))
    extra = width - _bits(old)
    if extra <= 0:
        return z3.Extract(width - 1, 0, value)
    return z3.SignExt(extra, value) if _signed(old) else z3.ZeroExt(extra, value)


def _compared(direction: str, a: Term, b: Term, signed: bool) -> Term:
    if direction in ("EQ", "NE"):
        return a == b if direction == "EQ" else a != b
    if z3.is_bool(a):
        a, b = (z3.If(v, z3.BitVecVal(1, 2), z3.BitVecVal(0, 2)) for v in (a, b))
    less = (lambda x, y: x < y) if signed else z3.ULT
    return {"LT": less(a, b), "GT": less(b, a), "LE": z3.Not(less(b, a)), "GE": z3.Not(less(a, b))}[direction]


_BOOLEAN: Mapping[str, Callable[..., Term]] = {
    "and": z3.And, "multiply": z3.And, "minimum": z3.And, "or": z3.Or, "add": z3.Or, "maximum": z3.Or, "xor": z3.Xor,
    "not": z3.Not,
}  # fmt: skip


def _meaning(opcode: str, kind: PrimitiveType) -> Callable[..., Term] | None:
    signed, width = _signed(kind), _bits(kind)
    less = (lambda a, b: a < b) if signed else z3.ULT
    table: dict[str, Callable[..., Term]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "negate": lambda a: -a,
        "abs": lambda a: z3.If(a < 0, -a, a) if signed else a,
        "sign": lambda a: z3.If(a == 0, a, z3.If(less(a, z3.BitVecVal(0, width)), *_signs(width))),
        "maximum": lambda a, b: z3.If(less(a, b), b, a),
        "minimum": lambda a, b: z3.If(less(b, a), b, a),
        "clamp": lambda low, a, high: _smaller(less, _larger(less, low, a), high),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: ~a,
        "shift-left": lambda a, b: z3.If(z3.ULT(b, width), a << b, 0),
        "shift-right-logical": lambda a, b: z3.If(z3.ULT(b, width), z3.LShR(a, b), 0),
        "shift-right-arithmetic": lambda a, b: z3.If(z3.ULT(b, width), a >> b, a >> (width - 1)),
        "divide": lambda a, b: z3.If(b == 0, z3.BitVecVal(-1, width), a / b if signed else z3.UDiv(a, b)),
        "remainder": lambda a, b: z3.If(b == 0, a, z3.SRem(a, b) if signed else z3.URem(a, b)),
    }
    return table.get(opcode)


def _signs(width: int) -> tuple[Term, Term]:
    return z3.BitVecVal(-1, width), z3.BitVecVal(1, width)


def _larger(less: Callable[..., Term], a: Term, b: Term) -> Term:
    return z3.If(less(a, b), b, a)


def _smaller(less: Callable[..., Term], a: Term, b: Term) -> Term:
    return z3.If(less(b, a), b, a)
