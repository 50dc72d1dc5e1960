"""A sort's keys as unsigned integers, whose ascending order is the comparator's.

Then sorting needs no floating-point comparisons and no comparator calls.
"""

from __future__ import annotations

from xjit.emitters.elemental import ComplexValue, RegisterValue, load_convert, storage_type
from xjit.emitters.nested import IrEmitterNested
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.conversions import constant_register
from xjit.llvm.types import I32, I64, LLVMType, int_type
from xjit.llvm.values import Value, const_int, constant
from xjit.ops.sort_keys import KeyOrder


def emit_key(builder: IRBuilder, nested: IrEmitterNested, order: KeyOrder, value: RegisterValue) -> Value:
    """Emits the unsigned key (i32 or i64) of a value of the operand that holds the keys."""
    key = value
    if order.key.opcode != "parameter":
        arguments = [
            value if p == order.parameter else constant_register(i.shape.element_type, 0)
            for p, i in enumerate(order.comparator.parameter_instructions)
        ]
        key = nested.inline(builder, order.comparator, arguments, root=order.key)[0]
    assert isinstance(key, Value)
    return unsigned_key(builder, key, order.kind, order.total, order.descending)


def unsigned_key(builder: IRBuilder, value: Value, kind: PrimitiveType, total: bool, descending: bool) -> Value:
    """Emits the unsigned integer (i32, or i64 for 64-bit types; per lane for a vector) that orders like the value."""
    if kind.is_float:
        bits = _float_key(builder, value, total)
    else:
        wide: LLVMType = I64 if kind.bit_width == 64 else I32
        if kind.is_signed:
            bits = builder.sext(value, wide) if value.type.elem is not wide else value
            bits = builder.xor(bits, const_int(bits.type, 1 << (wide.bits - 1)))
        else:
            bits = builder.zext(value, wide) if value.type.elem is not wide else value
    return builder.not_(bits) if descending else bits


def _float_key(builder: IRBuilder, value: Value, total: bool) -> Value:
    size = value.type.elem.bits
    integer = value.type.with_elem(int_type(size))
    sign = const_int(integer, 1 << (size - 1))
    if not total:
        zero = constant(value.type, 0.0)
        value = builder.select(builder.fcmp_ordered("==", value, zero), zero, value)
    bits = builder.bitcast(value, integer)
    negative = builder.ashr(bits, const_int(integer, size - 1))
    key = builder.xor(bits, builder.or_(negative, sign))
    if not total:
        key = builder.select(builder.fcmp_unordered("uno", value, value), const_int(integer, -1), key)
    return key


def from_raw(builder: IRBuilder, kind: PrimitiveType, bits: Value) -> RegisterValue:
    """Emits the register value of an element's bits in memory."""
    part = storage_type(kind.component)
    if kind.is_complex:
        integer = int_type(part.bits)
        low = builder.trunc(bits, integer)
        high = builder.trunc(builder.lshr(bits, const_int(bits.type, part.bits)), integer)
        return ComplexValue(builder.bitcast(low, part), builder.bitcast(high, part))
    return load_convert(builder, kind, builder.bitcast(bits, part))
