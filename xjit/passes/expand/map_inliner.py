"""A map of elementwise instructions becomes these instructions on arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape, Trait
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

Add = Callable[[HloInstruction], HloInstruction]
"""Adds a free instruction somewhere and returns it."""


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
                if instruction.opcode != "map" or has_control_dependencies(instruction):
                    continue
                if is_elementwise(instruction.to_apply):
                    _inline(instruction)
                    changed = True
        return changed


def is_elementwise(computation: HloComputation) -> bool:
    """Whether a computation on scalars does elementwise arithmetic only."""
    return all(
        i.opcode in ("parameter", "constant")
        or (i.op.has(Trait.ELEMENTWISE) and not i.called_computations and not has_control_dependencies(i))
        for i in computation.instructions
        if not (i.opcode == "tuple" and i.is_root())
    )


def write_on_arrays(
    add: Add, computation: HloComputation, operands: Sequence[HloInstruction], shape: Shape
) -> dict[HloInstruction, HloInstruction]:
    """Adds clones of what a computation on scalars does, on arrays of one shape; returns which array each one is.

    A tuple at the root has none.
    """
    arrays: dict[HloInstruction, HloInstruction] = {}
    for scalar in computation.make_instruction_post_order():
        array = shape.with_element_type(scalar.shape.element_type)
        if scalar.opcode == "parameter":
            arrays[scalar] = operands[scalar.attributes_as(at.ParameterAttributes).parameter_number]
        elif scalar.opcode == "constant":
            arrays[scalar] = _splat(add, scalar, array)
        elif scalar.opcode != "tuple":
            arrays[scalar] = add(scalar.clone_with_new_operands(array, [arrays[o] for o in scalar.operands]))
    return arrays


def _inline(instruction: HloInstruction) -> None:
    into, computation = Expansion(instruction), instruction.to_apply
    arrays = write_on_arrays(into.add, computation, instruction.operands, instruction.shape)
    into.replace_source(arrays[computation.root_instruction])


def _splat(add: Add, scalar: HloInstruction, shape: Shape) -> HloInstruction:
    constant = add(scalar.clone_with_new_operands(scalar.shape, []))
    return add(build.broadcast_scalar(constant, shape)) if shape.rank else constant
