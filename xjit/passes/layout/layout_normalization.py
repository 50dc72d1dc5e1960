"""Arrays are row-major: the order of dimensions in memory becomes the order of dimensions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from xjit.hlo import HloComputation, HloInstruction, HloModule, Literal, Shape
from xjit.hlo.attributes import ConstantAttributes
from xjit.hlo.types.layout import Layout
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.layout.physical_dimensions import PHYSICAL, Physical, order_of


@dataclass
class LayoutNormalization(HloModulePass):
    """Computes on bitcasts of arrays to row-major ones of the same bytes, and writes copies as transposes.

    Each result is bitcast to the shape it had, which stays what opcodes read that the pass does not renumber: dots,
    reduces, sorts, calls. What these give, and parameters, are bitcast to a row-major array and back. Arrays with tiles
    or in another memory space, constants without elements, and what is sharded, stay as they are. Windows are summed in
    the order of memory.
    """

    name = "layout-normalization"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Renumbers, producers first; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            changed |= _Normalizer(computation).run()
        return changed


class _Normalizer:
    """One computation, and the row-major bitcasts of its arrays that were made."""

    def __init__(self, computation: HloComputation) -> None:
        self.computation = computation
        self.views: dict[HloInstruction, HloInstruction] = {}

    def run(self) -> bool:
        changed = False
        for instruction in self.computation.make_instruction_post_order():
            if instruction.parent is self.computation and _is_concerned(instruction):
                changed |= self._rewrite(instruction) or self._read_by_way_of_view(instruction)
        return changed

    def _read_by_way_of_view(self, instruction: HloInstruction) -> bool:
        """Puts a row-major bitcast, and one back, between an array that is not row-major and its users."""
        shape, users = normal_shape(instruction.shape), instruction.users
        if shape == instruction.shape or not users or _is_view(instruction) or all(map(_is_view, users)):
            return False
        into = Expansion(instruction)
        back = _bitcast(self._view(instruction, into), instruction.shape, into)
        for user in users:
            if not _is_view(user):
                instruction.replace_use_with(user, back)
        return True

    def _rewrite(self, instruction: HloInstruction) -> bool:
        into = Expansion(instruction)
        if instruction.opcode == "constant":
            new = into.constant(_normal_literal(instruction))
        else:
            rule = PHYSICAL.get(instruction.opcode)
            physical = rule(instruction) if rule is not None else None
            if physical is None:
                return False
            new = self._made(instruction, physical, into)
        if new.shape != instruction.shape:
            new = into.like_source("bitcast", [new])
        into.replace_source(new)
        return True

    def _made(self, instruction: HloInstruction, physical: Physical, into: Expansion) -> HloInstruction:
        operands = [self._view(o, into) for o in physical.operands]
        shape = normal_shape(instruction.shape)
        if not physical.opcode:
            return operands[0] if operands[0].shape == shape else _bitcast(operands[0], shape, into)
        if physical.last_order:
            operands[-1] = into.add(build.transpose(operands[-1], physical.last_order))
        called = instruction.called_computations
        new = HloInstruction.create(physical.opcode, shape, operands, physical.attributes, called, instruction.name)
        return into.add(new)

    def _view(self, array: HloInstruction, into: Expansion) -> HloInstruction:
        """Returns the row-major array of the bytes of an array."""
        shape = normal_shape(array.shape)
        if array.shape == shape:
            return array
        if array.opcode == "bitcast" and array.operand(0).shape == shape:
            return array.operand(0)
        view = self.views.get(array)
        if view is None or view.parent is None:
            view = self.views[array] = _bitcast(array, shape, into)
        return view


def normal_shape(shape: Shape) -> Shape:
    """Returns the row-major shape of the same bytes."""
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in order_of(shape)])


def _bitcast(array: HloInstruction, shape: Shape, into: Expansion) -> HloInstruction:
    return into.add(HloInstruction.create("bitcast", shape, [array]))


def _is_view(instruction: HloInstruction) -> bool:
    """Whether an instruction is a bitcast to a row-major array of the same bytes, or from one."""
    if instruction.opcode != "bitcast":
        return False
    shape, source = instruction.shape, instruction.operand(0).shape
    plain = _is_plain(shape) and _is_plain(source)
    return plain and (shape == normal_shape(source) or source == normal_shape(shape))


def _is_concerned(instruction: HloInstruction) -> bool:
    """Whether an instruction has plain arrays only, and one of them is not row-major."""
    shapes = [instruction.shape, *(o.shape for o in instruction.operands)]
    if instruction.sharding is not None or not all(map(_is_plain, shapes)):
        return False
    if instruction.opcode == "constant" and not instruction.shape.num_elements:
        return False
    return any(order_of(shape) != tuple(range(shape.rank)) for shape in shapes)


def _is_plain(shape: Shape) -> bool:
    """Whether a layout, if there is one, is an order of dimensions and nothing else."""
    return shape.is_static_array and (shape.layout is None or shape.layout == Layout(shape.layout.minor_to_major))


def _normal_literal(constant: HloInstruction) -> Literal:
    array = constant.attributes_as(ConstantAttributes).literal.array
    return Literal(normal_shape(constant.shape), np.transpose(array, order_of(constant.shape)))
