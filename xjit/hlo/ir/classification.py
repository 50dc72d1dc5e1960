"""Questions about an instruction that passes ask: is it elementwise, fusible, a collective, only another view?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.shape import ShapeIndex

if TYPE_CHECKING:
    from xjit.hlo.ir.instruction import HloInstruction

_NEVER_FUSED = frozenset({"domain", "parameter", "while", "conditional", "call"})
_ALWAYS_FUSIBLE = frozenset({"fusion", "map", "reduce", "reduce-window"})
_ALL_REDUCES = frozenset({"all-reduce", "all-reduce-start", "all-reduce-done"})


# -- elementwise


def is_elementwise(instruction: HloInstruction) -> bool:
    """Whether element i of the result depends only on elements i of the operands."""
    if instruction.op.name != "fusion":
        return _is_elementwise_op(instruction)
    stack = [instruction]
    while stack:
        for item in stack.pop().fused_instructions_computation.instructions:
            if item.opcode == "fusion":
                stack.append(item)
            elif item.opcode not in ("parameter", "constant") and not _is_elementwise_op(item):
                return False
    return True


def _is_elementwise_op(instruction: HloInstruction) -> bool:
    if instruction.op.name == "map":
        dimensions = instruction.attributes_as(at.DimensionsAttributes).dimensions
        return not dimensions or dimensions == tuple(range(instruction.shape.rank))
    if instruction.op.name == "bitcast-convert":  # between types of different widths it adds or drops a dimension
        return instruction.shape.same_dimensions(instruction.operand(0).shape)
    return instruction.op.has(Trait.ELEMENTWISE)


def is_elementwise_on_operand(instruction: HloInstruction, i: int) -> bool:
    """Whether element k of the result depends only on element k of operand `i`, whatever holds for the others.

    InvalidArgument if there is no such operand.
    """
    if not 0 <= i < instruction.operand_count:
        raise InvalidArgument(f"{instruction.name} has {instruction.operand_count} operands, none numbered {i}")
    if instruction.opcode == "dynamic-update-slice":
        return i == 0
    if instruction.opcode != "fusion":
        return is_elementwise(instruction)
    if instruction.is_custom_fusion():
        return False
    return _elementwise_to_the_root(instruction.fused_instructions_computation.parameter_instruction(i))


def _elementwise_to_the_root(parameter: HloInstruction) -> bool:
    """Whether all paths from a parameter to the root of its computation are elementwise on the value they carry."""
    stack, seen = [parameter], {parameter}
    while stack:
        item = stack.pop()
        for user in item.users:
            if user.opcode != "tuple" and not all(
                is_elementwise_on_operand(user, k) for k, operand in enumerate(user.operands) if operand is item
            ):
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return True


# -- fusible


def is_fusible(instruction: HloInstruction) -> bool:
    """Whether the instruction may be put into a fusion."""
    opcode = instruction.opcode
    if opcode in _NEVER_FUSED:
        return False
    if opcode in _ALWAYS_FUSIBLE:
        return True
    if opcode == "rng":  # two copies would give two values
        return instruction.user_count <= 1
    return not instruction.has_side_effect()


# -- collectives


def is_all_reduce(instruction: HloInstruction, has_channel: bool) -> bool:
    """Whether this is an all-reduce, in any of its forms, that has a channel or has none."""
    source = _all_reduce(instruction)
    return source is not None and (source.channel_id is not None) == has_channel


def _all_reduce(instruction: HloInstruction) -> HloInstruction | None:
    """The instruction that has the channel of an all-reduce, its start, done or asynchronous form; None for others."""
    if instruction.opcode in ("async-start", "async-update", "async-done"):
        instruction = instruction.called_computations[0].root_instruction
    if instruction.opcode not in _ALL_REDUCES:
        return None
    return instruction.operand(0) if instruction.opcode == "all-reduce-done" else instruction


# -- views


def is_effective_bitcast(instruction: HloInstruction) -> bool:
    """Whether the result's bytes are the operand's bytes: a bitcast, or a transpose that only renames dimensions."""
    if instruction.opcode == "bitcast":
        return True
    if instruction.opcode != "transpose":
        return False
    result, operand = instruction.shape, instruction.operand(0).shape
    if any(s.layout is not None and s.layout.tiles for s in (result, operand)):
        return False
    dimensions = instruction.attributes_as(at.DimensionsAttributes).dimensions
    found = [dimensions[d] for d in result.minor_to_major if result.dimensions[d] != 1]
    return found == [d for d in operand.minor_to_major if operand.dimensions[d] != 1]


def changes_element_type(instruction: HloInstruction) -> bool:
    """Whether this is a bitcast to another type: it has the operand's bytes, but not its elements."""
    if instruction.opcode != "bitcast" or not instruction.shape.is_array:
        return False
    return instruction.shape.element_type is not instruction.operand(0).shape.element_type


def is_view(instruction: HloInstruction) -> bool:
    """Whether this is a bitcast that has the operand's elements, under other indices."""
    return instruction.opcode == "bitcast" and not changes_element_type(instruction)


def latest_non_gte_ancestor_and_index(instruction: HloInstruction) -> tuple[HloInstruction, ShapeIndex]:
    """Returns the latest ancestor that is no get-tuple-element, and at which index of its value this one reads."""
    index: list[int] = []
    while instruction.opcode == "get-tuple-element":
        index.append(instruction.attributes_as(at.GetTupleElementAttributes).index)
        instruction = instruction.operand(0)
    return instruction, tuple(reversed(index))


# -- side effects


def has_side_effect_no_recurse(instruction: HloInstruction) -> bool:
    """Whether the instruction itself has a side effect (called computations are not looked at)."""
    op = instruction.op
    if op.name == "custom-call":
        return instruction.attributes_as(at.CustomCallAttributes).custom_call_has_side_effect
    if op.has(Trait.COLLECTIVE):  # XLA treats a pinned layout as an observable effect
        return bool(getattr(instruction.attributes, "constrain_layout", False))
    return op.has(Trait.SIDE_EFFECT)


def has_side_effect(instruction: HloInstruction) -> bool:
    """Whether this instruction or anything it calls has a side effect."""
    stack = [instruction]
    seen: set[object] = set()
    while stack:
        item = stack.pop()
        if has_side_effect_no_recurse(item):
            return True
        for computation in item.called_computations:
            if computation not in seen:
                seen.add(computation)
                stack.extend(computation.instructions)
    return False
