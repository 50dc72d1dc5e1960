"""Facts about the types that multiplications read and write: their sizes, their masks, how they lie in memory."""

from __future__ import annotations

from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.target import Target
from xjit.llvm.types import BFLOAT, FLOAT, HALF, I8, I16, LLVMType, vector

ROUNDED = {type: LLVMType("float", f"f32_as_{type.mangled}", "float", 32, is_float=True) for type in (BFLOAT, HALF)}
"""Storage types of f32 numbers that are rounded to a narrower type when they are read."""
ROUNDED_TO = {storage: type for type, storage in ROUNDED.items()}
"""Of those, the narrower type."""
UNSIGNED = LLVMType("i8", "u8", "int", 8, is_int=True)
"""The storage type of unsigned bytes; plain integer types are signed."""
FLOAT8 = {
    kind: LLVMType("i8", kind.name.lower(), "float", 8, is_float=True)
    for kind in PrimitiveType
    if kind.is_float and kind.bit_width == 8 and kind is not PrimitiveType.F8E8M0FNU
}
"""Storage types of 8-bit floats. bf16 holds all their numbers, as normal ones."""
FLOAT8_KINDS = {storage: kind for kind, storage in FLOAT8.items()}
"""Of those, the element type."""
BIASED = LLVMType("i8", "u8_of_s8", "int", 8, is_int=True)
"""As what signed bytes are packed for instructions that take unsigned ones: with 128 added."""


NUM_PLANES = {FLOAT: 3, HALF: 2, BFLOAT: 1}
"""bf16 numbers whose sum is a stored one, as they have 8 bits each of its 24, 11 or 8: the one next to it, the one next
to what that leaves, and so on.
"""


def plain_type(storage: LLVMType) -> LLVMType:
    """The type of a register that a stored element fills."""
    return I8 if storage in (UNSIGNED, BIASED) or storage in FLOAT8_KINDS else storage


def has_native_masks(target: Target, elem: LLVMType) -> bool:
    """Whether masked loads and stores of `elem` are single instructions."""
    if target.vector_bits >= 512:
        return True
    return target.has_masked_ops and elem.bits >= 32 and target.vector_bits >= 256


def size_of(elem: LLVMType) -> int:
    """Bytes of one element."""
    return elem.bits // 8


def memory_type(storage: LLVMType, width: int) -> LLVMType:
    """The type of `width` elements in memory: bf16 as 16-bit integers."""
    if storage in ROUNDED_TO:
        return vector(FLOAT, width)
    return vector(I16 if storage is BFLOAT else plain_type(storage), width)
