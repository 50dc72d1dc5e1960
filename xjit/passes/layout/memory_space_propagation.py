"""Memory spaces of the operands and results of fusions, inside of the fusions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.dataflow import HloDataflowAnalysis
from xjit.passes.analysis.hlo_value import HloValue
from xjit.passes.framework.base import HloModulePass, selected_computations


@dataclass
class MemorySpacePropagation(HloModulePass):
    """Gives the parameters and the root of every fusion the memory spaces of its operands and of its result.

    A space goes on to every place of the same value in the fusion, through tuples, their elements and nested fusions,
    and from a dynamic-update-slice to what it updates. A bitcast makes a value of its own.
    """

    name = "memory-space-propagation"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a shape changed."""
        changed, spaces = False, _Spaces(module)
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode == "fusion":
                    changed |= spaces.propagate(instruction)
        return changed


class _Spaces:
    """The values inside of fusions, and the memory spaces that they get."""

    def __init__(self, module: HloModule) -> None:
        self.flow = HloDataflowAnalysis(module, bitcast_defines_value=True)

    def propagate(self, fusion: HloInstruction) -> bool:
        """Takes the spaces of a fusion's operands and result inside; True if a shape changed."""
        changed = False
        starts = zip(fusion.operands, fusion.fused_parameters, strict=True)
        for outside, inside in (*starts, (fusion, fusion.fused_expression_root)):
            for index, leaf in outside.shape.leaves():
                if leaf.layout is not None:
                    changed |= self._spread(self._value_at(inside, index), leaf.layout.memory_space, fusion)
        return changed

    def _value_at(self, instruction: HloInstruction, index: ShapeIndex) -> HloValue:
        return self.flow.unique_value_at(instruction, index)

    def _spread(self, start: HloValue, space: int, outermost: HloInstruction) -> bool:
        """Sets the memory space of a value wherever it stands."""
        changed, waiting, seen = False, [start], {start}
        while waiting:
            value = waiting.pop()
            for position in self.flow.positions(value):
                shape = _with_space(position.instruction.shape, position.index, space)
                changed |= shape != position.instruction.shape
                position.instruction.shape = shape
            for other in self._across_fusions(value, outermost):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return changed

    def _across_fusions(self, value: HloValue, outermost: HloInstruction) -> Iterator[HloValue]:
        """Yields what a value is called around its own fusion and in those that it enters, and what it updates."""
        for use in self.flow.uses(value):
            if use.instruction.opcode == "fusion":
                yield self._value_at(use.instruction.fused_parameters[use.operand_number], use.operand_index)
        definition, index = value.instruction, value.index
        if definition.opcode == "dynamic-update-slice":
            yield self._value_at(definition.operand(0), index)
        if definition.opcode == "fusion":
            yield self._value_at(definition.fused_expression_root, index)
        caller = definition.parent.fusion_instruction if definition.parent is not None else None
        if caller is None or caller is outermost:
            return
        if definition.opcode == "parameter":
            number = definition.attributes_as(at.ParameterAttributes).parameter_number
            yield self._value_at(caller.operand(number), index)
        for position in self.flow.positions(value):
            if position.instruction.is_root():
                yield self._value_at(caller, position.index)


def _with_space(shape: Shape, index: ShapeIndex, space: int) -> Shape:
    if index:
        shapes = list(shape.tuple_shapes)
        shapes[index[0]] = _with_space(shapes[index[0]], index[1:], space)
        return Shape.tuple_of(shapes)
    layout = shape.layout or Layout.row_major(shape.rank)
    return shape if layout.memory_space == space else shape.with_layout(replace(layout, memory_space=space))
