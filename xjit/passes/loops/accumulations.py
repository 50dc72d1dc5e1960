"""Sums over devices that a loop only adds up: where they are, and what each step adds without the other devices.

A collective sums an array over the devices of its groups, all-reduce to all of them, reduce-scatter a part to each. In
a loop of gradient accumulation every step adds such a sum to an element of the state. As long as nothing but linear
operations lie between, the sum over devices of the sum over steps is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, Shape
from xjit.hlo import attributes as at
from xjit.ops import build
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.loops.loop_state import element_reads

IsSame = Callable[[HloInstruction], bool]
"""Whether a value is the same on all devices."""


@dataclass(frozen=True)
class Accumulation:
    """`add` adds to `element` of a loop's state what `path`, from first to last, makes of `collective`."""

    collective: HloInstruction
    path: tuple[HloInstruction, ...]
    add: HloInstruction
    element: HloInstruction

    @property
    def index(self) -> int:
        """The index of the element."""
        return element_index(self.element)

    @property
    def is_scattered(self) -> bool:
        """Whether every device adds up a part of its own."""
        return self.collective.opcode == "reduce-scatter"

    @property
    def dimension(self) -> int:
        """The dimension of the state's element that a reduce-scatter cuts."""
        dimension = self.collective.attributes_as(at.CollectiveAttributes).dimensions[0]
        for step in self.path:
            if step.opcode == "transpose":
                dimension = step.attributes_as(at.DimensionsAttributes).dimensions.index(dimension)
        return dimension

    @property
    def whole_shape(self) -> Shape:
        """The shape of what is added up before the devices are: of a reduce-scatter, all parts."""
        if not self.is_scattered:
            return self.add.shape
        (cut,) = self.collective.attributes_as(at.CollectiveAttributes).dimensions
        sizes = list(self.add.shape.dimensions)
        sizes[self.dimension] = self.collective.operand(0).shape.dimensions[cut]
        return self.add.shape.with_dimensions(sizes)

    def step(self) -> HloInstruction:
        """Adds to the body, and returns, what this device alone contributes to the sum in one step."""
        assert self.add.parent is not None
        old, new = self.collective, self.collective.operand(0)
        for step in self.path:
            shape = self._shape_after(step, new.shape)
            operands = [new if o is old else self._operand(o, shape) for o in step.operands]
            old, new = step, self.add.parent.add_instruction(step.clone_with_new_operands(shape, operands))
        return new

    def _shape_after(self, step: HloInstruction, operand: Shape) -> Shape:
        if not self.is_scattered:
            return step.shape
        sizes: Sequence[int] = operand.dimensions
        if step.opcode == "transpose":
            sizes = [sizes[d] for d in step.attributes_as(at.DimensionsAttributes).dimensions]
        return step.shape.with_dimensions(sizes)

    def _operand(self, other: HloInstruction, shape: Shape) -> HloInstruction:
        """Returns another operand of a step: where all parts are added up, a scalar's broadcast to the whole shape."""
        if not self.is_scattered:
            return other
        assert other.parent is not None
        wanted = replace(shape, element_type=other.shape.element_type)
        return other.parent.add_instruction(build.broadcast_scalar(other.operand(0), wanted))


def find_accumulations(loop: HloInstruction, is_same: IsSame, scatters: bool) -> list[Accumulation]:
    """Returns the accumulations of a loop that has elements (`has_elements`), in the order of the body."""
    found: list[Accumulation] = []
    for collective in loop.while_body.instructions:
        if _is_sum(collective, scatters):
            found += _ends(loop, collective, is_same)
    return found


def _is_sum(instruction: HloInstruction, scatters: bool) -> bool:
    if instruction.opcode != "all-reduce" and not (scatters and instruction.opcode == "reduce-scatter"):
        return False
    if instruction.operand_count != 1 or not instruction.shape.is_static_array or has_control_dependencies(instruction):
        return False
    a = instruction.attributes_as(at.CollectiveAttributes)
    return simple_opcode(instruction.to_apply) == "add" and not a.constrain_layout and instruction.sharding is None


def _ends(loop: HloInstruction, collective: HloInstruction, is_same: IsSame) -> list[Accumulation]:
    """Returns the accumulations that all uses of a collective end at; none if a use does not."""
    found: list[Accumulation] = []
    waiting: list[tuple[HloInstruction, tuple[HloInstruction, ...]]] = [(collective, ())]
    seen: set[HloInstruction] = set()
    while waiting:
        value, path = waiting.pop()
        if not seen.isdisjoint(value.users):
            return []  # a product of the collective with itself
        seen.update(value.users)
        for user in value.users:
            element = _accumulated(loop, user, value)
            if element is not None:
                found.append(Accumulation(collective, path, user, element))
            elif _is_linear(user, value, is_same, collective.opcode == "reduce-scatter"):
                waiting.append((user, (*path, user)))
            else:
                return []
        if value.is_root() or not value.user_count:
            return []
    return sorted(found, key=lambda a: a.index)


def _accumulated(loop: HloInstruction, add: HloInstruction, value: HloInstruction) -> HloInstruction | None:
    """Returns the element that becomes itself plus `value`, and that nothing else reads or writes."""
    root, state = loop.while_body.root_instruction, loop.while_body.parameter_instructions[0]
    if add.opcode != "add" or add.users != (root,) or has_control_dependencies(add):
        return None
    if add.operands.count(value) != 1 or root.operands.count(add) != 1:
        return None
    (old,) = [o for o in add.operands if o is not value]
    if old.opcode != "get-tuple-element" or old.operand(0) is not state or old.users != (add,):
        return None
    index = element_index(old)
    reads = element_reads(state)[index] + element_reads(loop.while_condition.parameter_instructions[0])[index]
    return old if reads == [old] and root.operand(index) is add else None


def _is_linear(user: HloInstruction, value: HloInstruction, is_same: IsSame, is_cut: bool) -> bool:
    """Whether f(a) + f(b) is f(a + b) for what `user` makes of `value`, on every device the same.

    `is_cut`: the value is to be replaced by a larger one, so that other operands must be scalars, broadcast.
    """
    others = [o for o in user.operands if o is not value]
    if has_control_dependencies(user) or len(others) != user.operand_count - 1 or user.shape.element_type.is_complex:
        return False
    if user.opcode == "convert":
        return user.shape.element_type.is_float and value.shape.element_type.is_float
    if user.opcode in ("copy", "negate", "transpose"):
        return True
    if user.opcode in ("reshape", "slice", "dynamic-slice") and not is_cut:
        return user.operand(0) is value and all(map(is_same, others))
    if not all(map(is_same, others)) or (is_cut and not all(map(_is_scalar, others))):
        return False
    if user.opcode == "select":
        return user.operand(0) is not value and all(_is_zero(o) for o in user.operands[1:] if o is not value)
    is_quotient = user.opcode == "divide" and user.operand(0) is value and user.shape.element_type.is_float
    return user.opcode == "multiply" or is_quotient


def _is_scalar(instruction: HloInstruction) -> bool:
    return instruction.opcode == "broadcast" and instruction.operand(0).shape.is_scalar


def _is_zero(instruction: HloInstruction) -> bool:
    value = instruction.operand(0) if instruction.opcode == "broadcast" else instruction
    return value.opcode == "constant" and not value.attributes_as(at.ConstantAttributes).literal.array.any()
