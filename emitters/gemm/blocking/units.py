"""Which instructions form the products of a multiplication, and how operands are packed for them.

A *lane* is one element of the register tile's vectors as the kernels see it. Multiply-adds have lanes of one element of
k; the other units sum the products of `group` consecutive elements of k, which fill the 32 bits of a lane. So for
everything but packing and that one instruction, k is counted in lanes, and the loops are those of multiply-adds.
Matrix units (AMX) take 16 rows and columns and 16 lanes of k at once: panels are filled up with lanes of zeros. They
multiply floats with more bits than bf16 as sums of bf16 planes (`plane_products`).
"""

from __future__ import annotations

from enum import Enum

from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.storage import BIASED, FLOAT8_KINDS, NUM_PLANES, ROUNDED, UNSIGNED
from xjit.llvm.target import Target
from xjit.llvm.types import BFLOAT, FLOAT, I8, I16, I32, LLVMType

BYTES = (I8, UNSIGNED)
SMALL_INTEGERS = (*BYTES, I16)
"""Storage types whose products PAIRS forms: those of any two are exact in 32 bits."""
BF16_STORAGE = (BFLOAT, ROUNDED[BFLOAT], I8, *FLOAT8_KINDS)
"""Storage types of factors of a float product that bf16 holds exactly, or that are to be rounded to it."""
MAX_ORDER = 2
"""Products of planes p and q count where p + q is no more."""
TILE_LANES = 16
"""Lanes of k, rows and columns of a hardware tile."""


class Unit(Enum):
    """The instruction that forms products. The value is part of the names of functions."""

    FMA = "fma"  # one multiply-add per element, of the compute type
    PAIRS = "pairs"  # pmaddwd: two products of 16-bit integers
    BYTES = "bytes"  # vpdpbusd: four products of an unsigned and a signed byte
    BF16 = "bf16"  # vdpbf16ps: two products of bf16, added to an f32 one after the other
    BYTE_TILES = "byte_tiles"  # tdpb[su][su]d
    BF16_TILES = "bf16_tiles"  # tdpbf16ps
    BF16_PLANES = "bf16_planes"  # tdpbf16ps, a product for each two planes of the operands

    @property
    def is_tiles(self) -> bool:
        """Whether it is a matrix unit."""
        return self in (Unit.BYTE_TILES, Unit.BF16_TILES, Unit.BF16_PLANES)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The lanes of a unit: elements of k in each, the type that an operand's elements are packed as, that of sums."""

    group: int
    lhs: LLVMType
    rhs: LLVMType
    sums: LLVMType


def lane_facts(unit: Unit, lhs: LLVMType, rhs: LLVMType, compute: LLVMType) -> LaneFacts:
    """The lanes of `unit` for operands stored as `lhs` and `rhs`; `compute` is what multiply-adds sum in.

    The left operand of BYTES is unsigned: signed ones get 128 added, and what is too much is a sum over the right
    operand alone, which kernels subtract (`is_biased`).
    """
    facts = {
        Unit.FMA: LaneFacts(1, compute, compute, compute),
        Unit.PAIRS: LaneFacts(2, I16, I16, I32),
        Unit.BYTES: LaneFacts(4, BIASED if lhs is I8 else UNSIGNED, I8, I32),
        Unit.BF16: LaneFacts(2, BFLOAT, BFLOAT, FLOAT),
        Unit.BYTE_TILES: LaneFacts(4, lhs, rhs, I32),
        Unit.BF16_TILES: LaneFacts(2, BFLOAT, BFLOAT, FLOAT),
        Unit.BF16_PLANES: LaneFacts(2, BFLOAT, BFLOAT, FLOAT),
    }
    return facts[unit]


def is_biased(unit: Unit, lhs: LLVMType) -> bool:
    """Whether the packed left operand is 128 above the stored one."""
    return unit is Unit.BYTES and lhs is I8


def num_planes(unit: Unit, storage: LLVMType) -> int:
    """How many planes of an operand are packed, one behind the other."""
    return NUM_PLANES[storage] if unit is Unit.BF16_PLANES else 1


def plane_products(lhs_planes: int, rhs_planes: int) -> list[tuple[int, int]]:
    """The products of planes that are summed, in order: the small ones first, so that the large one's sum is rounded
    as rarely as can be.

    Plane p is at most 2^-8p of its number's power of two, so what is left out is at most 2^-24 of a product for each
    pair: of two f32 there remain six of nine (x6 in the names of XLA's algorithms). Those of two f16, and of bf16 with
    anything, are complete.
    """
    pairs = [(i, j) for i in range(lhs_planes) for j in range(rhs_planes) if i + j <= MAX_ORDER]
    return sorted(pairs, key=sum, reverse=True)


def panel_rows(unit: Unit, lhs: LLVMType, size: int) -> int:
    """Rows of a packed panel for `size` lanes of k: with one of corrections, or filled up with zeros."""
    return -(-size // TILE_LANES) * TILE_LANES if unit.is_tiles else size + is_biased(unit, lhs)


def best_unit(
    target: Target, lhs: LLVMType, rhs: LLVMType, out: LLVMType, *, tiles: bool, planes: bool = False
) -> Unit:
    """The unit of a target that forms products of those types fastest; `tiles`: a matrix unit would be filled,
    `planes`: so much that it gains by taking floats apart.

    Sums of integers wrap to 32 bits, so `out` must not be wider.
    """
    if out.is_float:
        return _float_unit(target, lhs, rhs, out, tiles=tiles, planes=planes)
    if out.bits > 32 or lhs not in SMALL_INTEGERS or rhs not in SMALL_INTEGERS or not target.triple.startswith("x86"):
        return Unit.FMA
    if tiles and lhs in BYTES and rhs in BYTES and target.offers("amx-int8"):
        return Unit.BYTE_TILES
    if lhs in BYTES and rhs is I8 and target.has("avx512vnni" if target.vector_bits >= 512 else "avxvnni"):
        return Unit.BYTES
    return Unit.PAIRS


def _float_unit(target: Target, lhs: LLVMType, rhs: LLVMType, out: LLVMType, *, tiles: bool, planes: bool) -> Unit:
    """Products of bf16 are exact in f32, and every unit sums them there. Others are multiplied whole or in planes."""
    if out.bits > 32 or target.vector_bits < 512:
        return Unit.FMA
    if lhs not in BF16_STORAGE or rhs not in BF16_STORAGE:
        splits = planes and target.bf16_planes and lhs in NUM_PLANES and rhs in NUM_PLANES
        return Unit.BF16_PLANES if splits and target.offers("amx-bf16") else Unit.FMA
    if tiles and target.offers("amx-bf16"):
        return Unit.BF16_TILES
    return Unit.BF16 if target.offers("avx512bf16") else Unit.FMA
