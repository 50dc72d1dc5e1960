"""Conversions of a dot's operands become part of the dot: weights that are kept in another type are read as they are.

The fusion has the dot at its root and nothing else but conversions. The emitter converts elements where it packs them,
so that the converted array is never in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType
from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.edit.replacing import replace
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies

_FLOATS = frozenset((PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32, PrimitiveType.F64))
_CONVERSIONS = {
    PrimitiveType.F32: (PrimitiveType.BF16, PrimitiveType.F16),
    PrimitiveType.BF16: (PrimitiveType.F32,),
    PrimitiveType.F16: (PrimitiveType.F32,),
    PrimitiveType.S8: (PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32),
}


@dataclass
class DotOperandFusion(HloModulePass):
    """Fuses conversions between float types (and from bytes) with the dot that is their only user.

    An operand of less than `min_elements` elements is left alone.
    """

    name = "dot-operand-fusion"
    min_elements: int = 4096

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses in every sequential computation; True if something was fused."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if execution_threads and computation.execution_thread not in execution_threads:
                continue
            for dot in [i for i in computation.instructions if i.opcode == "dot"]:
                converts = {o for o in dot.operands if self._joins(o, dot)}
                if converts and _has_float_types(dot) and not has_control_dependencies(dot):
                    _fuse(computation, dot, converts)
                    changed = True
        return changed

    def _joins(self, operand: HloInstruction, dot: HloInstruction) -> bool:
        if operand.opcode != "convert" or operand.shape.num_elements < self.min_elements:
            return False
        source = operand.operand(0).shape
        alone = all(user is dot for user in operand.users) and not operand.is_root()
        possible = operand.shape.element_type in _CONVERSIONS.get(source.element_type, ())
        return possible and alone and source.layout == operand.shape.layout and not has_control_dependencies(operand)


def _has_float_types(dot: HloInstruction) -> bool:
    kinds = {i.shape.element_type for i in (*dot.operands, dot)}
    return dot.operand_count == 2 and kinds <= _FLOATS


def _fuse(computation: HloComputation, dot: HloInstruction, converts: Collection[HloInstruction]) -> None:
    """Replaces a dot and conversions of its operands by one fusion."""
    module = computation.parent
    assert module is not None
    body = HloComputation("dot_fused_computation")
    outside: dict[HloInstruction, HloInstruction] = {}
    inside: dict[HloInstruction, HloInstruction] = {}
    for operand in dot.operands:
        source = operand.operand(0) if operand in converts else operand
        if source not in outside:
            parameter = HloInstruction.create_parameter(len(outside), source.shape, f"param_{len(outside)}")
            outside[source] = body.add_instruction(parameter)
        value = outside[source]
        if operand in converts and operand not in inside:
            value = body.add_instruction(operand.clone_with_new_operands(operand.shape, [value]))
        inside.setdefault(operand, value)
    root = body.add_instruction(dot.clone_with_new_operands(dot.shape, [inside[o] for o in dot.operands]))
    body.set_root_instruction(root)
    module.add_embedded_computation(body)
    fusion = HloInstruction.create("fusion", dot.shape, list(outside), FusionAttributes("kInput"), [body], "dot_fusion")
    fusion.copy_annotations_from(dot)
    computation.add_instruction(fusion)
    replace(dot, fusion)
