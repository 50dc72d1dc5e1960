"""Stable sorts as unstable ones that compare positions where the keys are equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import CompareAttributes, IotaAttributes, ParameterAttributes, SortAttributes
from xjit.ops import build
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion


@dataclass
class StableSortExpander(OpExpander):
    """Sorts an iota along, or one that is an operand already; of two elements that compare the same both ways, the one
    with the lower position comes first.
    """

    name = "stable-sort-expander"
    leave_alone: Callable[[HloInstruction], bool] = lambda _: False  # stable sorts that the emitter does as such
    opcodes = frozenset({"sort"})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns the sorted operands, or None if the sort is left alone, or need not be stable."""
        attributes = instruction.attributes_as(SortAttributes)
        if not attributes.is_stable or self.leave_alone(instruction):
            return None
        dimension = attributes.dimensions[0]
        operands = list(instruction.operands)
        position = next((i for i, o in enumerate(operands) if _is_position(o, dimension)), len(operands))
        if position == len(operands):
            operands.append(_positions(into, operands[0].shape, dimension))
        comparator = into.embed(_comparator(instruction.to_apply, position, operands[position].shape.element_type))
        unstable = replace(attributes, is_stable=False)
        shapes = [o.shape for o in operands]
        shape = Shape.tuple_of(shapes) if len(shapes) > 1 else shapes[0]
        sort = into.add(HloInstruction.create("sort", shape, operands, unstable, [comparator]))
        if len(operands) == instruction.operand_count:
            return sort
        elements = [into.element(sort, i) for i in range(instruction.operand_count)]
        return into.tuple_of(*elements) if instruction.shape.is_tuple else elements[0]


def _is_position(operand: HloInstruction, dimension: int) -> bool:
    """Whether an operand counts along the sorted dimension, in a type that holds every position."""
    return (
        operand.opcode == "iota"
        and operand.attributes_as(IotaAttributes).iota_dimension == dimension
        and operand.shape.element_type in (PrimitiveType.S32, PrimitiveType.S64)
        and operand.shape.element_type is _position_type(operand.shape.dimensions[dimension])
    )


def _position_type(size: int) -> PrimitiveType:
    return PrimitiveType.S32 if size < 1 << 31 else PrimitiveType.S64


def _positions(into: Expansion, shape: Shape, dimension: int) -> HloInstruction:
    element_type = _position_type(shape.dimensions[dimension])
    iota = shape.with_element_type(element_type)
    return into.add(HloInstruction.create("iota", iota, [], IotaAttributes(dimension)))


def _comparator(original: HloComputation, position: int, element_type: PrimitiveType) -> HloComputation:
    """Returns a copy of a comparator that compares operand `position` where it says the same of (a, b) and (b, a)."""
    computation = original.new_computation(f"{original.name}.stable")
    forward = dict[HloInstruction, HloInstruction]()
    for parameter in original.parameter_instructions:
        forward[parameter] = computation.add_instruction(parameter.clone_with_new_operands(parameter.shape, []))
    parameters = list(forward.values())
    while len(parameters) < 2 * position + 2:
        scalar = HloInstruction.create_parameter(len(parameters), Shape.array(element_type), "position")
        parameters.append(computation.add_instruction(scalar))
    ordered = original.clone_instructions(computation, dict(forward))[original.root_instruction]
    swapped = {p: parameters[_number(p) ^ 1] for p in original.parameter_instructions}
    reversed_ = original.clone_instructions(computation, swapped)[original.root_instruction]
    add = computation.add_instruction
    same = add(build.make("compare", ordered, reversed_, attributes=CompareAttributes("EQ")))
    lower = add(build.compare("LT", parameters[2 * position], parameters[2 * position + 1]))
    computation.set_root_instruction(add(build.select(same, lower, ordered)))
    return computation


def _number(parameter: HloInstruction) -> int:
    return parameter.attributes_as(ParameterAttributes).parameter_number
