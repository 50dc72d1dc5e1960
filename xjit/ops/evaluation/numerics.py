"""Number formats of the evaluator: the type an operation computes in, flushing, wrapping, ordering.

XLA:CPU computes the narrow floats (bf16, f16, f8, f4) in f32 and rounds after every instruction, and runs with
subnormals flushed; sub-byte integers compute in bytes and wrap. Everything here is elementwise on NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import BY_DTYPE, PrimitiveType
from xjit.hlo.types.shape import Shape

Array = np.ndarray[Any, Any]
Value = Any
"""An `Array`, a tuple of values, or None for a token."""

_UNSIGNED = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_SIGNED = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
TINY = {np.dtype(np.float32): np.float32(2.0**-126), np.dtype(np.float64): np.float64(2.0**-1022)}


def type_of(x: Array) -> PrimitiveType:
    """Returns the element type of an array."""
    return BY_DTYPE[x.dtype]


def _compute_type(kind: PrimitiveType) -> np.dtype:
    if kind.is_float and kind.bit_width < 32:
        return np.dtype(np.float32)
    if kind.is_integer and kind.bit_width < 8:
        return np.dtype(np.int8 if kind.is_signed else np.uint8)
    return kind.dtype


_COMPUTE: dict[np.dtype, np.dtype] = {t.dtype: _compute_type(t) for t in BY_DTYPE.values()}


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """Returns the dtype that arithmetic on `dtype` is done in: f32 for narrow floats, bytes for sub-byte integers."""
    return _COMPUTE[dtype]


def widen(x: Array) -> Array:
    """Returns `x` in its compute dtype (no copy where that is its own)."""
    return x.astype(_COMPUTE[x.dtype], copy=False)


def wrap(x: Array, kind: PrimitiveType) -> Array:
    """Returns integers modulo 2^bits of `kind`, in the dtype of `kind`."""
    if kind.bit_width >= 8:
        return x.astype(kind.dtype, copy=False)
    bits, base = kind.bit_width, widen(np.zeros((), kind.dtype)).dtype
    low = np.asarray(x.astype(np.uint8) & np.uint8((1 << bits) - 1))
    if kind.is_signed:
        sign = np.uint8(1 << (bits - 1))
        low = np.asarray((low ^ sign) - sign)
    return low.view(base).astype(kind.dtype)


def narrow(x: Array, dtype: np.dtype) -> Array:
    """Returns a result in the element type of an instruction: rounds narrow floats, wraps sub-byte integers."""
    if x.dtype == dtype:
        return x
    kind = BY_DTYPE[dtype]
    if kind.is_integer and kind.bit_width < 8:
        return wrap(x, kind)
    return x.astype(dtype)


def flush(x: Array) -> Array:
    """Returns f32, f64 or complex values with subnormals replaced by zeros of their sign; other types as they are."""
    if x.dtype.kind == "c":
        parts = np.ascontiguousarray(x).view(np.real(x).dtype)
        return flush(parts).view(x.dtype).reshape(x.shape)
    tiny = TINY.get(x.dtype)
    if tiny is None or not _has_subnormals(x):
        return x
    return np.asarray(np.where(np.abs(x) < tiny, np.copysign(x.dtype.type(0), x), x))


_BLOCK = 1 << 15  # elements that stay in the cache


def _has_subnormals(x: Array) -> bool:
    """Whether any f32 or f64 element is subnormal: exponent bits zero, but not all bits below the sign."""
    flat = x.ravel(order="K")
    bits = flat.view(_UNSIGNED[x.dtype.itemsize])
    one = bits.dtype.type(1)
    limit = bits.dtype.type((1 << (24 if x.dtype.itemsize == 4 else 53)) - 1)
    scratch = np.empty(min(_BLOCK, bits.size), bits.dtype)
    for begin in range(0, bits.size, _BLOCK):
        block = bits[begin : begin + _BLOCK]
        work = scratch[: block.size]
        np.left_shift(block, one, out=work)  # drops the sign
        np.subtract(work, one, out=work)  # zero becomes the largest value
        if int(work.min()) < limit:
            return True
    return False


def compact(x: Array) -> Array:
    """Returns `x` with broadcast (stride zero) dimensions cut to size one, so that work is done once per value."""
    if 0 not in x.strides or x.size == 0:
        return x
    return x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.strides)]


def ordered_bits(x: Array) -> Array:
    """Returns signed integers that order floats totally: -NaN < -Inf < .. < -0 < +0 < .. < +Inf < +NaN.

    The only NaN of the fnuz types, written as -0 would be, is the smallest.
    """
    bits = np.asarray(x).view(_SIGNED[x.dtype.itemsize])
    kind = type_of(x)
    if kind.text.endswith("fnuz"):
        ordered = np.where(bits < 0, bits ^ np.int8(127), bits).astype(np.int16)
        return np.where(bits == -128, np.int16(-129), ordered)
    if kind is PrimitiveType.F8E8M0FNU:  # has no sign
        return bits.view(np.uint8).astype(np.int16)
    if kind.bit_width < 8:  # the value sits in the low bits of its byte
        bits = (bits << np.int8(8 - kind.bit_width)).astype(np.int8)
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def unsigned_dtype(dtype: np.dtype) -> np.dtype:
    """Returns the unsigned dtype of the same width in memory."""
    return _UNSIGNED[dtype.itemsize]


def int_bounds(kind: PrimitiveType) -> tuple[int, int]:
    """Returns the smallest and largest value of an integer type."""
    if kind.is_signed:
        return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1
    return 0, (1 << kind.bit_width) - 1


def saturate(x: Array, kind: PrimitiveType) -> Array:
    """Converts f32 or f64 to an integer type: toward zero, clamped to its range, NaN to 0."""
    low, high = int_bounds(kind)
    with np.errstate(all="ignore"):
        inside = np.where(np.isfinite(x), x, 0).astype(np.float64)
        inside = np.trunc(inside)
        above, below = inside > high, inside < low
        if high >= 2**53:  # `high` rounds up as a float: everything from 2^bits on is above
            above = inside >= float(high + 1)
        result = np.where(above | below, 0, inside).astype(np.uint64 if kind.is_unsigned else np.int64)
    result = np.where(above | (x == np.inf), high, result)
    result = np.where(below | (x == -np.inf), low, result)
    return wrap(np.asarray(result.astype(np.uint64 if kind.is_unsigned else np.int64)), kind)


def zeros(shape: Shape) -> Value:
    """Returns the zero value of a shape: zero arrays, tuples of them, None for tokens."""
    if shape.is_tuple:
        return tuple(zeros(s) for s in shape.tuple_shapes)
    return np.zeros(shape.dimensions, shape.dtype) if shape.is_array else None


def accumulator_dtype(dtype: np.dtype) -> np.dtype:
    """Returns the dtype in which sums of `dtype` are accumulated: f64 for real floats, c128 for complex."""
    kind = BY_DTYPE[dtype]
    if kind.is_float:
        return np.dtype(np.float64)
    if kind.is_complex:
        return np.dtype(np.complex128)
    return compute_dtype(dtype)


def concrete_int(x: Array) -> int:
    """Returns the Python integer in an array of one element."""
    return int(widen(np.asarray(x)).reshape(-1)[0])


def unsupported(what: str) -> Unsupported:
    """Returns the error for valid HLO that the evaluator does not implement."""
    return Unsupported(f"the reference evaluator does not support {what}")
