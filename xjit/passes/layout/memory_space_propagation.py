"""Memory spaces of the operands and results of fusions, inside of the fusions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from xjit.hlo import HloInstruction, HloModule, Shape
from xjit.hlo import attributes as at
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.framework.base import HloModulePass, selected_computations

Place = tuple[HloInstruction, ShapeIndex]


@dataclass
class MemorySpacePropagation(HloModulePass):
    """Gives the parameters and the root of every fusion the memory spaces of its operands and of its result.

    A space goes on to every place of the same value in the fusion, through tuples, their elements and nested fusions. A
    bitcast makes a value of its own.
    """

    name = "memory-space-propagation"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a shape changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode == "fusion":
                    changed |= _propagate(instruction)
        return changed


def _propagate(fusion: HloInstruction) -> bool:
    changed = False
    starts = zip(fusion.operands, fusion.fused_parameters, strict=True)
    for outside, inside in (*starts, (fusion, fusion.fused_expression_root)):
        for index, leaf in outside.shape.leaves():
            if leaf.layout is not None:
                changed |= _spread((inside, index), leaf.layout.memory_space, fusion)
    return changed


def _spread(start: Place, space: int, outermost: HloInstruction) -> bool:
    """Sets the memory space of a value at all of its places."""
    changed, waiting, seen = False, [start], {start}
    while waiting:
        instruction, index = waiting.pop()
        shape = _with_space(instruction.shape, index, space)
        if shape != instruction.shape:
            instruction.shape = shape
            changed = True
        for place in _same_value(instruction, index, outermost):
            if place not in seen:
                seen.add(place)
                waiting.append(place)
    return changed


def _same_value(instruction: HloInstruction, index: ShapeIndex, outermost: HloInstruction) -> list[Place]:
    """The places next to one, before and behind, where the same value stands."""
    return [*_before(instruction, index, outermost), *_behind(instruction, index, outermost)]


def _before(instruction: HloInstruction, index: ShapeIndex, outermost: HloInstruction) -> list[Place]:
    if instruction.opcode == "tuple":
        return [(instruction.operand(index[0]), index[1:])]
    if instruction.opcode == "get-tuple-element":
        element = instruction.attributes_as(at.GetTupleElementAttributes).index
        return [(instruction.operand(0), (element, *index))]
    if instruction.opcode == "fusion":
        return [(instruction.fused_expression_root, index)]
    caller = _caller(instruction)
    if instruction.opcode == "parameter" and caller is not None and caller is not outermost:
        return [(caller.operand(instruction.attributes_as(at.ParameterAttributes).parameter_number), index)]
    return []


def _behind(instruction: HloInstruction, index: ShapeIndex, outermost: HloInstruction) -> list[Place]:
    found: list[Place] = []
    for user in instruction.users:
        numbers = [n for n, operand in enumerate(user.operands) if operand is instruction]
        if user.opcode == "tuple":
            found += [(user, (n, *index)) for n in numbers]
        elif user.opcode == "fusion":
            found += [(user.fused_parameters[n], index) for n in numbers]
        elif user.opcode == "get-tuple-element":
            element = user.attributes_as(at.GetTupleElementAttributes).index
            found += [(user, index[1:])] if index[0] == element else []
    caller = _caller(instruction)
    if instruction.is_root() and caller is not None and caller is not outermost:
        found.append((caller, index))
    return found


def _caller(instruction: HloInstruction) -> HloInstruction | None:
    return instruction.parent.fusion_instruction if instruction.parent is not None else None


def _with_space(shape: Shape, index: ShapeIndex, space: int) -> Shape:
    if index:
        shapes = list(shape.tuple_shapes)
        shapes[index[0]] = _with_space(shapes[index[0]], index[1:], space)
        return Shape.tuple_of(shapes)
    layout = shape.layout or Layout.row_major(shape.rank)
    return shape if layout.memory_space == space else shape.with_layout(replace(layout, memory_space=space))
