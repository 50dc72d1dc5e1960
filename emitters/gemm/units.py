"""Which instructions form the products of a multiplication, and how operands are packed for them.

A *lane* is one element of the register tile's vectors as the kernels see it. Multiply-adds have lanes of one element of
k; the other units sum the products of `group` consecutive elements of k, which fill the 32 bits of a lane. So for
everything but packing and that one instruction, k is counted in lanes, and the loops are those of multiply-adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from xjit.emitters.gemm.storage import BIASED, UNSIGNED
from xjit.llvm.target import Target
from xjit.llvm.types import I8, I16, I32, LLVMType

SMALL_INTEGERS = (I8, UNSIGNED, I16)
"""Storage types whose products PAIRS forms: those of any two are exact in 32 bits."""


class Unit(Enum):
    """The instruction that forms products. The value is part of the names of functions."""

    FMA = "fma"  # one multiply-add per element, of the compute type
    PAIRS = "pairs"  # pmaddwd: two products of 16-bit integers
    BYTES = "bytes"  # vpdpbusd: four products of an unsigned and a signed byte


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The lanes of a unit: elements of k in each, the type that an operand's elements are packed as, that of sums."""

    group: int
    lhs: LLVMType
    rhs: LLVMType
    sums: LLVMType


def lane_facts(unit: Unit, lhs: LLVMType, compute: LLVMType) -> LaneFacts:
    """The lanes of `unit` for a left operand stored as `lhs`; `compute` is what multiply-adds sum in.

    The left operand of BYTES is unsigned: signed ones get 128 added, and what is too much is a sum over the right
    operand alone, which kernels subtract (`is_biased`).
    """
    if unit is Unit.PAIRS:
        return LaneFacts(2, I16, I16, I32)
    if unit is Unit.BYTES:
        return LaneFacts(4, BIASED if lhs is I8 else UNSIGNED, I8, I32)
    return LaneFacts(1, compute, compute, compute)


def is_biased(unit: Unit, lhs: LLVMType) -> bool:
    """Whether the packed left operand is 128 above the stored one."""
    return unit is Unit.BYTES and lhs is I8


def best_unit(target: Target, lhs: LLVMType, rhs: LLVMType, out: LLVMType) -> Unit:
    """The unit of a target that forms products of those types fastest. Sums of integers wrap to 32 bits, so `out` must
    not be wider.
    """
    if out.bits > 32 or lhs not in SMALL_INTEGERS or rhs not in SMALL_INTEGERS or not target.triple.startswith("x86"):
        return Unit.FMA
    if lhs is not I16 and rhs is I8 and has_byte_dots(target):
        return Unit.BYTES
    return Unit.PAIRS


def has_byte_dots(target: Target) -> bool:
    """Whether vpdpbusd takes the target's vectors."""
    return target.has("avx512vnni" if target.vector_bits >= 512 else "avxvnni")
