"""Loads and stores that convert between storage types (floats, signed integers) and the type that is computed in.

Invariants: widening is exact; narrowing rounds once, to nearest even, or wraps to a narrower integer; NaNs stay NaNs.
Masked forms are used only
where the target has them as instructions (`has_native_masks`).
"""

from __future__ import annotations

from xjit.emitters.gemm.blocking.storage import (
    BIASED,
    FLOAT8_KINDS,
    NUM_PLANES,
    ROUNDED_TO,
    UNSIGNED,
    memory_type,
    plain_type,
    size_of,
)
from xjit.llvm import IRBuilder, LLVMType, Value, small_floats
from xjit.llvm.math.vec import Vec
from xjit.llvm.types import BFLOAT, FLOAT, I1, I16, I32, I64, vector
from xjit.llvm.values import const_int, zero


def lane_mask(builder: IRBuilder, lanes: Value, width: int) -> Value:
    """The mask whose first `lanes` (i64) bits are set; all of them if `lanes >= width`."""
    limit = builder.trunc(
        builder.select(builder.icmp_signed("<", lanes, const_int(I64, width)), lanes, const_int(I64, width)), I32
    )
    iota = builder.vector_iota(vector(I32, width))
    return builder.icmp_unsigned("<", iota, builder.splat(limit, width))


def load_as(
    builder: IRBuilder, compute: LLVMType, storage: LLVMType, ptr: Value, width: int, mask: Value | None = None
) -> Value:
    """Loads `width` elements of `storage` and widens them to `compute`; masked-off lanes are zero."""
    memory = memory_type(storage, width)
    if mask is None:
        value = builder.load(memory, ptr, size_of(storage))
    else:
        value = builder.masked_load(memory, ptr, mask, size_of(storage), zero(memory))
    return widen(builder, value, storage, compute)


def widen(builder: IRBuilder, value: Value, storage: LLVMType, compute: LLVMType) -> Value:
    """What was loaded as `memory_type(storage, ...)`, as `compute`."""
    if storage in ROUNDED_TO:
        narrow = ROUNDED_TO[storage]
        return widen(builder, convert(builder, value, narrow), narrow, compute)
    if storage in FLOAT8_KINDS:
        value, storage = small_floats.decode(FLOAT8_KINDS[storage], Vec(builder, value)).v, FLOAT
    if storage is BFLOAT:
        wide = builder.shl(builder.zext(value, I32), const_int(vector(I32, value.type.width), 16))
        value = builder.bitcast(wide, FLOAT)
        storage = FLOAT
    if storage is compute:
        return value
    if storage.is_float:
        return builder.fpext(value, compute)
    if compute.is_float:
        return builder.sitofp(builder.zext(value, I32) if storage is UNSIGNED else value, compute)
    if storage is UNSIGNED:
        return builder.zext(value, compute)
    return value if value.type.elem is compute else builder.sext(value, compute)


def packed_bits(builder: IRBuilder, value: Value, storage: LLVMType, packed: LLVMType) -> Value:
    """What was loaded as `memory_type(storage, ...)`, as the bits of `packed` elements: integers of their size."""
    if storage is packed or (packed.is_int and plain_type(packed) is plain_type(storage)):
        return builder.xor(value, const_int(value.type, -128)) if packed is BIASED else value
    if packed is BFLOAT:
        if storage in ROUNDED_TO:
            return _round_to_bfloat(builder, value)
        bits = builder.bitcast(widen(builder, value, storage, FLOAT), I32)  # of 8 bits: exact
        return builder.trunc(builder.lshr(bits, const_int(bits.type, 16)), I16)
    if packed.is_int:
        return (builder.zext if storage is UNSIGNED else builder.sext)(value, packed)
    raise TypeError(f"{storage} is not packed as {packed}")


def plane_bits(builder: IRBuilder, value: Value, storage: LLVMType) -> list[Value]:
    """What was loaded as `memory_type(storage, ...)`, as the bits of its bf16 planes (`NUM_PLANES`).

    They are rounded to nearest, ties away from zero. What a rounded number leaves is half of an ulp of 8 bits at most,
    so each subtraction is exact. No number may overflow, or have a plane that is subnormal.
    """
    rest = widen(builder, value, storage, FLOAT)
    type = vector(I32, rest.type.width)
    planes: list[Value] = []
    while True:
        rounded = builder.add(builder.bitcast(rest, I32), const_int(type, 0x8000))
        planes.append(builder.trunc(builder.lshr(rounded, const_int(type, 16)), I16))
        if len(planes) == NUM_PLANES[storage]:
            return planes
        nearest = builder.and_(rounded, const_int(type, -0x10000))
        rest = builder.fsub(rest, builder.bitcast(nearest, FLOAT))


def store_as(builder: IRBuilder, value: Value, storage: LLVMType, ptr: Value, mask: Value | None = None) -> None:
    """Rounds `value` to `storage` and stores it."""
    converted = convert(builder, value, storage)
    if mask is None:
        builder.store(converted, ptr, size_of(storage))
    else:
        builder.masked_store(converted, ptr, mask, size_of(storage))


def convert(builder: IRBuilder, value: Value, storage: LLVMType) -> Value:
    """`value` as `storage` keeps it in memory: bf16 as 16-bit integers."""
    if value.type.elem is storage:
        return value
    if storage is BFLOAT:
        return _round_to_bfloat(builder, value)
    if storage in FLOAT8_KINDS:
        return small_floats.encode(FLOAT8_KINDS[storage], Vec(builder, value)).v
    if storage.is_int:
        return _wrap(builder, value if value.type.is_int else builder.fptosi(value, I32), storage)
    return builder.fptrunc(value, storage) if storage.bits < value.type.elem.bits else builder.fpext(value, storage)


def _wrap(builder: IRBuilder, value: Value, storage: LLVMType) -> Value:
    if value.type.elem.bits == storage.bits:
        return value
    return builder.trunc(value, storage) if storage.bits < value.type.elem.bits else builder.sext(value, storage)


def _round_to_bfloat(builder: IRBuilder, value: Value) -> Value:
    if value.type.elem is not FLOAT:
        raise TypeError(f"bf16 results are rounded from f32, not from {value.type.elem}")
    type = vector(I32, value.type.width)
    bits = builder.bitcast(value, I32)
    high = builder.lshr(bits, const_int(type, 16))
    bias = builder.add(builder.and_(high, const_int(type, 1)), const_int(type, 0x7FFF))
    rounded = builder.lshr(builder.add(bits, bias), const_int(type, 16))
    quiet = builder.or_(high, const_int(type, 0x40))
    is_nan = builder.fcmp_unordered("uno", value, value)
    assert is_nan.type.elem is I1
    return builder.trunc(builder.select(is_nan, quiet, rounded), I16)
