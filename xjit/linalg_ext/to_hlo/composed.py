"""Scalar operations that are several HLO instructions."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TypeAlias

from xjit.hlo import HloInstruction
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.to_hlo.writer import FunctionWriter

__all__ = ["COMPOSED", "Compose"]

Compose: TypeAlias = Callable[[FunctionWriter, Operation, list[HloInstruction]], HloInstruction]
"""Writes an operation: (writer, operation, operands) -> result."""


def _fma(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    a, b, c = operands
    return writer.elementwise("add", writer.elementwise("multiply", a, b), c)


def _same(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return operands[0]


def _divided(step: int) -> Compose:
    """Division that rounds down (-1) or up (1): HLO's rounds towards zero."""

    def compose(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
        a, b = writer.shaped_alike(*operands)
        rest, zero = writer.make("remainder", a, b), writer.like(b, 0)
        signs = [writer.compare("LT", x, zero) for x in (rest, b)]
        is_beyond = writer.compare("NE" if step < 0 else "EQ", *signs)
        moves = writer.make("and", writer.compare("NE", rest, zero), is_beyond)
        quotient = writer.make("divide", a, b)
        return writer.make("select", moves, writer.make("add", quotient, writer.like(quotient, step)), quotient)

    return compose


def _logarithm(base: int) -> Compose:
    def compose(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
        result = writer.make("log", operands[0])
        return writer.make("divide", result, writer.like(result, log(base)))

    return compose


def _exp2(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return writer.make("power", writer.like(operands[0], 2), operands[0])


def _atan(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
    return writer.make("atan2", operands[0], writer.like(operands[0], 1))


def _of_numbers(opcode: str) -> Compose:
    """The greater or smaller one; of a NaN and a number the number."""

    def compose(writer: FunctionWriter, op: Operation, operands: list[HloInstruction]) -> HloInstruction:
        a, b = writer.shaped_alike(*operands)
        both = writer.make("select", writer.compare("NE", b, b), a, writer.make(opcode, a, b))
        return writer.make("select", writer.compare("NE", a, a), b, both)

    return compose


COMPOSED: dict[str, Compose] = {
    "arith.floordivsi": _divided(-1),
    "arith.ceildivsi": _divided(1),
    "arith.maxnumf": _of_numbers("maximum"),
    "arith.minnumf": _of_numbers("minimum"),
    "math.fma": _fma,
    "math.exp2": _exp2,
    "math.log2": _logarithm(2),
    "math.log10": _logarithm(10),
    "math.atan": _atan,
    "linalg_ext.alias": _same,
}
