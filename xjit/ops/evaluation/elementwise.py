"""Elementwise arithmetic: unary, binary, compare, select, clamp.

An `Elementwise` row holds one NumPy function per kind of element (real, complex, integer, pred); the driver widens
narrow types, flushes subnormals before and after, rounds once to the result type, and works once per distinct value of
broadcast operands. Functions marked `precise` compute f32 in f64, so that they are correctly rounded almost always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import BY_DTYPE, PrimitiveType
from xjit.ops.evaluation import complex_math as cm
from xjit.ops.evaluation import integer_math as im
from xjit.ops.evaluation.numerics import Array, compact, narrow, ordered_bits, type_of, unsupported, widen
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """What an opcode computes per kind of element; None where HLO does not define it."""

    real: Function | None = None
    complex: Function | None = None
    integer: Function | None = None
    pred: Function | None = None
    precise: bool = False  # real and complex functions get f64 / c128
    arithmetic: bool = True  # subnormals are flushed; False for operations on bits
    bits: bool = False  # the integer function takes the bit width first

    def select(self, kind: PrimitiveType) -> Function | None:
        """Returns the function for a type of element."""
        if kind.is_float:
            return self.real
        if kind.is_complex:
            return self.complex
        return self.integer if kind.is_integer else self.pred


def _wide(x: Array, precise: bool) -> Array:
    x = widen(x)
    if precise and x.dtype.kind in "fc":
        return x.astype(np.float64 if x.dtype.kind == "f" else np.complex128, copy=False)
    return x


def _flushed_already(operand: HloInstruction) -> bool:
    """Whether the operand comes straight from arithmetic, so that it has no subnormals (narrow floats may)."""
    row = TABLE.get(operand.opcode)
    return row is not None and row.arithmetic and operand.shape.element_type in _FULL_FLOATS


_FULL_FLOATS = frozenset([PrimitiveType.F32, PrimitiveType.F64])


def apply(interpreter: Interpreter, opcode: str, dtype: np.dtype, *operands: Array) -> Array:
    """Applies one arithmetic opcode to arrays that broadcast together; the result has type `dtype`."""
    row = TABLE[opcode]
    kind = type_of(operands[0])
    function = row.select(kind)
    if function is None:
        raise unsupported(f"{opcode} on {kind.text}")
    wide = [_wide(interpreter.flush(widen(x)) if row.arithmetic else x, row.precise) for x in operands]
    return _finish(interpreter, row, kind, function, wide, dtype)


def _finish(
    interpreter: Interpreter,
    row: Elementwise,
    kind: PrimitiveType,
    function: Function,
    wide: list[Array],
    dtype: np.dtype,
) -> Array:
    result = np.asarray(function(kind.bit_width, *wide) if row.bits and kind.is_integer else function(*wide))
    target = BY_DTYPE[dtype]
    if row.precise and (target.is_float or target.is_complex):
        result = result.astype(widen(np.empty((), dtype)).dtype, copy=False)
    if row.arithmetic and not target.is_integer:
        result = interpreter.flush(result)
    return narrow(result, dtype)


def _evaluator(opcode: str, row: Elementwise) -> Evaluator:
    def evaluate(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
        kind = type_of(operands[0])
        function = row.select(kind)
        if function is None:
            raise unsupported(f"{opcode} on {kind.text}")
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        wide: list[Array] = []
        for x, operand in zip(operands, instruction.operands):
            x = widen(compact(x))
            if row.arithmetic and not _flushed_already(operand):
                x = interpreter.flush(x)
            wide.append(_wide(x, row.precise))
        result = _finish(interpreter, row, kind, function, wide, instruction.shape.dtype)
        return result if result.shape == shape else np.broadcast_to(result, shape)

    return evaluate


# -- real functions


def maximum(a: Array, b: Array) -> Array:
    """The larger value; NaN if either is, +0 above -0."""
    result = np.maximum(a, b)
    zero = result == 0
    if not zero.any():
        return result
    return np.where(zero, np.where(np.signbit(a) & np.signbit(b), -result.dtype.type(0), result.dtype.type(0)), result)


def minimum(a: Array, b: Array) -> Array:
    """The smaller value; NaN if either is, -0 below +0."""
    result = np.minimum(a, b)
    zero = result == 0
    if not zero.any():
        return result
    return np.where(zero, np.where(np.signbit(a) | np.signbit(b), -result.dtype.type(0), result.dtype.type(0)), result)


def _sign(x: Array) -> Array:
    return np.where(np.isnan(x) | (x == 0), x, np.copysign(x.dtype.type(1), x))


def _round_afz(x: Array) -> Array:
    whole = np.trunc(x)
    away = np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)
    return np.copysign(away, x)


def _power(x: Array, y: Array) -> Array:
    """C's pow. If one exponent of 0.5 serves all, NumPy takes the square root, which differs at -inf and -0.0."""
    if np.size(y) == 1 and y.flat[0] == 0.5:
        special = np.where(np.isneginf(x), np.inf, 0.0).astype(x.dtype)
        return np.where(np.isneginf(x) | (x == 0), special, np.sqrt(x))
    return np.power(x, y)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _identity(x: Array) -> Array:
    return x


def _erf(x: Array) -> Array:
    from scipy.special import erf  # at the first use: SciPy takes as long to import as a fifth of xjit

    return erf(x)


def _expit(x: Array) -> Array:
    from scipy.special import expit

    return expit(x)


TABLE: Mapping[str, Elementwise] = MappingProxyType(
    {
        "abs": Elementwise(np.abs, np.abs, np.abs, arithmetic=False),
        "negate": Elementwise(np.negative, np.negative, np.negative, arithmetic=False),
        "ceil": Elementwise(np.ceil),
        "floor": Elementwise(np.floor),
        "round-nearest-afz": Elementwise(_round_afz),
        "round-nearest-even": Elementwise(np.rint),
        "sign": Elementwise(_sign, cm.sign, np.sign),
        "is-finite": Elementwise(np.isfinite, arithmetic=False),
        "real": Elementwise(_identity, np.real, arithmetic=False),
        "imag": Elementwise(np.zeros_like, np.imag, arithmetic=False),
        "not": Elementwise(integer=np.invert, pred=np.logical_not),
        "popcnt": Elementwise(integer=im.popcnt, bits=True),
        "count-leading-zeros": Elementwise(integer=im.count_leading_zeros, bits=True),
        "acos": Elementwise(np.arccos, cm.acos, precise=True),
        "acosh": Elementwise(np.arccosh, cm.acosh, precise=True),
        "asin": Elementwise(np.arcsin, cm.asin, precise=True),
        "asinh": Elementwise(np.arcsinh, cm.asinh, precise=True),
        "atanh": Elementwise(np.arctanh, np.arctanh, precise=True),
        "cbrt": Elementwise(np.cbrt, precise=True),
        "cosh": Elementwise(np.cosh, np.cosh, precise=True),
        "cosine": Elementwise(np.cos, np.cos, precise=True),
        "erf": Elementwise(_erf, precise=True),
        "exponential": Elementwise(np.exp, cm.exp, precise=True),
        "exponential-minus-one": Elementwise(np.expm1, cm.expm1, precise=True),
        "log": Elementwise(np.log, np.log, precise=True),
        "log-plus-one": Elementwise(np.log1p, cm.log1p, precise=True),
        "logistic": Elementwise(_expit, cm.logistic, precise=True),
        "rsqrt": Elementwise(_rsqrt, cm.rsqrt, precise=True),
        "sine": Elementwise(np.sin, np.sin, precise=True),
        "sinh": Elementwise(np.sinh, np.sinh, precise=True),
        "sqrt": Elementwise(np.sqrt, cm.sqrt, precise=True),
        "tan": Elementwise(np.tan, np.tan, precise=True),
        "tanh": Elementwise(np.tanh, np.tanh, precise=True),
        "add": Elementwise(np.add, np.add, np.add, np.logical_or),
        "subtract": Elementwise(np.subtract, np.subtract, np.subtract, np.logical_xor),
        "multiply": Elementwise(np.multiply, cm.multiply, np.multiply, np.logical_and),
        "divide": Elementwise(np.divide, cm.divide, im.divide),
        "remainder": Elementwise(np.fmod, None, im.remainder),
        "maximum": Elementwise(maximum, None, np.maximum, np.logical_or),
        "minimum": Elementwise(minimum, None, np.minimum, np.logical_and),
        "and": Elementwise(integer=np.bitwise_and, pred=np.logical_and),
        "or": Elementwise(integer=np.bitwise_or, pred=np.logical_or),
        "xor": Elementwise(integer=np.bitwise_xor, pred=np.logical_xor),
        "mulhi": Elementwise(integer=im.multiply_high, bits=True),
        "shift-left": Elementwise(integer=im.shift_left, bits=True),
        "shift-right-arithmetic": Elementwise(integer=im.shift_right_arithmetic, bits=True),
        "shift-right-logical": Elementwise(integer=im.shift_right_logical, bits=True),
        "complex": Elementwise(cm.from_parts, arithmetic=False),
        "atan2": Elementwise(np.arctan2, cm.atan2, precise=True),
        "power": Elementwise(_power, cm.power, im.power, precise=True),
    }
)

# -- compare, select, clamp

_COMPARISONS: Mapping[str, Function] = MappingProxyType(
    {"EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal, "LT": np.less}
)


def _compare(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    a, b = (compact(x) for x in operands)
    if instruction.attributes.type == "TOTALORDER" and type_of(a).is_float:  # type: ignore[attr-defined]
        a, b = ordered_bits(a), ordered_bits(b)
    else:
        a, b = interpreter.flush(widen(a)), interpreter.flush(widen(b))
    result = np.asarray(_COMPARISONS[instruction.attributes_as(at.CompareAttributes).direction](a, b))
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    return result if result.shape == shape else np.broadcast_to(result, shape)


def _select(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    return np.asarray(np.where(*operands))


def _clamp(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    low, x, high = operands
    dtype = instruction.shape.dtype
    if dtype.kind == "c":  # by real parts, as in XLA's CPU code: complex numbers have no order
        raised = np.where(np.real(low) >= np.real(x), low, x)
        return np.where(np.real(raised) <= np.real(high), raised, high)
    return apply(interpreter, "minimum", dtype, apply(interpreter, "maximum", dtype, low, x), high)


def _copy(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Any]) -> Any:
    return operands[0]


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        **{opcode: _evaluator(opcode, row) for opcode, row in TABLE.items()},
        "compare": _compare,
        "select": _select,
        "clamp": _clamp,
        "copy": _copy,
    }
)
