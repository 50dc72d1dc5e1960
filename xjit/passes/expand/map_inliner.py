"""A map of elementwise instructions becomes these instructions on arrays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, Shape, Trait
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion


@dataclass
class MapInliner(HloModulePass):
    """Clones what a map applies, with the map's dimensions: constants and scalars become broadcasts.

    Maps stay whose computation does anything but elementwise arithmetic.
    """

    name = "map-inliner"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Inlines maps; True if there was one."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.instructions:
                if instruction.opcode == "map" and _may_inline(instruction):
                    _inline(instruction)
                    changed = True
        return changed


def _may_inline(instruction: HloInstruction) -> bool:
    return not has_control_dependencies(instruction) and all(
        i.opcode in ("parameter", "constant")
        or (i.op.has(Trait.ELEMENTWISE) and not i.called_computations and not has_control_dependencies(i))
        for i in instruction.to_apply.instructions
    )


def _inline(instruction: HloInstruction) -> None:
    into = Expansion(instruction)
    arrays: dict[HloInstruction, HloInstruction] = {}
    for scalar in instruction.to_apply.make_instruction_post_order():
        shape = instruction.shape.with_element_type(scalar.shape.element_type)
        if scalar.opcode == "parameter":
            arrays[scalar] = instruction.operand(scalar.attributes_as(at.ParameterAttributes).parameter_number)
        elif scalar.opcode == "constant":
            arrays[scalar] = _splat(into, scalar, shape)
        else:
            operands = [arrays[o] for o in scalar.operands]
            arrays[scalar] = into.add(scalar.clone_with_new_operands(shape, operands))
    into.replace_source(arrays[instruction.to_apply.root_instruction])


def _splat(into: Expansion, scalar: HloInstruction, shape: Shape) -> HloInstruction:
    constant = into.add(scalar.clone_with_new_operands(scalar.shape, []))
    return into.add(build.broadcast_scalar(constant, shape)) if shape.rank else constant
