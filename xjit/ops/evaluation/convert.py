"""Conversions between element types: convert, bitcast-convert, reduce-precision, stochastic-convert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import ReducePrecisionAttributes
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.ops.evaluation.numerics import (
    Array,
    compact,
    compute_dtype,
    int_bounds,
    saturate,
    type_of,
    unsigned_dtype,
    unsupported,
    widen,
    wrap,
)
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def convert(interpreter: Interpreter, x: Array, target: PrimitiveType) -> Array:
    """Converts elements: floats to integers saturate, integers wrap, NaN becomes 0, or true as a pred."""
    source = type_of(x)
    if source is target:
        return x
    if source.is_complex and not target.is_complex:
        x, source = np.real(x), source.component
    wide = widen(x)
    if target is PrimitiveType.PRED:
        return np.asarray(widen(interpreter.flush(x)) != 0)
    if target.is_integer:
        if source.is_float:
            return saturate(interpreter.flush(wide), target)
        return wrap(wide.astype(np.uint8) if source is PrimitiveType.PRED else wide, target)
    if target.is_complex and type_of(wide).bit_width == target.component.bit_width:
        return wide.astype(target.dtype)  # the bits of the real part stay
    if target.is_complex:
        return interpreter.flush(interpreter.flush(wide).astype(target.dtype))
    return _to_float(interpreter, wide, target)


def _to_float(interpreter: Interpreter, wide: Array, target: PrimitiveType) -> Array:
    if wide.dtype == np.float64:
        wide = interpreter.flush(wide)
    if target.bit_width == 64:
        return interpreter.flush(wide).astype(target.dtype)
    single = wide.astype(np.float32, copy=False)  # narrow floats are rounded from f32
    if wide.dtype.itemsize == 8:
        single = interpreter.flush(single)
    return np.asarray(single.astype(target.dtype, copy=False))


def _convert(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    x = operands[0]
    result = convert(interpreter, compact(x), instruction.shape.element_type)
    return result if result.shape == x.shape else np.broadcast_to(result, x.shape)


def _to_packed_bytes(x: Array, bits: int) -> Array:
    """Returns the last dimension of sub-byte elements as bytes, lowest bits first."""
    per_byte = 8 // bits
    raw = np.array(x, order="C").view(np.uint8) & ((1 << bits) - 1)
    groups = raw.reshape(*x.shape[:-1], x.shape[-1] // per_byte, per_byte)
    return np.asarray(sum(groups[..., i] << np.uint8(i * bits) for i in range(per_byte))).astype(np.uint8)


def _from_packed_bytes(raw: Array, target: PrimitiveType) -> Array:
    """Returns sub-byte elements, one byte each, from the bytes of the last dimension."""
    bits = target.bit_width
    parts = [(raw >> np.uint8(i * bits)) for i in range(8 // bits)]
    flat = np.stack(parts, axis=-1).reshape(*raw.shape[:-1], -1)
    if target.is_float:
        return (flat & ((1 << bits) - 1)).view(target.dtype)
    return wrap(flat, target)


def bitcast_elements(x: Array, target: PrimitiveType) -> Array:
    """Reinterprets bits. A wider result swallows the last dimension, a narrower one adds one."""
    source = type_of(x)
    if source.bit_width == target.bit_width:
        if source.is_integer and target.is_integer and source.bit_width < 8:
            return wrap(widen(x), target)
        if target.is_float and target.bit_width < 8:  # integers below zero are sign-extended
            x = np.array(x, order="C").view(np.uint8) & ((1 << target.bit_width) - 1)
        elif target.is_integer and target.bit_width < 8:
            return wrap(np.array(x, order="C").view(np.uint8), target)
        return np.asarray(np.array(x, order="C").view(target.dtype)).reshape(x.shape)
    if source.bit_width < target.bit_width:
        raw = _to_packed_bytes(x, source.bit_width) if source.bit_width < 8 else x
        raw = np.array(raw, order="C", ndmin=1)
        return raw.view(target.dtype).reshape(x.shape[:-1])
    column = np.array(x, order="C").reshape(*x.shape, 1)
    if target.bit_width < 8:
        return _from_packed_bytes(column.view(np.uint8), target)
    return column.view(target.dtype)


def _bitcast_convert(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    return bitcast_elements(operands[0], instruction.shape.element_type)


def reduce_precision(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds floats to a format of fewer bits: nearest even, overflow to infinity, underflow to zero, NaN kept."""
    kind = type_of(x)
    have_mantissa = np.finfo(x.dtype).nmant
    have_exponent = kind.bit_width - 1 - have_mantissa
    unsigned = unsigned_dtype(x.dtype)
    raw = np.array(x, order="C").view(unsigned).reshape(x.shape).astype(np.uint64)
    sign_bit = np.uint64(1 << (kind.bit_width - 1))
    sign, raw = raw & sign_bit, raw & (sign_bit - np.uint64(1))
    one = np.uint64(1)
    if (drop := have_mantissa - mantissa_bits) > 0:
        last = (raw >> np.uint64(drop)) & one
        raw = (raw + last + np.uint64((1 << (drop - 1)) - 1)) & ~np.uint64((1 << drop) - 1)
    infinity = np.uint64(((1 << have_exponent) - 1) << have_mantissa)
    if exponent_bits < have_exponent:
        bias, small_bias = (1 << (have_exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = raw >> np.uint64(have_mantissa)
        raw = np.where(exponent > bias + small_bias, infinity, raw)
        raw = np.where(exponent <= bias - small_bias, np.uint64(0), raw)
    result = (sign | raw).astype(unsigned).view(x.dtype).reshape(x.shape)
    return np.where(np.isnan(x), x, result)


def _reduce_precision(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    attributes = instruction.attributes_as(ReducePrecisionAttributes)
    x = operands[0]
    dtype = x.dtype if x.dtype.itemsize == 8 or x.dtype == np.float16 else compute_dtype(x.dtype)
    result = reduce_precision(x.astype(dtype, copy=False), attributes.exponent_bits, attributes.mantissa_bits)
    return result.astype(x.dtype, copy=False)


def _stochastic_convert(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Array:
    """Rounds toward zero, or away with the fraction as its probability: if random < trunc(fraction * 2^bits)."""
    x, random = interpreter.flush(widen(operands[0])).astype(np.float64), operands[1]
    target = instruction.shape.element_type
    if not target.is_integer:
        raise unsupported(f"stochastic-convert to {target.text}")
    size = np.abs(x)
    whole = np.trunc(size)
    away = widen(random).astype(np.uint64) < ((size - whole) * 2.0 ** type_of(random).bit_width).astype(np.uint64)
    rounded = np.copysign(whole + away, x)
    low, _ = int_bounds(target)
    result = saturate(rounded, target)
    return np.where(x <= low, np.asarray(low).astype(target.dtype), result)


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        "convert": _convert,
        "bitcast-convert": _bitcast_convert,
        "reduce-precision": _reduce_precision,
        "stochastic-convert": _stochastic_convert,
    }
)
