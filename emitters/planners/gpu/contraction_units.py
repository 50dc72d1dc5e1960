"""Which matrix instruction multiplies a contraction's operands, and as which types they are staged for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.element_types import PROMOTED
from xjit.llvm.gpu_models import GpuModel
from xjit.llvm.matrix_units import MatrixUnit, matrix_unit

P = PrimitiveType

_ROUNDED: Mapping[str, PrimitiveType] = MappingProxyType(
    {"dot_tf32_tf32_f32": P.F32, "dot_bf16_bf16_f32": P.BF16, "dot_f16_f16_f32": P.F16}
)
"""Algorithms that let f32 operands be rounded: to what they are staged as. The unit for f32 rounds to tf32."""

_EXACT = frozenset([P.BF16, P.F16, P.F64, P.S8, P.U8, P.F8E4M3FN, P.F8E5M2])
"""Types whose products a unit makes without rounding an operand. f32 has no such unit."""


def unit_of(model: GpuModel, instruction: HloInstruction, operands: tuple[int, int]) -> MatrixUnit | None:
    """Returns the unit for a dot or convolution; None if threads are to multiply.

    `operands` are the numbers of those that give rows and columns. A unit sums in f32, f64 or s32, as the instruction
    does; an f32 operand is rounded only where the dot's algorithm says so.
    """
    own = [instruction.operand(operand).shape.element_type for operand in operands]
    kinds = [_rounded(instruction, kind) or (kind if kind in _EXACT else None) for kind in own]
    if kinds[0] is None or kinds[1] is None:
        return None
    unit = matrix_unit(model, kinds[0], kinds[1])
    result = instruction.shape.element_type
    sums = P.F32 if result.is_float and result.bit_width < 32 else result
    return unit if unit is not None and sums is unit.sums else None


def staged_kinds(
    instruction: HloInstruction, operands: tuple[int, int], unit: MatrixUnit | None
) -> dict[int, PrimitiveType]:
    """Returns the type as which each operand is staged: as its unit takes it, or as threads multiply it."""
    if unit is not None:
        return dict(zip(operands, (unit.lhs, unit.rhs), strict=True))
    own = {operand: instruction.operand(operand).shape.element_type for operand in operands}
    return {operand: PROMOTED.get(kind, kind) for operand, kind in own.items()}


def _rounded(instruction: HloInstruction, kind: PrimitiveType) -> PrimitiveType | None:
    if instruction.opcode != "dot" or kind is not P.F32:
        return None
    return _ROUNDED.get(instruction.attributes_as(at.DotAttributes).algorithm)
