"""Conversions of a dot's operands become part of the dot: weights that are kept in another type are read as they are.

The fusion has the dot at its root and nothing else but conversions. The emitter converts elements where it packs them,
so that the converted array is never in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, PrimitiveType
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.fusion.unit_merging import merge_units

_FLOATS = frozenset((PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32, PrimitiveType.F64))
_CONVERSIONS = {
    PrimitiveType.F32: (PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F64),
    PrimitiveType.BF16: (PrimitiveType.F32, PrimitiveType.F64),
    PrimitiveType.F16: (PrimitiveType.F32, PrimitiveType.F64),
    PrimitiveType.S8: (PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32, PrimitiveType.S32),
    PrimitiveType.U8: (PrimitiveType.S32,),
    PrimitiveType.S16: (PrimitiveType.S32,),
}


@dataclass
class DotOperandFusion(HloModulePass):
    """Fuses conversions between float types, and from small integers, with the dots that use them, if all users are.

    An operand of less than `min_elements` elements is left alone.
    """

    name = "dot-operand-fusion"
    opcodes = frozenset({"dot"})
    min_elements: int = 4096

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses in every sequential computation; True if something was fused."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            for dot in [i for i in computation.instructions if i.opcode == "dot"]:
                converts = [o for o in dot.unique_operands() if self._joins(o)]
                if converts and _has_products(dot) and not has_control_dependencies(dot):
                    merge_units(computation, [*converts, dot], [dot], dot, "kInput", "dot")
                    changed = True
        return changed

    def _joins(self, operand: HloInstruction) -> bool:
        if operand.opcode != "convert" or operand.shape.num_elements < self.min_elements:
            return False
        source = operand.operand(0).shape
        is_factor = all(user.opcode == "dot" and _has_products(user) for user in operand.users)
        possible = operand.shape.element_type in _CONVERSIONS.get(source.element_type, ())
        return (
            possible
            and is_factor
            and not operand.is_root()
            and source.layout == operand.shape.layout
            and not has_control_dependencies(operand)
        )


def _has_products(dot: HloInstruction) -> bool:
    """Whether the emitter multiplies those types: floats, or s32 that both operands are converted to."""
    kinds = {i.shape.element_type for i in (*dot.operands, dot)}
    if dot.operand_count != 2:
        return False
    if kinds == {PrimitiveType.S32}:
        return all(operand.opcode == "convert" and _is_small(operand.operand(0)) for operand in dot.operands)
    return kinds <= _FLOATS


def _is_small(source: HloInstruction) -> bool:
    return PrimitiveType.S32 in _CONVERSIONS.get(source.shape.element_type, ())
