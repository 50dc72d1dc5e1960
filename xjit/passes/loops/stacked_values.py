"""Values of each trip that a loop keeps, one behind the other, and the loops behind it that read them back.

So does a program that differentiates a loop (jax.lax.scan): the first loop writes what its gradient needs, trip by
trip, with a dynamic-update-slice into an element of the state; the second one reads it with a dynamic-slice.
"""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import counted_loop, initial_value, state_element
from xjit.passes.framework.base import has_control_dependencies
from xjit.passes.loops.loop_state import element_reads, invariant_elements


@dataclass(frozen=True, slots=True)
class Stack:
    """Element `element` of a loop's state: behind the loop, slice k along `dimension` is what `value` was in trip k."""

    element: int
    value: HloInstruction
    dimension: int


@dataclass(frozen=True, slots=True)
class StackReads:
    """Where a loop reads a stack, element `element` of its state, that passes through: all reads are slices."""

    element: int
    stack: Stack
    slices: tuple[HloInstruction, ...]


def stacks_of(loop: HloInstruction) -> dict[int, Stack]:
    """Returns the elements that a loop with `has_elements` fills, a slice in each trip: all of them, by number."""
    counted = counted_loop(loop)
    if counted is None or counted.init != 0 or counted.step != 1:
        return {}
    found: dict[int, Stack] = {}
    for number, update in enumerate(loop.while_body.root_instruction.operands):
        if update.opcode != "dynamic-update-slice" or state_element(update.operand(0)) != number:
            continue
        dimension = _cut(update.operand(1), update.operand(0))
        if dimension is None or update.shape.dimensions[dimension] != counted.trip_count:
            continue
        start = update.operand(2 + dimension) if update.operand_count == 2 + update.shape.rank else None
        if start is not None and start.shape.is_scalar and state_element(start) == counted.index:
            found[number] = Stack(number, update.operand(1), dimension)
    return found


def stack_reads(loop: HloInstruction, producer: HloInstruction, stacks: dict[int, Stack]) -> list[StackReads]:
    """Returns the elements of a loop's state that are stacks of a loop before, and read slice by slice alone."""
    reads = element_reads(loop.while_body.parameter_instructions[0])
    root = loop.while_body.root_instruction
    found: list[StackReads] = []
    for number in invariant_elements(loop):
        start = initial_value(loop, number)
        if start is None or start.opcode != "get-tuple-element" or start.operand(0) is not producer:
            continue
        stack = stacks.get(element_index(start))
        users = [user for read in reads[number] for user in read.users if user is not root]
        if stack is None or any(has_control_dependencies(read) for read in reads[number]):
            continue
        if all(_reads_slice(user, stack.dimension) for user in users):
            found.append(StackReads(number, stack, tuple(dict.fromkeys(users))))
    return found


def _reads_slice(user: HloInstruction, dimension: int) -> bool:
    if user.opcode != "dynamic-slice" or user.operand_count != 1 + user.operand(0).shape.rank:
        return False
    return _cut(user, user.operand(0)) == dimension and not has_control_dependencies(user)


def _cut(part: HloInstruction, whole: HloInstruction) -> int | None:
    """Returns the one dimension along which a part is a slice; None if there is none, or several."""
    sizes = part.shape.dimensions, whole.shape.dimensions
    cut = [d for d, (size, all_) in enumerate(zip(*sizes, strict=True)) if size != all_]
    return cut[0] if len(cut) == 1 and sizes[0][cut[0]] == 1 else None
