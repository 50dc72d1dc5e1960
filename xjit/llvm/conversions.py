"""Registers and storage: what a value of each element type is in a register, in memory, and converted to another type.

In registers: pred is i1; integers are themselves, sub-byte ones i8, sign- or zero-extended; f32 and f64 are
themselves, and all narrower floats are the f32 of equal value, rounded after every operation; a complex number is a
pair of floats. In memory: pred, sub-byte integers, f8 and f4 are i8 (one per byte), f16 and bf16 are i16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm import small_floats
from xjit.llvm.builder import IRBuilder
from xjit.llvm.element_types import register_type, storage_type
from xjit.llvm.math.vec import Vec
from xjit.llvm.types import DOUBLE, I1, I8, I32
from xjit.llvm.values import Value, const_float, const_int

P = PrimitiveType


BASIC_OPCODES = frozenset({"add", "divide", "multiply", "sqrt", "subtract"})
"""What IEEE 754 rounds once: from numbers of p bits, rounding to 2p + 2 bits and then to p changes nothing."""


@dataclass(frozen=True, slots=True)
class ComplexValue:
    """A complex number in registers; both parts have the same type."""

    real: Value
    imag: Value


RegisterValue = Value | ComplexValue


def is_narrow_float(kind: PrimitiveType) -> bool:
    """Whether a float of that type lives in an f32 register."""
    return kind.is_float and kind.bit_width < 32


def constant_register(kind: PrimitiveType, value: Any) -> RegisterValue:
    """A constant (a Python or NumPy number; arrays of one element will do), rounded or wrapped to `kind`."""
    number = value.item() if hasattr(value, "item") else value
    if kind.is_complex:
        part = register_type(kind)
        number = complex(number)
        return ComplexValue(const_float(part, number.real), const_float(part, number.imag))
    if kind is P.PRED:
        return const_int(I1, bool(number))
    if kind.is_integer:
        return const_int(register_type(kind), _wrap_number(int(number), kind))
    number = float(number)
    if is_narrow_float(kind) and not math.isnan(number):
        number = float(kind.dtype.type(number))
    return const_float(register_type(kind), number)


def _wrap_number(value: int, kind: PrimitiveType) -> int:
    value &= (1 << kind.bit_width) - 1
    return value - (1 << kind.bit_width) if kind.is_signed and value >> (kind.bit_width - 1) else value


def load_convert(builder: IRBuilder, kind: PrimitiveType, stored: Value) -> Value:
    """The register value of what was loaded as `storage_type(kind)`."""
    if kind is P.PRED:
        return builder.icmp_signed("!=", stored, const_int(stored.type, 0))
    if kind.is_integer and kind.bit_width < 8:
        return _normalized(Vec(builder, stored), kind).v
    if is_narrow_float(kind):
        return _decoded(kind, Vec(builder, stored)).v
    return stored


def from_low_bits(builder: IRBuilder, kind: PrimitiveType, bits: Value) -> Value:
    """The register value of the low bits of what has the size of `storage_type(kind)`; the others may be anything."""
    stored = builder.bitcast(bits, storage_type(kind))
    if kind.is_float and kind.bit_width < 8:
        stored = builder.and_(stored, const_int(stored.type, (1 << kind.bit_width) - 1))
    return load_convert(builder, kind, stored)


def store_convert(builder: IRBuilder, kind: PrimitiveType, value: Value) -> Value:
    """The value of type `storage_type(kind)` to store. What a register holds was rounded: nothing is lost."""
    if kind is P.PRED:
        return builder.zext(value, I8)
    if kind is P.BF16:
        return small_floats.high_half(Vec(builder, value)).v
    if is_narrow_float(kind):
        known = _stored_bits(Vec(builder, value), kind)
        return (small_floats.encode(kind, Vec(builder, value)) if known is None else known).v
    return value


def _decoded(kind: PrimitiveType, code: Vec) -> Vec:
    """A narrow float in its register, whose bits in memory are known from now on."""
    value = small_floats.decode(kind, code)
    value.b.function.stored_bits.setdefault(value.v.text, {})[kind] = code.v
    return value


def _stored_bits(x: Vec, kind: PrimitiveType) -> Vec | None:
    """The bits of a register value in memory, if it was loaded as that type or rounded to it; else None."""
    code = x.b.function.stored_bits.get(x.v.text, {}).get(kind)
    return None if code is None else Vec(x.b, code)


def _normalized(x: Vec, kind: PrimitiveType) -> Vec:
    spare = 8 - kind.bit_width
    return (x << spare).sar(spare) if kind.is_signed else x & ((1 << kind.bit_width) - 1)


def round_part(kind: PrimitiveType, x: Vec, *, operands_fit: bool = False, is_basic: bool = False) -> Vec:
    """The result of arithmetic in the register type, rounded (narrow floats) or wrapped (sub-byte integers) to
    `kind`. `operands_fit`: it was computed from numbers of `kind` alone. `is_basic`: by one of `BASIC_OPCODES`.
    """
    if kind is P.BF16 and operands_fit and x.b.target.keeps_nan_payloads:
        return small_floats.round_arithmetic_to_bf16(x)
    if kind is P.BF16:
        return small_floats.round_to_bf16(x)
    if operands_fit and is_basic and small_floats.rounds_through_f16(kind, x.b.target):
        return _decoded(kind, small_floats.encode_through_f16(kind, x))
    if is_narrow_float(kind):
        return _decoded(kind, small_floats.encode(kind, x))
    if kind.is_integer and kind.bit_width < 8:
        return _normalized(x, kind)
    return x


def convert_part(x: Vec, source: PrimitiveType, target: PrimitiveType) -> Vec:
    """Converts a real value: floats to integers saturate, integers wrap, NaN is 0 as an integer and true as a pred."""
    if source is target:
        return x
    if target is P.PRED:
        return x.ne(0.0 if source.is_float else 0)
    if target.is_integer:
        return float_to_integer(x, target) if source.is_float else _integer_to_integer(x, source, target)
    return _to_float(x, source, target)


def _integer_to_integer(x: Vec, source: PrimitiveType, target: PrimitiveType) -> Vec:
    elem = register_type(target)
    if elem.bits > x.type.elem.bits:
        x = x.sext(elem) if source.is_signed else x.zext(elem)
    elif elem.bits < x.type.elem.bits:
        x = x.trunc(elem)
    return round_part(target, x)


def _to_float(x: Vec, source: PrimitiveType, target: PrimitiveType) -> Vec:
    elem = register_type(target)
    b = x.b
    if source.is_float:
        if elem is not x.type.elem:
            x = x.to_double() if elem is DOUBLE else x.to_float()
        if small_floats.has_all_of(target, source):
            return x
        if source is P.BF16 and small_floats.rounds_through_f16(target, b.target):
            return _decoded(target, small_floats.encode_through_f16(target, x))
        code = _stored_bits(x, source) if small_floats.is_shortened(target, source) else None
        return round_part(target, x) if code is None else _decoded(target, small_floats.shorten(target, source, code))
    if x.type.elem.bits < 32:
        x = x.sext(I32) if source.is_signed else x.zext(I32)
        return round_part(target, x.sitofp(elem))
    return round_part(target, Vec(b, (b.sitofp if source.is_signed else b.uitofp)(x.v, elem)))


def float_to_integer(x: Vec, target: PrimitiveType) -> Vec:
    """Towards zero, clamped to the range of the type, NaN to 0."""
    b, bits = x.b, target.bit_width
    low = -(1 << (bits - 1)) if target.is_signed else 0
    high = (1 << (bits - 1)) - 1 if target.is_signed else (1 << bits) - 1
    register = register_type(target)
    result_type = x.type.with_elem(register)
    limit = float(high + 1)  # a power of two: exact
    above = x >= limit
    inside = x.const(0.0).where(above, x.const(0.0).where(x.is_nan(), x))
    inside = x.const(float(low)).where(inside < float(low), inside)
    if bits < 32:
        result = Vec(b, b.trunc(b.fptosi(inside.v, I32), register))
    else:
        result = Vec(b, (b.fptosi if target.is_signed else b.fptoui)(inside.v, register))
    return Vec(b, const_int(result_type, high)).where(above, result)


def bitcast_part(x: Vec, source: PrimitiveType, target: PrimitiveType) -> Vec:
    """The bits of one type as another of the same width."""
    return Vec(x.b, from_low_bits(x.b, target, store_convert(x.b, source, x.v)))
