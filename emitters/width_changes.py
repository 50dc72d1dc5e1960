"""bitcast-convert between types of different widths: one wide element is a row of narrow ones, lowest bits first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.affine import constant
from xjit.emitters.access.access_analysis import Index
from xjit.emitters.access.guards import Guard
from xjit.emitters.elemental import RegisterValue, from_low_bits, storage_type, store_convert
from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.types import int_type
from xjit.llvm.values import Value, const_int

if TYPE_CHECKING:
    from xjit.emitters.fused import Element, FusedIrEmitter


def emit_width_change(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> Element:
    """Emits one element of a bitcast-convert whose operand has one dimension more, or one less."""
    source, target = instruction.operand(0).shape, instruction.shape
    if source.element_type.is_complex or target.element_type.is_complex:
        raise Unsupported(
            f"bitcast-convert from {source} to {target}: complex numbers have no such bits", instruction.span
        )
    if source.rank < target.rank:
        return _narrow(fused, instruction, index, guard)
    return _wide(fused, instruction, index, guard)


def _narrow(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> Element:
    """Cuts the piece of number index[-1] out of the wide element."""
    nest = fused.nest
    element = fused.element(instruction.operand(0), index[:-1], guard)
    kind, target = instruction.operand(0).shape.element_type, instruction.shape.element_type
    shift = nest.simplify(index[-1] * target.bit_width)
    depth = max(element[1], nest.depth_of(shift))
    builder = nest.levels[depth].builder
    bits = _bits(builder, kind, element[0])
    if nest.uses_vector(shift):
        amount = nest.lane_values(shift)
        bits = bits if bits.type.is_vector else builder.splat(bits, amount.type.width)
    else:
        amount = nest.index_value(shift)
    amount = _resize(builder, amount, bits.type.elem.bits)
    if bits.type.is_vector and not amount.type.is_vector:
        amount = builder.splat(amount, bits.type.width)
    piece = _resize(builder, builder.lshr(bits, amount), storage_type(target).bits)
    return from_low_bits(builder, target, piece), depth


def _wide(fused: FusedIrEmitter, instruction: HloInstruction, index: Index, guard: Guard) -> Element:
    """Puts the narrow elements of a row together."""
    source, target = instruction.operand(0).shape, instruction.shape.element_type
    kind, count = source.element_type, source.dimensions[-1]
    parts = [fused.element(instruction.operand(0), (*index, constant(i)), guard) for i in range(count)]
    depth = max(d for _, d in parts)
    builder = fused.nest.levels[depth].builder
    total: Value | None = None
    for i, value in enumerate(fused.values_at(depth, parts)):
        bits = _resize(builder, _bits(builder, kind, value), storage_type(target).bits)
        if kind.bit_width < 8:
            bits = builder.and_(bits, const_int(bits.type, (1 << kind.bit_width) - 1))
        shifted = builder.shl(bits, const_int(bits.type, i * kind.bit_width))
        total = shifted if total is None else builder.or_(total, shifted)
    assert total is not None
    return from_low_bits(builder, target, total), depth


def _bits(builder: IRBuilder, kind: PrimitiveType, value: RegisterValue) -> Value:
    """The bits of an element in memory as an integer."""
    assert isinstance(value, Value)
    stored = store_convert(builder, kind, value)
    return builder.bitcast(stored, int_type(stored.type.elem.bits))


def _resize(builder: IRBuilder, value: Value, bits: int) -> Value:
    have = value.type.elem.bits
    if have == bits:
        return value
    return builder.trunc(value, int_type(bits)) if have > bits else builder.zext(value, int_type(bits))
