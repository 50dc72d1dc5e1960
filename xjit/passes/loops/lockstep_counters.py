"""Integers of a loop's state that count in lockstep become one: the others follow from it."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.ops import build
from xjit.ops.reducers import integer_limits
from xjit.passes.analysis.while_loop_analysis import counted_loop, initial_number, step_of
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.loops.loop_state import element_reads, resize


@dataclass(frozen=True, slots=True)
class _Follower:
    """Element `index` is `factor * (element base) + offset` in every trip, in the arithmetic of its type."""

    index: int
    base: int
    factor: int
    offset: int


def merge_counters(loop: HloInstruction) -> HloInstruction | None:
    """Removes the elements that another one gives, and computes them where they are read; None if there is none.

    Both start at constants, and the step of the one is a multiple of that of the other.
    """
    followers = _followers(loop)
    if not followers:
        return None
    own_computations(loop)
    for callee in (loop.while_condition, loop.while_body):
        state = callee.parameter_instructions[0]
        reads = element_reads(state)
        for follower in followers:
            if reads[follower.index]:
                value = _value(callee, state, follower.base, follower, reads[follower.index][0])
                for read in reads[follower.index]:
                    read.replace_all_uses_with(value)
    by_index = {follower.index: follower for follower in followers}
    keep = [i for i in range(len(loop.shape.tuple_shapes)) if i not in by_index]
    positions = {old: new for new, old in enumerate(keep)}

    def value_after(new: HloInstruction, index: int) -> HloInstruction:
        assert new.parent is not None
        return _value(new.parent, new, positions[by_index[index].base], by_index[index], new)

    return resize(loop, keep, (), value_after)


def _followers(loop: HloInstruction) -> list[_Follower]:
    counted = counted_loop(loop)
    steps = _counters(loop)
    order: Sequence[int] = sorted(steps, key=lambda i: (counted is None or i != counted.index, i))
    bases: dict[PrimitiveType, int] = {}
    followers: list[_Follower] = []
    for index in order:
        kind = loop.shape.tuple_shapes[index].element_type
        base = bases.setdefault(kind, index)
        (start, step), (base_start, base_step) = steps[index], steps[base]
        if index != base and step % base_step == 0:
            factor = step // base_step
            followers.append(_Follower(index, base, factor, start - factor * base_start))
    return followers


def _counters(loop: HloInstruction) -> dict[int, tuple[int, int]]:
    """Returns what the elements that count start at, and their steps."""
    found: dict[int, tuple[int, int]] = {}
    for index, shape in enumerate(loop.shape.tuple_shapes):
        if shape.is_scalar and shape.element_type.is_integer:
            start, step = initial_number(loop, index), step_of(loop, index)
            if start is not None and step:
                found[index] = start, step
    return found


def _value(
    computation: HloComputation, state: HloInstruction, position: int, follower: _Follower, like: HloInstruction
) -> HloInstruction:
    """Adds what computes an element of another one; it inherits the annotations of `like`."""

    def add(instruction: HloInstruction) -> HloInstruction:
        inherit_annotations(computation.add_instruction(instruction), like)
        return instruction

    value = add(HloInstruction.create_get_tuple_element(state, position))
    for opcode, number, neutral in (("multiply", follower.factor, 1), ("add", follower.offset, 0)):
        if number != neutral:
            value = add(build.make(opcode, value, add(_number(number, value.shape.element_type))))
    return value


def _number(value: int, kind: PrimitiveType) -> HloInstruction:
    """A constant, wrapped around as arithmetic of its type does."""
    lowest = integer_limits(kind)[0]
    return build.make_constant((value - lowest) % (1 << kind.bit_width) + lowest, kind)
