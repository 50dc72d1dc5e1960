"""Rules of arith: constants are folded, neutral elements go, constants of commutative operations stand on the right."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import add, and_, mul, or_, sub, xor

from xjit.linalg_ext.dialects.attribute_kinds import CMPI
from xjit.linalg_ext.dialects.registry import has_trait
from xjit.linalg_ext.ir.attributes import Attribute, DenseAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.float_text import FLOAT_DTYPES, round_to
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, TensorType, Type, VectorType
from xjit.linalg_ext.rewrite.rule import Rule, constant_attribute, replace, replace_with_constant

__all__ = ["ARITH_RULES"]


def _quotient(a: int, b: int) -> int:
    """Division towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "arith.addi": add,
    "arith.subi": sub,
    "arith.muli": mul,
    "arith.andi": and_,
    "arith.ori": or_,
    "arith.xori": xor,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.minui": min,
    "arith.maxui": max,
    "arith.divsi": _quotient,
    "arith.remsi": lambda a, b: a - b * _quotient(a, b),
    "arith.floordivsi": lambda a, b: a // b,
    "arith.ceildivsi": lambda a, b: -(-a // b),
}
"""Of signed numbers, but for `_UNSIGNED`; results are wrapped to the width."""

_UNSIGNED = ("arith.minui", "arith.maxui")

_DIVISIONS = ("arith.divsi", "arith.remsi", "arith.floordivsi", "arith.ceildivsi")

_FLOATS: dict[str, Callable[[float, float], float]] = {
    "arith.addf": add,
    "arith.subf": sub,
    "arith.mulf": mul,
    "arith.divf": lambda a, b: a / b,
}

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: a < b,
    "ule": lambda a, b: a <= b,
    "ugt": lambda a, b: a > b,
    "uge": lambda a, b: a >= b,
}

_OPPOSITE = {
    "eq": "ne",
    "ne": "eq",
    **{a + b: a + c for a in "su" for b, c in (("lt", "ge"), ("ge", "lt"), ("gt", "le"), ("le", "gt"))},
}
"""The comparison that holds where another one does not."""

_NEUTRAL: dict[str, float] = {
    "arith.addi": 0,
    "arith.subi": 0,
    "arith.muli": 1,
    "arith.divsi": 1,
    "arith.floordivsi": 1,
    "arith.ceildivsi": 1,
    "arith.ori": 0,
    "arith.xori": 0,
    **dict.fromkeys(("arith.shli", "arith.shrsi", "arith.shrui"), 0),
    "arith.addf": -0.0,
    "arith.subf": 0.0,
    "arith.mulf": 1.0,
    "arith.divf": 1.0,
}
"""What changes nothing on the right."""

_IDEMPOTENT = (
    "arith.minsi",
    "arith.maxsi",
    "arith.minui",
    "arith.maxui",
    "arith.andi",
    "arith.ori",
    "arith.maximumf",
    "arith.minimumf",
    "arith.maxnumf",
    "arith.minnumf",
)


def wrapped(value: int, t: Type) -> int:
    """Returns the value in the range of the type: signed, but for i1, which is 0 or 1."""
    width = t.width if isinstance(t, IntegerType) else 64
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


def _integer(value: Value) -> int | None:
    """Returns the number of a scalar integer constant."""
    attribute = constant_attribute(value)
    return attribute.value if isinstance(attribute, IntegerAttr) else None


def _numbers(op: Operation, is_signed: bool = True) -> list[int] | None:
    """Returns what the operands are, if all are constants; of one bit, signed, -1 and 0."""
    numbers: list[int] = []
    for operand in op.operands:
        number, t = _integer(operand), operand.type
        if number is None:
            return None
        if not is_signed:
            number &= (1 << (t.width if isinstance(t, IntegerType) else 64)) - 1
        elif t == IntegerType(1):
            number = -(number & 1)
        numbers.append(number)
    return numbers


def _float(value: Value) -> float | None:
    attribute = constant_attribute(value)
    return attribute.value if isinstance(attribute, FloatAttr) else None


def _splat(value: Value) -> Attribute | float | None:
    """Returns the number that a constant is everywhere."""
    attribute = constant_attribute(value)
    if isinstance(attribute, IntegerAttr | FloatAttr):
        return attribute.value
    if isinstance(attribute, DenseAttr) and attribute.is_splat:
        number = attribute.values[0]
        return None if isinstance(number, complex) else number
    return None


def fold_integers(op: Operation) -> bool:
    numbers = _numbers(op, op.name not in _UNSIGNED)
    if numbers is None or (op.name in _DIVISIONS and numbers[1] == 0):
        return False
    t = op.result.type
    return replace_with_constant(op, IntegerAttr(wrapped(_INTEGERS[op.name](*numbers), t), t), t)


def fold_floats(op: Operation) -> bool:
    a, b = (_float(v) for v in op.operands)
    t = op.result.type
    if a is None or b is None or not isinstance(t, FloatType) or t.name not in FLOAT_DTYPES:
        return False
    if (op.name == "arith.divf" and b == 0) or not (math.isfinite(a) and math.isfinite(b)):
        return False
    return replace_with_constant(op, FloatAttr(round_to(_FLOATS[op.name](a, b), t.name), t), t)


def drop_neutral(op: Operation) -> bool:
    number, neutral = _splat(op.operands[1]), _NEUTRAL[op.name]
    if not isinstance(number, int | float) or number != neutral:
        return False
    if neutral == 0 and math.copysign(1, number) != math.copysign(1, neutral):
        return False
    return replace(op, [op.operands[0]])


def constant_right(op: Operation) -> bool:
    """Swaps the operands of a commutative operation if only the left one is a constant."""
    left, right = op.operands
    if constant_attribute(left) is None or constant_attribute(right) is not None:
        return False
    op.set_operands([right, left])
    return True


def same_operands(op: Operation) -> bool:
    """min(x, x) is x."""
    return op.operands[0] is op.operands[1] and replace(op, [op.operands[0]])


def subtract_itself(op: Operation) -> bool:
    """x - x, and x xor x, are 0."""
    t = op.result.type
    scalar = isinstance(t, IntegerType | IndexType)
    return scalar and op.operands[0] is op.operands[1] and replace_with_constant(op, IntegerAttr(0, t), t)


def divide_by_one(op: Operation) -> bool:
    """Nothing remains."""
    t = op.result.type
    return _integer(op.operands[1]) == 1 and replace_with_constant(op, IntegerAttr(0, t), t)


def subtract_part(op: Operation) -> bool:
    """(x + y) - y is x, (x + y) - x is y."""
    total = op.operands[0].defining_op
    if total is None or total.name != "arith.addi" or op.operands[1] not in total.operands:
        return False
    return replace(op, [total.operands[1 if total.operands[0] is op.operands[1] else 0]])


def _negated(value: Value) -> Value | None:
    """Returns x of x xor true."""
    op = value.defining_op
    if op is None or op.name != "arith.xori" or value.type != IntegerType(1) or not _integer(op.operands[1]):
        return None
    return op.operands[0]


def negated_comparison(op: Operation) -> bool:
    """What is not less is greater or equal."""
    inner = _negated(op.result)
    compared = None if inner is None else inner.defining_op
    predicate = None if compared is None else compared.attributes.get("predicate")
    if compared is None or compared.name != "arith.cmpi" or not isinstance(predicate, IntegerAttr):
        return False
    name = CMPI.index(_OPPOSITE[CMPI[predicate.value]])
    attributes = {**compared.attributes, "predicate": IntegerAttr(name, predicate.type)}
    new = Builder.before(op).create("arith.cmpi", compared.operands, op.result_types, attributes)
    return replace(op, [new.result])


def extend_extended(op: Operation) -> bool:
    """An extension of the same kind, all at once."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != op.name:
        return False
    op.set_operand(0, inner.operands[0])
    return True


def multiply_zero(op: Operation) -> bool:
    return _integer(op.operands[1]) == 0 and replace(op, [op.operands[1]])


def _sum_with_constant(value: Value) -> tuple[Value, int] | None:
    """Returns x and a of x + a for a constant a."""
    op = value.defining_op
    if op is None or op.name != "arith.addi":
        return None
    a = _integer(op.operands[1])
    return None if a is None else (op.operands[0], a)


def add_twice(op: Operation) -> bool:
    """(x + a) + b is x + (a + b) for constants a and b."""
    added, b = _sum_with_constant(op.operands[0]), _integer(op.operands[1])
    if added is None or b is None:
        return False
    (x, a), t = added, op.result.type
    total = Builder.before(op).constant(IntegerAttr(wrapped(a + b, t), t), t)
    op.set_operands([x, total])
    op.attributes.pop("overflowFlags", None)
    return True


def subtract_added(op: Operation) -> bool:
    """(x + a) - b is x + (a - b) for constants a and b."""
    added, b = _sum_with_constant(op.operands[0]), _integer(op.operands[1])
    if added is None or b is None:
        return False
    (x, a), t, builder = added, op.result.type, Builder.before(op)
    rest = builder.constant(IntegerAttr(wrapped(a - b, t), t), t)
    return replace(op, [builder.create("arith.addi", (x, rest), (t,)).result])


def undone(op: Operation) -> bool:
    """Twice the negative, twice the same bits turned."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != op.name or inner.operands[1:] != op.operands[1:]:
        return False
    return replace(op, [inner.operands[0]])


def truncate_extended(op: Operation) -> bool:
    """What was extended to more bits, and cut to what it had."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name not in ("arith.extsi", "arith.extui"):
        return False
    return inner.operands[0].type == op.result.type and replace(op, [inner.operands[0]])


def fold_comparison(op: Operation) -> bool:
    predicate = op.attributes.get("predicate")
    name = CMPI[predicate.value] if isinstance(predicate, IntegerAttr) else ""
    compare = _COMPARISONS.get(name)
    if compare is None:
        return False
    numbers, i1 = _numbers(op, name[0] != "u"), IntegerType(1)
    if numbers is not None:
        return replace_with_constant(op, IntegerAttr(int(compare(*numbers)), i1), i1)
    if op.operands[0] is op.operands[1] and op.result.type == i1:
        return replace_with_constant(op, IntegerAttr(int(compare(0, 0)), i1), i1)
    return False


def fold_select(op: Operation) -> bool:
    """By a constant; of a condition's own truth values; by a negated condition, the other way round."""
    condition = _integer(op.operands[0])
    if condition is not None:
        return replace(op, [op.operands[1 if condition else 2]])
    if op.result.type == IntegerType(1) and [_integer(v) for v in op.operands[1:]] in ([1, 0], [-1, 0]):
        return replace(op, [op.operands[0]])
    positive = _negated(op.operands[0])
    if positive is not None:
        op.set_operands([positive, op.operands[2], op.operands[1]])
        return True
    return op.operands[1] is op.operands[2] and replace(op, [op.operands[1]])


def fold_cast(op: Operation) -> bool:
    """Casts of integer constants, and a cast of a cast back to the first type."""
    t = op.result.type
    inner = op.operands[0].defining_op
    if inner is not None and inner.name == op.name == "arith.index_cast" and inner.operands[0].type == t:
        return isinstance(inner.result.type, IndexType) and replace(op, [inner.operands[0]])
    number = _integer(op.operands[0])
    source = op.operands[0].type
    if number is None or isinstance(t, TensorType | VectorType):
        return False
    if op.name in ("arith.extui", "arith.index_castui") and isinstance(source, IntegerType):
        number &= (1 << source.width) - 1
    elif op.name in ("arith.extsi", "arith.index_cast") and source == IntegerType(1):
        number = -number
    return replace_with_constant(op, IntegerAttr(wrapped(number, t), t), t)


_COMMUTATIVE = tuple(name for name in (*_INTEGERS, *_FLOATS, *_IDEMPOTENT) if has_trait(Operation(name), "commutative"))

ARITH_RULES: tuple[Rule, ...] = (
    Rule(tuple(_INTEGERS), fold_integers),
    Rule(tuple(_FLOATS), fold_floats),
    Rule(_COMMUTATIVE, constant_right),
    Rule(tuple(_NEUTRAL), drop_neutral),
    Rule(_IDEMPOTENT, same_operands),
    Rule(("arith.subi", "arith.xori"), subtract_itself),
    Rule(("arith.subi",), subtract_part),
    Rule(("arith.remsi", "arith.remui"), divide_by_one),
    Rule(("arith.xori",), negated_comparison),
    Rule(("arith.extsi", "arith.extui"), extend_extended),
    Rule(("arith.muli",), multiply_zero),
    Rule(("arith.addi",), add_twice),
    Rule(("arith.subi",), subtract_added),
    Rule(("arith.negf", "arith.xori"), undone),
    Rule(("arith.trunci",), truncate_extended),
    Rule(("arith.cmpi",), fold_comparison),
    Rule(("arith.select",), fold_select),
    Rule(("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci"), fold_cast),
)
