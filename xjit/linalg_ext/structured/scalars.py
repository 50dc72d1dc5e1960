"""Scalar code of named ops: functions of `elemwise_unary` and `elemwise_binary`, casts between element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xjit.linalg_ext.dialects.attribute_kinds import CMPF, CMPI
from xjit.linalg_ext.ir.attributes import FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, Type

__all__ = [
    "BINARY_FUNCTIONS",
    "UNARY_FUNCTIONS",
    "BinaryFunction",
    "UnaryFunction",
    "cast",
    "compare",
    "constant_of",
    "select",
]

UnaryFunction: TypeAlias = Callable[[Builder, Value], Value]
BinaryFunction: TypeAlias = Callable[[Builder, Value, Value], Value]


def constant_of(builder: Builder, value: float, type: Type) -> Value:
    """Returns a new constant of a float, integer or index type."""
    attribute = FloatAttr(float(value), type) if isinstance(type, FloatType) else IntegerAttr(int(value), type)
    return builder.constant(attribute, type)


def cast(builder: Builder, value: Value, target: Type, signed: bool = True) -> Value:
    """Converts a scalar to another type as `#linalg.type_fn<cast_signed>` does; integers of one bit are unsigned."""
    source = value.type
    if source == target:
        return value
    name = _cast_name(source, target, signed and source != IntegerType(1))
    return builder.create(name, (value,), (target,)).result


def _cast_name(source: Type, target: Type, signed: bool) -> str:
    sign = "s" if signed else "u"
    if isinstance(source, FloatType) and isinstance(target, FloatType):
        return "arith.extf" if target.width > source.width else "arith.truncf"
    if isinstance(source, IntegerType) and isinstance(target, IntegerType):
        return f"arith.ext{sign}i" if target.width > source.width else "arith.trunci"
    if isinstance(target, FloatType):
        return f"arith.{sign}itofp"
    if isinstance(source, FloatType):
        return f"arith.fpto{sign}i"
    assert IndexType() in (source, target)
    return "arith.index_cast" if signed else "arith.index_castui"


def _by_type(float_op: str, integer_op: str, bool_op: str | None = None) -> BinaryFunction:
    """A binary function as one op per kind of type; one-bit integers take `bool_op`."""

    def build(builder: Builder, left: Value, right: Value) -> Value:
        name = float_op if isinstance(left.type, FloatType) else integer_op
        if bool_op is not None and left.type == IntegerType(1):
            name = bool_op
        return builder.create(name, (left, right), (left.type,)).result

    return build


def compare(builder: Builder, predicate: str, a: Value, b: Value) -> Value:
    """Writes `cmpf` or `cmpi` with a predicate by name."""
    name, names = ("arith.cmpf", CMPF) if isinstance(a.type, FloatType) else ("arith.cmpi", CMPI)
    number = IntegerAttr(names.index(predicate), IntegerType(64))
    return builder.create(name, (a, b), (IntegerType(1),), {"predicate": number}).result


def select(builder: Builder, condition: Value, a: Value, b: Value) -> Value:
    """Writes a choice of two values."""
    return builder.create("arith.select", (condition, a, b), (a.type,)).result


BINARY_FUNCTIONS: dict[str, BinaryFunction] = {
    "add": _by_type("arith.addf", "arith.addi", "arith.ori"),
    "sub": _by_type("arith.subf", "arith.subi"),
    "mul": _by_type("arith.mulf", "arith.muli", "arith.andi"),
    "div": _by_type("arith.divf", "arith.divsi"),
    "div_unsigned": _by_type("arith.divf", "arith.divui"),
    "max_signed": _by_type("arith.maximumf", "arith.maxsi"),
    "min_signed": _by_type("arith.minimumf", "arith.minsi"),
    "max_unsigned": _by_type("arith.maximumf", "arith.maxui"),
    "min_unsigned": _by_type("arith.minimumf", "arith.minui"),
    "powf": _by_type("math.powf", "math.ipowi"),
}


def _unary(name: str) -> UnaryFunction:
    return lambda builder, value: builder.create(name, (value,), (value.type,)).result


def _reciprocal(builder: Builder, value: Value) -> Value:
    one = constant_of(builder, 1, value.type)
    return BINARY_FUNCTIONS["div"](builder, one, value)


UNARY_FUNCTIONS: dict[str, UnaryFunction] = {
    "exp": _unary("math.exp"),
    "log": _unary("math.log"),
    "abs": _unary("math.absf"),
    "ceil": _unary("math.ceil"),
    "floor": _unary("math.floor"),
    "negf": _unary("arith.negf"),
    "reciprocal": _reciprocal,
    "round": _unary("math.round"),
    "sqrt": _unary("math.sqrt"),
    "rsqrt": _unary("math.rsqrt"),
    "square": lambda builder, value: BINARY_FUNCTIONS["mul"](builder, value, value),
    "tanh": _unary("math.tanh"),
    "erf": _unary("math.erf"),
}
