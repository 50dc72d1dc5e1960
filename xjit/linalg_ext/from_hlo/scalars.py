"""Elementwise opcodes as operations of `arith` and `math`, and computations on scalars as their code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.scope import Body, number_attribute
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import FloatType, IntegerType
from xjit.linalg_ext.structured.scalars import cast, compare, select

__all__ = ["code_of", "has_code", "is_scalar_code", "write_scalar"]

Code: TypeAlias = Callable[[Builder, HloInstruction, Sequence[Value]], Value]
"""Writes one instruction on scalars."""

# The opcode, then the operation for floats, signed integers, unsigned ones and pred; none where there is "-".
_OPERATIONS = """
add                | arith.addf     | arith.addi   | arith.addi   | arith.ori
subtract           | arith.subf     | arith.subi   | arith.subi   | -
multiply           | arith.mulf     | arith.muli   | arith.muli   | arith.andi
divide             | arith.divf     | arith.divsi  | arith.divui  | -
remainder          | arith.remf     | arith.remsi  | arith.remui  | -
maximum            | arith.maximumf | arith.maxsi  | arith.maxui  | arith.ori
minimum            | arith.minimumf | arith.minsi  | arith.minui  | arith.andi
and                | -              | arith.andi   | arith.andi   | arith.andi
or                 | -              | arith.ori    | arith.ori    | arith.ori
xor                | -              | arith.xori   | arith.xori   | arith.xori
power              | math.powf      | -            | -            | -
atan2              | math.atan2     | -            | -            | -
negate             | arith.negf     | arith.subi   | arith.subi   | -
abs                | math.absf      | math.absi    | -            | -
exponential        | math.exp       | -            | -            | -
exponential-minus-one | math.expm1  | -            | -            | -
log                | math.log       | -            | -            | -
log-plus-one       | math.log1p     | -            | -            | -
sqrt               | math.sqrt      | -            | -            | -
rsqrt              | math.rsqrt     | -            | -            | -
cbrt               | math.cbrt      | -            | -            | -
tanh               | math.tanh      | -            | -            | -
sine               | math.sin       | -            | -            | -
cosine             | math.cos       | -            | -            | -
tan                | math.tan       | -            | -            | -
sinh               | math.sinh      | -            | -            | -
cosh               | math.cosh      | -            | -            | -
asin               | math.asin      | -            | -            | -
acos               | math.acos      | -            | -            | -
erf                | math.erf       | -            | -            | -
ceil               | math.ceil      | -            | -            | -
floor              | math.floor     | -            | -            | -
round-nearest-afz  | math.round     | -            | -            | -
round-nearest-even | math.roundeven | -            | -            | -
popcnt             | -              | math.ctpop   | math.ctpop   | -
select             | arith.select   | arith.select | arith.select | arith.select
"""


def _kind(instruction: HloInstruction) -> int:
    """Returns the column of the table for the elements of a result."""
    kind = instruction.shape.element_type
    return 0 if kind.is_float else 3 if kind is PrimitiveType.PRED else 1 if kind.is_signed else 2


def _rows() -> dict[str, tuple[str, ...]]:
    lines = [[cell.strip() for cell in line.split("|")] for line in _OPERATIONS.strip().splitlines()]
    return {opcode: tuple(names) for opcode, *names in lines}


_ROWS = _rows()


def _operation(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    name = _ROWS[instruction.opcode][_kind(instruction)]
    return builder.create(name, given, (given[-1].type,)).result


def _number(builder: Builder, value: float, like: Value) -> Value:
    return builder.constant(number_attribute(value, like.type), like.type)


def _comparison(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    """Comparisons of a NaN are false, but NE is true."""
    a = instruction.attributes_as(at.CompareAttributes)
    direction, kind = a.direction.lower(), instruction.operand(0).shape.element_type
    if kind.is_float and a.type == "TOTALORDER":
        given, prefix = [_ordered_bits(builder, x) for x in given], "" if direction in ("eq", "ne") else "s"
    elif kind.is_float:
        prefix = "u" if direction == "ne" else "o"
    elif direction in ("eq", "ne"):
        prefix = ""
    else:
        prefix = "s" if kind.is_signed else "u"
    return compare(builder, prefix + direction, *given)


def _ordered_bits(builder: Builder, x: Value) -> Value:
    """Integers in the total order of floats: of negative ones all bits but the sign are turned."""
    assert isinstance(x.type, FloatType)
    kind = IntegerType(x.type.width)
    bits = builder.create("arith.bitcast", (x,), (kind,)).result
    sign = builder.create("arith.shrsi", (bits, _number(builder, kind.width - 1, bits)), (kind,)).result
    mask = builder.create("arith.andi", (sign, _number(builder, 2 ** (kind.width - 1) - 1, bits)), (kind,)).result
    return builder.create("arith.xori", (bits, mask), (kind,)).result


def _convert(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    [x], kind = given, instruction.operand(0).shape.element_type
    target = raised_element(instruction.shape.element_type)
    if target == IntegerType(1) and x.type != target:
        return compare(builder, "une" if kind.is_float else "ne", x, _number(builder, 0, x))
    if isinstance(x.type, FloatType) and isinstance(target, FloatType) and x.type.width == target.width != 32:
        x = cast(builder, x, FloatType("f32"))  # narrow types of one width: there is no conversion between them
    if kind.is_float and instruction.shape.element_type.is_integer:
        return _saturated(builder, x, instruction.shape.element_type)
    return cast(builder, x, target, kind.is_signed)


def _saturated(builder: Builder, x: Value, kind: PrimitiveType) -> Value:
    """A float as an integer: the nearest one where it is too large or too small, 0 of a NaN."""
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1)) if kind.is_signed else (0, 2**kind.bit_width)
    is_low, is_high = (
        compare(builder, predicate, x, _number(builder, bound, x)) for predicate, bound in (("ole", low), ("oge", high))
    )
    fits = compare(builder, "olt", x, _number(builder, high, x))
    inside = select(builder, fits, select(builder, is_low, _number(builder, 0, x), x), _number(builder, 0, x))
    found = cast(builder, inside, raised_element(kind), kind.is_signed)
    most = select(builder, is_high, _number(builder, high - 1, found), found)
    return select(builder, is_low, _number(builder, low, found), most)


def _clamp(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    low, x, high = given
    most, least = (_ROWS[name][_kind(instruction)] for name in ("maximum", "minimum"))
    at_least = builder.create(most, (x, low), (x.type,)).result
    return builder.create(least, (at_least, high), (x.type,)).result


def _sign(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    """Zeros and NaNs stay what they are."""
    [x] = given
    ordered = ("ogt", "olt") if isinstance(x.type, FloatType) else ("sgt", "slt")
    zero, one = _number(builder, 0, x), _number(builder, 1, x)
    if instruction.shape.element_type.is_unsigned:
        return select(builder, compare(builder, "ne", x, zero), one, zero)
    negative = select(builder, compare(builder, ordered[1], x, zero), _number(builder, -1, x), x)
    return select(builder, compare(builder, ordered[0], x, zero), one, negative)


def _not(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    [x] = given
    ones = _number(builder, 1 if x.type == IntegerType(1) else -1, x)
    return builder.create("arith.xori", (x, ones), (x.type,)).result


def _negate(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    [x] = given
    if isinstance(x.type, FloatType):
        return _operation(builder, instruction, given)
    return builder.create("arith.subi", (_number(builder, 0, x), x), (x.type,)).result


def _logistic(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    """1 / (1 + exp(-x))."""
    [x] = given
    one = _number(builder, 1, x)
    weight = builder.create("math.exp", (builder.create("arith.negf", (x,), (x.type,)).result,), (x.type,)).result
    total = builder.create("arith.addf", (one, weight), (x.type,)).result
    return builder.create("arith.divf", (one, total), (x.type,)).result


def _is_finite(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    [x] = given
    size = builder.create("math.absf", (x,), (x.type,)).result
    return compare(builder, "olt", size, _number(builder, float("inf"), x))


def _shift(operation: str) -> Code:
    """A shift by as many bits as there are, or more, leaves zeros, or copies of the sign."""

    def write(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
        x, count = given
        bits = instruction.shape.element_type.bit_width
        last = _number(builder, bits - 1, x)
        bounded = builder.create("arith.minui", (count, last), (x.type,)).result
        shifted = builder.create(operation, (x, bounded), (x.type,)).result
        if operation == "arith.shrsi":
            return shifted
        return select(builder, compare(builder, "ule", count, last), shifted, _number(builder, 0, x))

    return write


def _bitcast(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    [x], target = given, raised_element(instruction.shape.element_type)
    return x if x.type == target else builder.create("arith.bitcast", (x,), (target,)).result


def _divided(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    """An integer by zero has all bits, and all of it remains."""
    x, divisor = given
    if isinstance(x.type, FloatType):
        return _operation(builder, instruction, given)
    zero, one = _number(builder, 0, x), _number(builder, 1, x)
    by_zero = compare(builder, "eq", divisor, zero)
    result = _operation(builder, instruction, (x, select(builder, by_zero, one, divisor)))
    return select(builder, by_zero, _number(builder, -1, x) if instruction.opcode == "divide" else x, result)


def _same(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    return given[0]


_COMPOSED: dict[str, Code] = {
    "compare": _comparison,
    "convert": _convert,
    "clamp": _clamp,
    "sign": _sign,
    "not": _not,
    "negate": _negate,
    "divide": _divided,
    "remainder": _divided,
    "logistic": _logistic,
    "is-finite": _is_finite,
    "shift-left": _shift("arith.shli"),
    "shift-right-logical": _shift("arith.shrui"),
    "shift-right-arithmetic": _shift("arith.shrsi"),
    "bitcast-convert": _bitcast,
    "copy": _same,
}
"""Opcodes that are several operations, or whose operation depends on more than the type of the result."""


def has_code(instruction: HloInstruction) -> bool:
    """Whether one element of an elementwise instruction can be computed by `arith` and `math`."""
    if not all(has_scalar_code(x.shape) for x in (instruction, *instruction.operands)):
        return False
    if instruction.opcode == "bitcast-convert":
        return instruction.shape.element_type.bit_width == instruction.operand(0).shape.element_type.bit_width
    if instruction.opcode == "is-finite" and instruction.operand(0).shape.element_type.bit_width < 16:
        return False  # some of these types have no infinity
    row = _ROWS.get(instruction.opcode)
    return instruction.opcode in _COMPOSED if row is None else row[_kind(instruction)] != "-"


def write_scalar(builder: Builder, instruction: HloInstruction, given: Sequence[Value]) -> Value:
    """Writes one instruction that `has_code` on the elements of its operands."""
    return _COMPOSED.get(instruction.opcode, _operation)(builder, instruction, given)


def is_scalar_code(computation: HloComputation) -> bool:
    """Whether a computation on scalars is parameters, constants, elementwise instructions, and a tuple at its end."""
    root = computation.root_instruction
    return all(
        (i.opcode in ("parameter", "constant") and has_scalar_code(i.shape) and not i.shape.rank)
        or (i is root and i.opcode == "tuple")
        or has_code(i)
        for i in computation.make_instruction_post_order()
    )


def code_of(computation: HloComputation, order: Sequence[int] | None = None) -> Body:
    """Returns a computation that `is_scalar_code` as a body; its parameter i is argument `order[i]`, or i."""

    def write(builder: Builder, given: Sequence[Value]) -> list[Value]:
        values: dict[HloInstruction, Value] = {}
        for number, parameter in enumerate(computation.parameter_instructions):
            values[parameter] = given[number if order is None else order[number]]
        for i in computation.make_instruction_post_order():
            if i.opcode == "constant":
                value, t = (
                    i.attributes_as(at.ConstantAttributes).literal.array[()],
                    raised_element(i.shape.element_type),
                )
                values[i] = builder.constant(number_attribute(value, t), t)
            elif i.opcode not in ("parameter", "tuple"):
                values[i] = write_scalar(builder, i, [values[o] for o in i.operands])
        root = computation.root_instruction
        return [values[o] for o in (root.operands if root.opcode == "tuple" else (root,))]

    return write
