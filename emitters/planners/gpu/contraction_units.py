"""Which matrix instruction multiplies a contraction's operands, and as which types they are staged for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.gpu_models import GpuModel
from xjit.llvm.matrix_units import MatrixUnit, matrix_unit

P = PrimitiveType

_ROUNDED: Mapping[str, PrimitiveType] = MappingProxyType(
    {"dot_tf32_tf32_f32": P.F32, "dot_bf16_bf16_f32": P.BF16, "dot_f16_f16_f32": P.F16}
)
"""Algorithms that let f32 operands be rounded: to what they are staged as. The unit for f32 rounds to tf32."""

_EXACT = frozenset([P.BF16, P.F16, P.F64, P.S8, P.U8, P.F8E4M3FN, P.F8E5M2])
"""Types whose products a unit makes without rounding an operand. f32 has no such unit."""


def operand_kind(instruction: HloInstruction, operand: int) -> PrimitiveType:
    """Returns the type as which an operand is staged."""
    kind = instruction.operand(operand).shape.element_type
    return _rounded(instruction, kind) or kind


def unit_of(model: GpuModel, instruction: HloInstruction, operands: tuple[int, int]) -> MatrixUnit | None:
    """Returns the unit for a dot or convolution; None if threads are to multiply.

    `operands` are the numbers of those that give rows and columns. A unit sums in f32, f64 or s32, as the instruction
    does; an f32 operand is rounded only where the dot's algorithm says so.
    """
    kinds = [operand_kind(instruction, operand) for operand in operands]
    may_use = all(
        kind in _EXACT or _rounded(instruction, instruction.operand(operand).shape.element_type) is not None
        for kind, operand in zip(kinds, operands, strict=True)
    )
    unit = matrix_unit(model, *kinds) if may_use else None
    if unit is None:
        return None
    result = instruction.shape.element_type
    sums = P.F32 if result.is_float and result.bit_width < 32 else result
    return unit if sums is unit.sums else None


def _rounded(instruction: HloInstruction, kind: PrimitiveType) -> PrimitiveType | None:
    if instruction.opcode != "dot" or kind is not P.F32:
        return None
    return _ROUNDED.get(instruction.attributes_as(at.DotAttributes).algorithm)
