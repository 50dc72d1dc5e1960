"""What the operations of `arith` and `math` compute, on numbers and on whole arrays of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from scipy import special

from xjit.linalg_ext.dialects.index import INDEX_BINARY
from xjit.linalg_ext.evaluation.values import dtype_of
from xjit.linalg_ext.ir.attributes import Attribute, EnumAttr, IntegerAttr, StringAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import element_type

__all__ = ["EXTENDED_OPS", "SCALAR_OPS", "ScalarFunction", "on_unsigned", "predicate_of"]

Elements: TypeAlias = Any
ScalarFunction: TypeAlias = Callable[..., Elements]
"""Takes the operation and the elements of its operands."""


def _unsigned(x: Elements) -> Elements:
    array = np.asarray(x)
    return array if array.dtype.kind in "bu" else array.view(np.dtype(f"u{array.dtype.name}"))


def on_unsigned(function: Callable[..., Elements]) -> Callable[..., Elements]:
    """The function on the same bits as unsigned integers."""

    def call(*operands: Elements) -> Elements:
        result = np.asarray(function(*map(_unsigned, operands)))
        return result if result.dtype.kind == "b" else result.view(np.asarray(operands[0]).dtype)

    return call


def _divide_toward_zero(a: Elements, b: Elements) -> Elements:
    quotient = np.floor_divide(a, b)
    inexact = np.not_equal(np.multiply(quotient, b), a)
    return np.where(np.logical_and(inexact, np.less(quotient, 0)), np.add(quotient, 1), quotient)


def _divide_up(a: Elements, b: Elements) -> Elements:
    return np.add(np.floor_divide(a, b), np.not_equal(np.remainder(a, b), 0))


def _signed(on_integers: Callable[..., Elements], on_bits: Callable[..., Elements]) -> Callable[..., Elements]:
    """A function of signed integers; those of one bit, -1 and 0, are NumPy's booleans."""
    return lambda a, b: (on_bits if np.asarray(a).dtype.kind == "b" else on_integers)(a, b)


def _bit_or_nothing(a: Elements, b: Elements) -> Elements:
    """A shift by one bit leaves nothing."""
    return np.logical_and(a, np.logical_not(b))


def _nothing(a: Elements, b: Elements) -> Elements:
    """What remains of a division by one, or minus one."""
    return np.logical_and(False, np.logical_or(a, b))


def _first(a: Elements, b: Elements) -> Elements:
    return a


_COMPARE_INTEGERS: dict[str, Callable[..., Elements]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": _signed(np.less, np.greater),
    "sle": _signed(np.less_equal, np.greater_equal),
    "sgt": _signed(np.greater, np.less),
    "sge": _signed(np.greater_equal, np.less_equal),
    "ult": on_unsigned(np.less),
    "ule": on_unsigned(np.less_equal),
    "ugt": on_unsigned(np.greater),
    "uge": on_unsigned(np.greater_equal),
}

_COMPARE_FLOATS: dict[str, Callable[..., Elements]] = {
    "eq": np.equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "ne": np.not_equal,
}

_FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def predicate_of(op: Operation) -> str:
    """Returns the predicate of `cmpi` or `cmpf` by name."""
    predicate: Attribute | None = op.attributes.get("predicate")
    if isinstance(predicate, IntegerAttr):
        return (_FLOAT_PREDICATES if op.name == "arith.cmpf" else tuple(_COMPARE_INTEGERS))[predicate.value]
    assert isinstance(predicate, EnumAttr | StringAttr), f"{op.name} without a predicate"
    return predicate.value.removeprefix("cmp_predicate ")


def _compare_integers(op: Operation, a: Elements, b: Elements) -> Elements:
    return _COMPARE_INTEGERS[predicate_of(op)](a, b)


def _compare_floats(op: Operation, a: Elements, b: Elements) -> Elements:
    name = predicate_of(op)
    unordered = np.logical_or(np.isnan(a), np.isnan(b))
    if name in ("ord", "uno"):
        return unordered if name == "uno" else np.logical_not(unordered)
    if name in ("false", "true"):
        return np.full_like(unordered, name == "true")
    result = _COMPARE_FLOATS[name[1:]](a, b)
    return np.logical_or(result, unordered) if name[0] == "u" else np.logical_and(result, np.logical_not(unordered))


def _result_dtype(op: Operation) -> np.dtype[Any]:
    return dtype_of(element_type(op.results[0].type))


def _convert(op: Operation, x: Elements) -> Elements:
    return np.asarray(x).astype(_result_dtype(op))


def _extend_signed(op: Operation, x: Elements) -> Elements:
    """One-bit integers are -1 and 0."""
    array = np.asarray(x)
    signed = -array.astype(np.int8) if array.dtype.kind == "b" else array
    return signed.astype(_result_dtype(op))


def _convert_unsigned(op: Operation, x: Elements) -> Elements:
    return _unsigned(x).astype(_result_dtype(op))


def _truncate(op: Operation, x: Elements) -> Elements:
    """Integers lose their upper bits."""
    target = _result_dtype(op)
    array = np.asarray(x)
    return (array & 1).astype(np.bool_) if target.kind == "b" else array.astype(target)


def _cast_index(extend: ScalarFunction) -> ScalarFunction:
    """To one bit, indices lose their upper bits; integers of one bit are extended."""
    return lambda op, x: (_truncate if _result_dtype(op).kind == "b" else extend)(op, x)


def _bitcast(op: Operation, x: Elements) -> Elements:
    return np.ascontiguousarray(x).view(_result_dtype(op)).reshape(np.shape(x))


def _rounded(function: Callable[..., Elements]) -> ScalarFunction:
    """A function of floats, computed in f64 for the narrow types and f32, rounded once."""

    def call(op: Operation, *operands: Elements) -> Elements:
        dtype = np.asarray(operands[0]).dtype
        return np.asarray(function(*(np.asarray(x).astype(np.float64) for x in operands))).astype(dtype)

    return call


def _plain(function: Callable[..., Elements]) -> ScalarFunction:
    return lambda op, *operands: function(*operands)


def _arith(function: Callable[..., Elements]) -> ScalarFunction:
    """Keeps the type of the operands: NumPy makes float32 of two bfloat16 scalars' ratio, say."""

    def call(op: Operation, *operands: Elements) -> Elements:
        result = function(*operands)
        return result if isinstance(result, int) else np.asarray(result).astype(_result_dtype(op), copy=False)

    return call


def _select(op: Operation, condition: Elements, a: Elements, b: Elements) -> Elements:
    return np.where(condition, a, b)


def _round_half_away(x: Elements) -> Elements:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _is_normal(x: Elements) -> Elements:
    """Finite, and not smaller than what has all digits."""
    return np.logical_and(np.isfinite(x), np.abs(x) >= ml_dtypes.finfo(np.asarray(x).dtype).smallest_normal)


def _both_words(op: Operation, exact: Elements) -> tuple[Elements, Elements]:
    """Returns the lower and the upper half of products, which are Python's integers."""
    dtype = np.asarray(0, _result_dtype(op)).dtype
    bits = dtype.itemsize * 8

    def word(x: Elements) -> Elements:
        return np.asarray(x & ((1 << bits) - 1), object).astype(f"u{dtype.itemsize}").view(dtype)

    return word(exact), word(exact >> bits)


def _multiply_signed(op: Operation, a: Elements, b: Elements) -> tuple[Elements, Elements]:
    return _both_words(op, np.asarray(a).astype(object) * np.asarray(b).astype(object))


def _multiply_unsigned(op: Operation, a: Elements, b: Elements) -> tuple[Elements, Elements]:
    return _both_words(op, _unsigned(a).astype(object) * _unsigned(b).astype(object))


def _add_with_carry(op: Operation, a: Elements, b: Elements) -> tuple[Elements, Elements]:
    total = SCALAR_OPS["arith.addi"](op, a, b)
    return total, np.less(_unsigned(total), _unsigned(a))


def _leading_zeros(x: Elements) -> Elements:
    bits = np.asarray(x).dtype.itemsize * 8
    return sum((_unsigned(x) >> i == 0).astype(np.asarray(x).dtype) for i in range(bits))


def _trailing_zeros(x: Elements) -> Elements:
    bits = np.asarray(x).dtype.itemsize * 8
    return sum((_unsigned(x) << i == 0).astype(np.asarray(x).dtype) for i in range(bits))


SCALAR_OPS: dict[str, ScalarFunction] = {
    **{f"arith.{name}": _arith(f) for name, f in {
        "addi": _signed(np.add, np.bitwise_xor), "subi": _signed(np.subtract, np.bitwise_xor), "muli": np.multiply,
        "divsi": _signed(_divide_toward_zero, np.logical_and), "remsi": _signed(np.fmod, _nothing),
        "floordivsi": _signed(np.floor_divide, np.logical_and), "ceildivsi": _signed(_divide_up, np.logical_and),
        "divui": _signed(on_unsigned(np.floor_divide), np.logical_and),
        "remui": _signed(on_unsigned(np.remainder), _nothing),
        "ceildivui": _signed(
            on_unsigned(lambda a, b: np.floor_divide(a, b) + (np.remainder(a, b) != 0)), np.logical_and
        ),
        "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
        "shli": _signed(np.left_shift, _bit_or_nothing), "shrsi": _signed(np.right_shift, _first),
        "shrui": _signed(on_unsigned(np.right_shift), _bit_or_nothing),
        "maxsi": _signed(np.maximum, np.bitwise_and), "minsi": _signed(np.minimum, np.bitwise_or),
        "maxui": on_unsigned(np.maximum), "minui": on_unsigned(np.minimum),
        "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "remf": np.fmod,
        "negf": np.negative, "maximumf": np.maximum, "minimumf": np.minimum,
        "maxnumf": np.fmax, "minnumf": np.fmin, "maxf": np.maximum, "minf": np.minimum,
    }.items()},
    **dict.fromkeys(("arith.extf", "arith.truncf", "arith.fptosi", "arith.fptoui"), _convert),
    "arith.cmpi": _compare_integers,
    "index.cmp": _compare_integers,
    **dict.fromkeys(("arith.index_cast", "index.casts"), _cast_index(_extend_signed)),
    **dict.fromkeys(("arith.index_castui", "index.castu"), _cast_index(_convert_unsigned)),
    "arith.cmpf": _compare_floats,
    "arith.select": _select,
    "arith.extsi": _extend_signed,
    "arith.sitofp": _extend_signed,
    "arith.extui": _convert_unsigned,
    "arith.uitofp": _convert_unsigned,
    "arith.trunci": _truncate,
    "arith.bitcast": _bitcast,
    "linalg_ext.alias": _plain(lambda x: x),
    **{f"math.{name}": _rounded(f) for name, f in {
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
        "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "tanh": np.tanh,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin,
        "acos": np.arccos, "acosh": np.arccosh, "asinh": np.arcsinh, "atanh": np.arctanh, "atan": np.arctan,
        "atan2": np.arctan2, "erf": special.erf, "erfc": special.erfc,
        "powf": np.power, "fpowi": np.power, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc,
        "round": _round_half_away, "roundeven": np.rint, "copysign": np.copysign, "absf": np.abs,
        "fma": lambda a, b, c: a * b + c,
    }.items()},
    **{f"math.{name}": _arith(f) for name, f in {"absi": np.abs, "ipowi": np.power}.items()},
    **{f"math.{name}": _arith(f) for name, f in {"ctlz": _leading_zeros, "cttz": _trailing_zeros}.items()},
    "math.ctpop": _arith(lambda x: np.bitwise_count(_unsigned(x))),
    "math.isnan": _plain(np.isnan),
    "math.isinf": _plain(np.isinf),
    "math.isfinite": _plain(np.isfinite),
    "math.isnormal": _plain(_is_normal),
    "math.clampf": _arith(lambda x, low, high: np.minimum(np.maximum(x, low), high)),
}  # fmt: skip
"""Functions of (operation, elements of operands...) by name of the operation."""

EXTENDED_OPS: dict[str, Callable[..., tuple[Elements, Elements]]] = {
    "arith.addui_extended": _add_with_carry,
    "arith.mulsi_extended": _multiply_signed,
    "arith.mului_extended": _multiply_unsigned,
    "math.sincos": lambda op, x: (SCALAR_OPS["math.sin"](op, x), SCALAR_OPS["math.cos"](op, x)),
}
"""The same for those with two results."""

SCALAR_OPS.update({name: SCALAR_OPS[same] for name, same in INDEX_BINARY.items()})
